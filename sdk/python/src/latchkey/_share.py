"""Locks that share a lease: the lease's heartbeat keeps them all, and yet each can end alone, by a break or a release of others."""

from __future__ import annotations

import logging
import threading
from typing import Callable, List, Optional

from latchkey._abort import Abort
from latchkey._api import Api
from latchkey._clock import clock, wait_until
from latchkey._heartbeat import LEAST_RENEWAL, LONGEST_RENEWAL, Heartbeat, announce, lost_by, tell_all
from latchkey.errors import LockBroken, LockNotFound, LockNotHeld, ProblemError

log = logging.getLogger("latchkey")

# A look at a lease lists all that is held on it.
MOST_AT_EACH_RENEWAL = 100
ELSE_ONE_RENEWAL_IN = 10


class Share:
    """What the heartbeat of a lease is to one lock on it. It is used like a Heartbeat."""

    def __init__(self, what: str, lock_id: str, beat: Heartbeat, forget: Callable[[Share], None]) -> None:
        self.lock_id = lock_id
        self._what, self._beat, self._forget = what, beat, forget
        self._changed = threading.Condition()
        self._own: Optional[LockNotHeld] = None
        self._stopped = False
        self._told: List[Callable[[LockNotHeld], None]] = []
        beat.on_loss(self._lose_with_lease)

    @property
    def ttl(self) -> float:
        return self._beat.ttl

    def remaining(self) -> float:
        return 0.0 if self.loss() is not None else self._beat.remaining()

    def loss(self) -> Optional[LockNotHeld]:
        return self._own or self._beat.loss()

    def on_loss(self, tell: Callable[[LockNotHeld], None]) -> None:
        with self._changed:
            if self._own is None:
                self._told.append(tell)
            else:
                announce(self._what, [tell], self._own)

    def off_loss(self, tell: Callable[[LockNotHeld], None]) -> None:
        with self._changed:
            if tell in self._told:
                self._told.remove(tell)

    def lost(self, answer: ProblemError) -> None:
        """Takes the lock for lost, and nothing else on its lease, as the service has said so."""
        loss = lost_by(self._what, answer)
        told = self._lose(loss)
        if told is not None:
            announce(self._what, [lambda loss: log.warning("%s", loss), *told], loss)

    def _lose_with_lease(self, loss: LockNotHeld) -> None:
        """Is called in a thread that is there for it."""
        tell_all(self._lose(loss) or [], loss)

    def stop(self) -> None:
        """The lock is released: it cannot be lost any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._leave()

    def wait(self, timeout: Optional[float]) -> bool:
        until = clock() + timeout if timeout is not None else float("inf")
        while self.loss() is None and not self._stopped and clock() < until:
            with self._changed:
                if self._own is None and not self._stopped:
                    wait_until(self._changed, until)
        return self.loss() is not None

    def _lose(self, loss: LockNotHeld) -> Optional[List[Callable[[LockNotHeld], None]]]:
        """Whom to tell; None if it is not lost by this."""
        with self._changed:
            if self._own is not None or self._stopped:
                return None
            self._own = loss
            self._changed.notify_all()
            told, self._told = self._told, []
        self._leave()
        return told

    def _leave(self) -> None:
        self._beat.off_loss(self._lose_with_lease)
        self._forget(self)


class Shares:
    """The locks on one lease, and a look at the service for those that have ended alone: a renewal tells nothing of them."""

    def __init__(self, api: Api, lease_id: str) -> None:
        self._api, self._lease_id = api, lease_id
        self._changed = threading.Lock()
        self._shares: List[Share] = []
        self._renewals = 0

    def add(self, what: str, lock_id: str, beat: Heartbeat) -> Share:
        """The share of a lock that is held now."""
        share = Share(what, lock_id, beat, self._forget)
        with self._changed:
            self._shares.append(share)
        return share

    def _forget(self, share: Share) -> None:
        with self._changed:
            if share in self._shares:
                self._shares.remove(share)

    def look(self, until: float, abort: Abort) -> None:
        """Is called after each renewal, and done by then. What fails is left to the next one."""
        with self._changed:
            before = list(self._shares)  # a grant that comes later may be missing in the answer
            self._renewals += 1
            due = len(before) <= MOST_AT_EACH_RENEWAL or self._renewals % ELSE_ONE_RENEWAL_IN == 0
        if not before or not due or _bound(until) < LEAST_RENEWAL:
            return
        try:
            standing = self._api.held_on_once(self._lease_id, _bound(until), abort)
            for share in before:
                if share.lock_id not in standing and _bound(until) >= LEAST_RENEWAL:
                    self._ask(share, until, abort)
        except Exception as err:  # whatever it is, the lease itself is renewed all the same
            log.info("a look at the locks of a lease failed: %s", err)

    def _ask(self, share: Share, until: float, abort: Abort) -> None:
        try:
            self._api.look_once(share.lock_id, _bound(until), abort)
        except (LockBroken, LockNotFound) as gone:
            share.lost(gone)


def _bound(until: float) -> float:
    return min(until - clock(), LONGEST_RENEWAL)
