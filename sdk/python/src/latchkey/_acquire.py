"""Getting a lock: claiming, waiting with a place that is kept, and leaving nothing behind when it comes to nothing."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Optional, TypeVar

from latchkey._abort import Abort
from latchkey._api import Api, ask_request, claim_request
from latchkey._calls import Backoff, Request
from latchkey._clock import clock
from latchkey._heartbeat import RENEWALS_IN_A_TTL, margin
from latchkey.errors import (
    InvalidRequest,
    LatchkeyError,
    LeaseNotFound,
    LockHeld,
    LockLost,
    LockNotFound,
    NotAcquired,
    PlaceLost,
    ProblemError,
    Unreachable,
)
from latchkey.wire import Claim

log = logging.getLogger("latchkey")

T = TypeVar("T")

# A server that falls silent costs a slice and the patience with its answer, and each after it the short ones: also the
# third must be asked well before the place lapses, 15 s after the last that was heard, if the service is set as it comes.
LONGEST_SLICE = 7
PATIENCE = 3.0
SHORT_SLICE = 1
SHORT_PATIENCE = 1.0

# The service waits for whole seconds: the last of them may end so much after the wait, or else what is left of it is asked
# again and again in such pauses. The answer then has its own time to come.
LATEST_END = 0.25
REST_PAUSE = 0.2
TO_ANSWER = 0.5

CLEANUP_BOUND = 2.0


@dataclass(frozen=True)
class Wanted:
    """What is claimed: on a lease of its own with this TTL, or on the lease given. wait is in seconds."""

    name: str
    wait: float
    ttl: Optional[int]
    lease_id: Optional[str]
    holder: Optional[str]
    metadata: Optional[Mapping[str, str]]
    key: str
    own_key: bool
    """The key is the caller's, and not to be changed."""


def wanted(
    name: str,
    wait: Optional[float],
    ttl: Optional[int],
    lease_id: Optional[str],
    holder: Optional[str],
    metadata: Optional[Mapping[str, str]],
    key: Optional[str],
) -> Wanted:
    if wait is not None and not wait >= 0:
        raise ValueError("wait is a number of seconds, 0 or more")
    own = key is not None
    return Wanted(name, wait or 0.0, ttl, lease_id, holder, metadata, _new_key() if key is None else key, own)


def _new_key() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Grant:
    """A held claim. Its TTL counts from when the request was sent that got it without waiting, or that renewed it."""

    claim: Claim
    sent: float
    ttl: float

    def fresh(self) -> bool:
        """Whether there is time left to use it: the answer may have been slow, or this process paused."""
        return clock() < self.sent + self.ttl - margin(self.ttl)


class Acquisition:
    """One attempt to get one lock."""

    def __init__(self, api: Api, want: Wanted, abort: Abort) -> None:
        self._api, self._want, self._abort = api, want, abort
        self._end = clock() + want.wait
        self._claimed = False
        self._id: Optional[str] = None
        self._slice = LONGEST_SLICE
        self._tries = 0
        self._asked_for = 0

    def run(self, keep: Callable[[Grant], T]) -> T:
        """Returns what keep makes of the grant. Whatever else ends this leaves no claim behind, as far as can be."""
        backoff = Backoff()
        try:
            while True:
                try:
                    grant = self._take()
                    while not grant.fresh():
                        grant = self._confirm(grant.claim)
                    return keep(grant)
                except (LockNotFound, PlaceLost) as gone:
                    if clock() >= self._end:
                        raise NotAcquired(self._want.name) from gone
                    self._begin_again()
                    self._abort.sleep(min(backoff.next(), max(self._end - clock(), 0)))
        except NotAcquired:
            raise
        except LockHeld as held:
            if held.unsure and self._id is None:
                self._leave()  # an earlier try may still be on its way
            raise NotAcquired(self._want.name, held.problem) from held
        except LeaseNotFound as gone:
            raise LockLost(f"lock {self._want.name!r}: {gone.detail}") from gone
        except BaseException as err:
            if self._id is not None or (self._claimed and getattr(err, "unsure", True)):
                self._leave()
            raise

    def _begin_again(self) -> None:
        log.info("lock %r: the place in the queue was lost, claiming again", self._want.name)
        if not self._want.own_key:
            self._want = replace(self._want, key=_new_key())
        self._claimed, self._id = False, None

    def _take(self) -> Grant:
        # Without waiting: so the id is known from the first answer on, and a place can always be left.
        until = max(self._end, self._api.until())
        self._claimed = True
        outcome = self._api.claim(self._claim(queue=self._want.wait > 0), until, self._abort)
        self._id = outcome.value.id
        if outcome.value.held:
            return Grant(outcome.value, outcome.sent, outcome.value.ttl_seconds)
        return self._wait()

    def _wait(self) -> Grant:
        backoff = Backoff()
        while self._await_rest():
            self._tries = 0
            try:
                until = self._end + LATEST_END + TO_ANSWER
                outcome = self._api.calls.call(self._ask, Claim.read, until, self._abort, strict=True)
            except Unreachable:
                break  # and this is the end of the wait: the last try may find a server that answers
            except InvalidRequest:
                # This server does not wait as long as others do.
                if self._asked_for <= 1:
                    raise
                self._slice = self._asked_for // 2
                continue
            if outcome.value.held:
                return self._confirm(outcome.value)
            if clock() - outcome.sent < self._asked_for / 2:
                # It did not wait: it is going away.
                self._api.calls.turn()
                self._abort.sleep(min(backoff.next(), max(self._end - clock(), 0)))
        return self._last_try()

    def _await_rest(self) -> bool:
        """Whether to ask again, now: what is left of the wait, if less than a second, is waited for here."""
        if self._seconds() == 0:
            self._abort.sleep(min(REST_PAUSE, max(self._end - clock(), 0)))
        return clock() < self._end

    def _seconds(self) -> int:
        """How long to ask to wait now, in whole seconds."""
        return max(int(min(self._end - clock() + LATEST_END, self._slice)), 0)

    def _claim(self, queue: bool) -> Request:
        want = self._want
        return claim_request(
            want.name,
            ttl=want.ttl,
            lease_id=want.lease_id,
            queue=queue,
            holder=want.holder,
            metadata=want.metadata,
            key=want.key,
        )

    def _ask(self) -> Request:
        """Asks the servers that come after one that did not answer for a short wait first, which keeps the place there."""
        hurry = 0 < self._tries < len(self._api.calls.servers)
        self._tries += 1
        self._asked_for = min(self._seconds(), SHORT_SLICE) if hurry else self._seconds()
        request = ask_request(self._id or "", self._asked_for)
        return replace(request, patience=SHORT_PATIENCE if hurry else PATIENCE)

    def _confirm(self, claim: Claim) -> Grant:
        """Renews at once: nobody knows how long the grant was on its way."""
        until = max(self._end, self._api.until())
        try:
            outcome = self._api.renew(claim.lease_id, until, self._abort, claim.ttl_seconds / RENEWALS_IN_A_TTL)
        except LeaseNotFound as gone:
            if self._want.lease_id is None:
                raise LockNotFound(gone.problem) from gone
            raise
        return Grant(claim, outcome.sent, outcome.value.ttl_seconds)

    def _last_try(self) -> Grant:
        """The same claim without queue: held after all, or the place is left and the answer says who holds."""
        outcome = self._api.claim(self._claim(queue=False), clock() + CLEANUP_BOUND, self._abort, strict=True)
        if not outcome.value.held:
            # It stands on, as another request of ours may wait for it at another server: one whose line broke, say.
            self._leave()
            raise NotAcquired(self._want.name)
        return Grant(outcome.value, outcome.sent, outcome.value.ttl_seconds)

    def _leave(self) -> None:
        """Takes back what was claimed, in a time of its own. What fails here lapses by itself."""
        until, undisturbed = clock() + CLEANUP_BOUND, Abort()
        try:
            if self._id is None:
                self._id = self._find(until, undisturbed)
            self._api.remove_lock(self._id, until, undisturbed, strict=True)
        except LockHeld:
            pass  # by another: ours does not stand
        except LatchkeyError as err:
            log.debug("lock %r: the claim was not taken back: %s", self._want.name, err)

    def _find(self, until: float, abort: Abort) -> str:
        """The id of what may stand: the same claim again tells it. A refusal now says nothing of what was done before."""
        backoff = Backoff()
        while True:
            try:
                return self._api.claim(self._claim(queue=False), until, abort, strict=True).value.id
            except LockHeld:
                raise
            except ProblemError:
                pause = backoff.next()
                if clock() + pause >= until:
                    raise
                abort.sleep(pause)
