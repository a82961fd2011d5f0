"""What is held: a lock, and a lease that many locks can be on."""

from __future__ import annotations

import abc
import logging
import math
import os
from contextlib import suppress
from types import TracebackType
from typing import Callable, Mapping, Optional, Tuple, Type, TypeVar, Union

from latchkey._abort import Abort
from latchkey._acquire import CLEANUP_BOUND, Acquisition, Grant, Wanted, wanted
from latchkey._api import Api
from latchkey._clock import clock
from latchkey._heartbeat import Beside, Heartbeat, lost_by
from latchkey._share import Share, Shares
from latchkey.errors import LatchkeyError, LeaseNotFound, LockBroken, LockLost, LockNotHeld
from latchkey.wire import Claim

log = logging.getLogger("latchkey")

FOREVER = math.inf
"""As wait: for as long as it takes."""

H = TypeVar("H", bound="Held")
Beat = Union[Heartbeat, Share]
OnLost = Callable[[LockNotHeld], None]


class Loss:
    """Whether something was lost, and why. It is used like a threading.Event."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    @property
    def cause(self) -> Optional[LockNotHeld]:
        """A LockLost or a LockUncertain, None while all is well."""
        return self._beat.loss()

    def is_set(self) -> bool:
        return self.cause is not None

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits up to timeout seconds; whether it is lost. Ends with False, too, when it is released meanwhile."""
        return self._beat.wait(timeout)


class Held(abc.ABC):
    """Something that a heartbeat keeps. Leaving its with block releases it, and raises if it was lost inside."""

    def __init__(self, what: str, api: Api, beat: Beat, on_lost: Optional[OnLost]) -> None:
        self._what, self._api, self._beat, self._on_lost = what, api, beat, on_lost
        self._process = os.getpid()
        self._let_go = False
        self._gone = False
        self.lost = Loss(beat)
        beat.on_loss(self._told)

    def _told(self, loss: LockNotHeld) -> None:
        if self._on_lost is not None and not self._let_go:
            self._on_lost(loss)

    @property
    def ttl(self) -> float:
        """Seconds that it outlives its last renewal, as the service granted them."""
        return self._beat.ttl

    @property
    def held(self) -> bool:
        """Whether it may be counted on now, by the clock and not by a timer."""
        return not self._let_go and not self.lost.is_set()

    def check(self) -> None:
        """Raises LockLost, LockUncertain or, when it was released, LockNotHeld."""
        if self._let_go:
            raise LockNotHeld(f"{self._what} was released")
        if (loss := self.lost.cause) is not None:
            raise _again(loss)

    def remaining(self) -> float:
        """Seconds in which nobody else can be granted it, counted from when its last renewal was sent; 0 when not held."""
        return self._beat.remaining() if self.held else 0.0

    def release(self) -> bool:
        """Gives it back. Whether this call did it: False when it was gone already, or was released before.

        Raises Unreachable or a ProblemError when no server did it in the client's timeout: it then ends one TTL after
        its last renewal, or with another release(). Raises LockLost when an administrator had broken it, unnoticed.
        """
        return self._release()

    def _release(self, hurry: bool = False) -> bool:
        if self._process != os.getpid() or self._gone:
            return False
        known = self.lost.is_set()
        self._let_go = True
        self._beat.off_loss(self._told)
        self._stop()
        try:
            done = self._remove(clock() + CLEANUP_BOUND if hurry else self._api.until(), hurry)
        except LockBroken as err:
            self._gone = True
            if known:
                return False
            raise lost_by(self._what, err)
        self._gone = True
        return done

    def _give_up(self, hurry: bool) -> Optional[LockLost]:
        """Releases it if that can be done in time; the loss, if that is told only now.

        Else it lapses by itself, and what it protected was protected.
        """
        try:
            self._release(hurry)
        except LockLost as loss:
            return loss
        except LatchkeyError as err:
            log.warning("%s could not be released: %s", self._what, err)
        return None

    @abc.abstractmethod
    def _stop(self) -> None: ...

    @abc.abstractmethod
    def _remove(self, until: float, strict: bool) -> bool: ...

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._leave(error)

    def _leave(self, error: Optional[BaseException]) -> None:
        if self._process != os.getpid():
            return
        loss = None if self._let_go else self.lost.cause
        loss = self._give_up(hurry=loss is not None or error is not None) or loss
        if loss is not None and error is None:
            raise _again(loss)
        if loss is not None and error is not None:
            _chain(error, loss)


class Lock(Held):
    """A held lock. Send its fencing_token with every write to what it protects.

    id and lease_id are capabilities: whoever knows one can renew and release the lock.
    """

    def __init__(self, api: Api, claim: Claim, beat: Beat, on_lost: Optional[OnLost]) -> None:
        super().__init__(_what(claim), api, beat, on_lost)
        self.name = claim.name
        self.id = claim.id
        self.lease_id = claim.lease_id
        self.fencing_token: int = claim.fencing_token or 0

    def _stop(self) -> None:
        self._beat.stop()

    def _remove(self, until: float, strict: bool) -> bool:
        return self._api.remove_lock(self.id, until, Abort(), strict)

    def __repr__(self) -> str:
        return f"<Lock {self.name!r} token={self.fencing_token} held={self.held}>"


class Lease(Held):
    """A lease of one's own: any number of locks on one heartbeat. Its end is the loss of all of them."""

    def __init__(self, api: Api, lease_id: str, beat: Heartbeat, shares: Shares, on_lost: Optional[OnLost]) -> None:
        super().__init__("lease", api, beat, on_lost)
        self._heartbeat, self._shares = beat, shares
        self.id = lease_id

    def lock(
        self,
        name: str,
        *,
        wait: Optional[float] = None,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Lock:
        """As Client.lock, on this lease and with its TTL."""
        return self._take(wanted(name, wait, None, self.id, holder, metadata, key), on_lost, Abort())

    def _take(self, want: Wanted, on_lost: Optional[OnLost], abort: Abort) -> Lock:
        self.check()

        def keep(grant: Grant) -> Lock:
            self._heartbeat.renewed(grant.sent, grant.ttl)
            self.check()
            share = self._shares.add(_what(grant.claim), grant.claim.id, self._heartbeat)
            return Lock(self._api, grant.claim, share, on_lost)

        try:
            return Acquisition(self._api, want, abort).run(keep)
        except LockLost as loss:
            if isinstance(loss.__cause__, LeaseNotFound):
                self._heartbeat.lost(loss.__cause__)
            raise

    def _stop(self) -> None:
        self._heartbeat.stop(LockLost("the lease was ended"))

    def _remove(self, until: float, strict: bool) -> bool:
        return self._api.remove_lease(self.id, until, Abort(), strict)

    def __repr__(self) -> str:
        return f"<Lease ttl={self.ttl} held={self.held}>"


def take_lock(api: Api, want: Wanted, on_lost: Optional[OnLost], abort: Abort) -> Lock:
    """Acquires what is wanted, on a lease of its own."""

    def keep(grant: Grant) -> Lock:
        claim = grant.claim
        beat = heartbeat(api, _what(claim), claim.lease_id, grant.sent, grant.ttl)
        return Lock(api, claim, beat, on_lost)

    return Acquisition(api, want, abort).run(keep)


def take_lease(
    api: Api,
    ttl: Optional[int],
    holder: Optional[str],
    metadata: Optional[Mapping[str, str]],
    on_lost: Optional[OnLost],
    abort: Abort,
) -> Lease:
    """Makes a lease and keeps it."""
    made = api.create_lease(ttl, holder, metadata, abort)
    try:
        shares = Shares(api, made.value.id)
        beat = heartbeat(api, "lease", made.value.id, made.sent, made.value.ttl_seconds, shares.look)
        return Lease(api, made.value.id, beat, shares, on_lost)
    except BaseException:
        with suppress(LatchkeyError):
            api.remove_lease(made.value.id, clock() + CLEANUP_BOUND, Abort(), strict=True)
        raise


def _what(claim: Claim) -> str:
    return f"lock {claim.name!r}"


def heartbeat(
    api: Api, what: str, lease_id: str, sent: float, ttl: float, beside: Beside = lambda until, abort: None
) -> Heartbeat:
    """One that beats already."""

    def renew(bound: float, abort: Abort) -> Tuple[float, float]:
        return api.renew_once(lease_id, bound, abort)

    beat = Heartbeat(what, renew, len(api.calls.servers), sent, ttl, beside)
    beat.start()
    return beat


def _again(loss: LockNotHeld) -> LockNotHeld:
    """A copy to raise: an exception that is raised twice mixes its tracebacks."""
    copy = type(loss)(*loss.args)
    copy.__cause__ = loss.__cause__
    return copy


def _chain(error: BaseException, loss: LockNotHeld) -> None:
    """Shows the loss behind an error that is on its way, unless that comes of the loss anyway."""
    seen = error
    while not isinstance(seen, LockNotHeld):
        if seen.__context__ is None:
            seen.__context__ = _again(loss)
            return
        seen = seen.__context__
