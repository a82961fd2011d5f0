"""What can go wrong. Every error of this package is a LatchkeyError.

Each keeps the arguments that it was made with, and makes its text of them: so it can be pickled, as between processes.
"""

from __future__ import annotations

from typing import Mapping, Optional, Type

from latchkey.wire import Problem


class LatchkeyError(Exception):
    """Base of all errors of this package."""


class Unreachable(LatchkeyError):
    """No server gave an answer in the time there was; a proxy's own page is none. unsure says that what was asked may have
    been done."""

    unsure = False


class NoToken(LatchkeyError):
    """There is no token to send: the function that was to give it failed, or gave what is none. Nothing was sent with it."""


class NotAcquired(LatchkeyError):
    """The lock is another's, and the time to wait for it is over. Nothing of the claim is left.

    holder, metadata and fencing_token are those of who holds it, None or empty when nobody was told of. queue_length
    counts the claims that wait, None when it was not told.
    """

    def __init__(self, name: str, problem: Optional[Problem] = None) -> None:
        super().__init__(name, problem)
        by = problem.holder if problem else None
        self.name = name
        self.holder: Optional[str] = by.holder if by else None
        self.metadata: Mapping[str, str] = by.metadata if by else {}
        self.fencing_token: Optional[int] = by.fencing_token if by else None
        self.queue_length: Optional[int] = problem.queue_length if problem else None

    def __str__(self) -> str:
        return f"{self.name!r} is held by {self.holder or 'another'}"


class LockNotHeld(LatchkeyError):
    """The lock is not held (any more): it was lost, released, or belongs to the process that forked this one."""


class LockLost(LockNotHeld):
    """The service said that the lock, or the lease it was on, is over. Another may hold it by now.

    __cause__ is the answer: LockNotFound or LeaseNotFound, LockBroken if an administrator took it away, or MaxHoldReached if
    it is renewed no more; then it stands until one TTL after its last renewal.
    """


class LockUncertain(LockNotHeld):
    """No renewal was done in time, so nobody can tell: no server answered, or the token was refused (see __cause__).

    Raised before the moment at which another can be granted it.
    """


class StaleToken(LatchkeyError):
    """A token lower than the highest that was accepted: whoever sent it is not the holder any more."""

    def __init__(self, name: str, token: int, highest: int) -> None:
        super().__init__(name, token, highest)
        self.name, self.token, self.highest = name, token, highest

    def __str__(self) -> str:
        return f"token {self.token} for {self.name!r} is stale: {self.highest} was accepted"


class ProblemError(LatchkeyError):
    """The service refused or failed. Branch on the class or on code; an unknown code is of this class itself.

    status is the HTTP status. retry_after is in seconds, None when the answer had none. unsure says that this try or an
    earlier one of the same call may have been done.
    """

    code = ""
    unsure = False

    def __init__(self, problem: Problem, retry_after: Optional[float] = None) -> None:
        super().__init__(problem, retry_after)
        self.problem = problem
        self.status, self.code = problem.status, problem.code
        self.title, self.detail = problem.title, problem.detail
        self.retry_after = retry_after

    def __str__(self) -> str:
        places = "; ".join(f"{fault.place}: {fault.detail}" for fault in self.problem.errors)
        text = self.detail + (f" ({places})" if places else "")
        if self.problem.reason:
            text += f": {self.problem.reason}"
        return f"{self.status} {self.code or self.title}: {text}"


class InvalidRequest(ProblemError):
    """The input is at fault: problem.errors names each place."""


class Unauthorized(ProblemError):
    """There was no token or certificate that the service knows."""


class Forbidden(ProblemError):
    """The principal is known, and may not do this with this name."""


class NotFound(ProblemError):
    """No such path: the base URL is not that of the service."""


class LockNotFound(ProblemError):
    """No such claim stands: it was released, ran out or lapsed, or never was."""


class LeaseNotFound(ProblemError):
    """No such lease stands: it was ended, ran out, or never was."""


class MethodNotAllowed(ProblemError):
    """The path has other methods."""


class RequestTimeout(ProblemError):
    """The body took too long to arrive."""


class LockHeld(ProblemError):
    """Another claim has the name: see problem.holder and problem.queue_length."""


class LockQueued(ProblemError):
    """The lock is still queued, and has no lease to renew."""


class PayloadTooLarge(ProblemError):
    """The body is over 64 KiB."""


class UnsupportedMediaType(ProblemError):
    """The body is not JSON."""


class IdempotencyKeyReused(ProblemError):
    """The key stands for a claim that asked for something else."""


class TooManyWaiters(ProblemError):
    """The queue of this name is full, or the principal waits for as many locks as it may. Nothing was done."""


class TooManyClaims(ProblemError):
    """The principal has as many claims as it may. Nothing was done."""


class TooManyLeases(ProblemError):
    """The principal has as many leases as it may. Nothing was done."""


class TooManyStreams(ProblemError):
    """As many streams are open as may be. Nothing was done."""


class TooManyRequests(ProblemError):
    """The principal or the address sends more requests than it may. Nothing was done."""


class Internal(ProblemError):
    """A fault of the service. What was asked may or may not have been done."""


class Overloaded(ProblemError):
    """The replica serves as many waiters as it may. Nothing was done."""


class Unavailable(ProblemError):
    """The store cannot be used now. Nothing was done."""


class OutcomeUnknown(ProblemError):
    """The store did not answer in time: what was asked may or may not have been done."""


class Draining(ProblemError):
    """The replica is going away, and granted nothing."""


class PlaceLost(ProblemError):
    """The claim vanished while it was waited on. Nothing of it stands."""


class LockBroken(ProblemError):
    """An administrator took the lock away. Whatever was held may be another's by now."""

    @property
    def reason(self) -> Optional[str]:
        """What the administrator gave as the reason."""
        return self.problem.reason


class MaxHoldReached(ProblemError):
    """It was held for as long as the service allows: it is renewed no more, and runs out one TTL after its last renewal."""


PROBLEMS: Mapping[str, Type[ProblemError]] = {
    "invalid_request": InvalidRequest,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "lock_not_found": LockNotFound,
    "lease_not_found": LeaseNotFound,
    "method_not_allowed": MethodNotAllowed,
    "request_timeout": RequestTimeout,
    "lock_held": LockHeld,
    "lock_queued": LockQueued,
    "payload_too_large": PayloadTooLarge,
    "unsupported_media_type": UnsupportedMediaType,
    "idempotency_key_reused": IdempotencyKeyReused,
    "too_many_waiters": TooManyWaiters,
    "too_many_claims": TooManyClaims,
    "too_many_leases": TooManyLeases,
    "too_many_streams": TooManyStreams,
    "too_many_requests": TooManyRequests,
    "internal": Internal,
    "overloaded": Overloaded,
    "unavailable": Unavailable,
    "outcome_unknown": OutcomeUnknown,
    "draining": Draining,
    "place_lost": PlaceLost,
    "lock_broken": LockBroken,
    "max_hold_reached": MaxHoldReached,
}
"""The class of each code."""


def problem_error(problem: Problem, retry_after: Optional[float]) -> ProblemError:
    """The error of the problem's code."""
    return PROBLEMS.get(problem.code, ProblemError)(problem, retry_after)
