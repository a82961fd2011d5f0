"""What keeps a lease alive, and knows when nobody may count on it any more."""

from __future__ import annotations

import logging
import os
import random
import threading
from typing import Callable, List, Optional, Tuple

from latchkey._abort import Abort, Aborted
from latchkey._calls import FIRST_PAUSE, Backoff, NotOurs
from latchkey._clock import clock, wait_until
from latchkey.errors import (
    LeaseNotFound,
    LockBroken,
    LockLost,
    LockNotFound,
    LockNotHeld,
    LockUncertain,
    MaxHoldReached,
    ProblemError,
)

log = logging.getLogger("latchkey")

RENEWALS_IN_A_TTL = 3
JITTER = 0.1
LONGEST_RENEWAL = 5.0
LEAST_MARGIN = 0.25
LARGEST_MARGIN = 2.0
LEAST_RENEWAL = 0.25

# However many servers there are, the first ones asked, who answered last, get a third of the time: they may just be slow.
MOST_SHARES = 3

Renew = Callable[[float, Abort], Tuple[float, float]]
"""Sends one renewal, answered within so many seconds; says when it was sent, and the TTL that began then."""

Beside = Callable[[float, Abort], None]
"""What is done after each renewal, and over by this time: the next one is due then. It raises nothing but Aborted."""


def margin(ttl: float) -> float:
    """How long before the end a lease that could not be renewed is given up."""
    return min(max(ttl / 10, LEAST_MARGIN), LARGEST_MARGIN)


def lost_by(what: str, answer: ProblemError) -> LockLost:
    """The loss that an answer of the service tells."""
    why = answer.detail
    if isinstance(answer, LockBroken):
        why = "broken by an administrator" + (f": {answer.reason}" if answer.reason else "")
    loss = LockLost(f"{what}: {why}")
    loss.__cause__ = answer
    return loss


def tell_all(told: List[Callable[[LockNotHeld], None]], loss: LockNotHeld) -> None:
    """One of them that fails keeps none of the others from knowing."""
    for tell in told:
        try:
            tell(loss)
        except Exception:
            log.exception("what was to be told of a loss failed")


def announce(what: str, told: List[Callable[[LockNotHeld], None]], loss: LockNotHeld) -> None:
    """Tells from another thread, as whoever is told may do anything."""
    try:
        threading.Thread(target=tell_all, args=(told, loss), name=f"latchkey loss {what}", daemon=True).start()
    except RuntimeError:
        pass  # the interpreter is shutting down, and starts no threads


class Heartbeat:
    """Renews in one daemon thread; a second looks at the clock, which a renewal that hangs must not keep from it.

    Every question is answered by the clock itself: after a pause of the process nothing is asked of a timer that has
    yet to run.
    """

    def __init__(
        self, what: str, renew: Renew, servers: int, sent: float, ttl: float, beside: Beside = lambda until, abort: None
    ) -> None:
        self._what = what
        self._renew, self._beside = renew, beside
        self._servers = servers
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._sent, self._ttl = sent, ttl
        self._loss: Optional[LockNotHeld] = None
        self._stopped = False
        self._last_failure: Optional[BaseException] = None
        self._told: List[Callable[[LockNotHeld], None]] = []
        self._abort = Abort()

    def start(self) -> None:
        for run in (self._keep, self._watch):
            threading.Thread(target=run, name=f"latchkey {run.__name__.strip('_')} {self._what}", daemon=True).start()

    @property
    def ttl(self) -> float:
        return self._ttl

    def remaining(self) -> float:
        """Seconds in which nobody else can be granted what is held on this."""
        if self.loss() is not None:
            return 0.0
        with self._changed:
            return 0.0 if self._stopped else max(self._sent + self._ttl - clock(), 0.0)

    def loss(self) -> Optional[LockNotHeld]:
        """Why the lease may not be counted on any more, None while it may."""
        if self._process != os.getpid():
            return LockNotHeld(f"{self._what} belongs to the process that forked this one")
        with self._changed:
            if self._loss is None and not self._stopped and clock() >= self._give_up_at():
                self._lose(self._uncertain())
            return self._loss

    def on_loss(self, tell: Callable[[LockNotHeld], None]) -> None:
        """Calls tell once, from a thread of its own, when the lease is lost."""
        with self._changed:
            if self._loss is None:
                self._told.append(tell)
            else:
                announce(self._what, [tell], self._loss)

    def off_loss(self, tell: Callable[[LockNotHeld], None]) -> None:
        with self._changed:
            if tell in self._told:
                self._told.remove(tell)

    def renewed(self, sent: float, ttl: float) -> None:
        """Counts from a renewal that was sent then."""
        with self._changed:
            if sent > self._sent:
                self._sent, self._ttl = sent, ttl
            self._changed.notify_all()

    def lost(self, answer: ProblemError) -> None:
        """Takes the lease for lost, as the service has said so."""
        with self._changed:
            if self._loss is None and not self._stopped:
                self._lose(lost_by(self._what, answer))

    def stop(self, loss: Optional[LockNotHeld] = None) -> None:
        """Nothing is renewed any more. With a loss, that is what it means to all that is held on this."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._stopped = True
            if loss is not None and self._loss is None:
                self._lose(loss)
            self._changed.notify_all()
        self._abort.set()

    def wait(self, timeout: Optional[float]) -> bool:
        """Waits for the loss, or for stop; says whether it was lost."""
        until = clock() + timeout if timeout is not None else float("inf")
        while self.loss() is None and not self._stopped and clock() < until:
            with self._changed:
                if self._loss is None and not self._stopped:
                    wait_until(self._changed, min(until, self._give_up_at()))
        return self.loss() is not None

    def _give_up_at(self) -> float:
        return self._sent + self._ttl - margin(self._ttl)

    def _over(self) -> bool:
        return self._loss is not None or self._stopped

    def _uncertain(self) -> LockUncertain:
        why = f"{self._what}: no renewal was answered in time"
        error = LockUncertain(f"{why}: {self._last_failure}" if self._last_failure else why)
        error.__cause__ = self._last_failure
        return error

    def _lose(self, loss: LockNotHeld) -> None:
        self._loss = loss
        self._changed.notify_all()
        level = logging.DEBUG if self._stopped else logging.WARNING
        told, self._told = self._told, []
        announce(self._what, [lambda loss: log.log(level, "%s", loss), *told], loss)

    def _watch(self) -> None:
        while self.loss() is None:
            with self._changed:
                if self._over():
                    break
                wait_until(self._changed, self._give_up_at())
        self._abort.set()

    def _keep(self) -> None:
        failures = 0
        backoff = Backoff()
        due = self._due()
        while self._await(due):
            try:
                sent, ttl = self._renew(self._bound(self._servers - failures), self._abort)
            except Aborted:
                return
            except (LeaseNotFound, LockNotFound, LockBroken, MaxHoldReached) as err:
                self.lost(err)
                return
            except Exception as err:  # whatever it is, the next try is what can help
                with self._changed:
                    self._last_failure = err
                log.info("%s: a renewal failed: %s", self._what, err)
                if failures == 0:
                    backoff = Backoff(max(self._ttl / 10, FIRST_PAUSE))
                failures += 1
                due = clock() + max(0 if failures < max(self._servers, 2) else backoff.next(), self._asked_pause(err))
            else:
                failures = 0
                self.renewed(sent, ttl)
                due = self._due()
                try:
                    self._beside(due, self._abort)
                except Aborted:
                    return

    def _asked_pause(self, err: Exception) -> float:
        """How long the service wants to be left alone, if it got too many requests; not so long that it would be too late."""
        if not isinstance(err, (ProblemError, NotOurs)) or err.status != 429:
            return 0
        with self._changed:
            return max(min(err.retry_after or 0, (self._give_up_at() - clock()) / 2), 0)

    def _due(self) -> float:
        with self._changed:
            return self._sent + self._ttl / RENEWALS_IN_A_TTL * random.uniform(1 - JITTER, 1 + JITTER)

    def _bound(self, untried: int) -> float:
        """How long a renewal may take: so that the servers that were not tried since the last one get their turn too."""
        with self._changed:
            left = self._give_up_at() - clock()
            share = max(left / min(max(untried, 1), MOST_SHARES), LEAST_RENEWAL)
            return min(self._ttl / RENEWALS_IN_A_TTL, LONGEST_RENEWAL, share, left)

    def _await(self, due: float) -> bool:
        """Whether there is something to renew when it is due."""
        while self.loss() is None:
            with self._changed:
                if self._over():
                    return False
                if clock() >= due:
                    return True
                wait_until(self._changed, due)
        return False
