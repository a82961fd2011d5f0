"""Questions that block for as long as they please, asked so that nobody has to wait for the answer longer than they can."""

from __future__ import annotations

import threading
from typing import Callable, Generic, List, Optional, TypeVar

from latchkey._abort import Abort
from latchkey._clock import clock

T = TypeVar("T")


class TooLate(Exception):
    """The question was not answered in the time there was. It goes on being asked."""


class Question(Generic[T]):
    """Is asked once, in a daemon thread of its own; any number of threads may wait for its answer."""

    def __init__(self, what: str, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._changed = threading.Lock()
        self._waiting: List[Abort] = []
        self._answer: List[T] = []
        self._failure: Optional[BaseException] = None
        self._over = False
        threading.Thread(target=self._run, name=f"latchkey {what}", daemon=True).start()

    @property
    def over(self) -> bool:
        return self._over

    def answer(self, bound: float, abort: Abort) -> T:
        """The answer, or what asking raised; TooLate if there is neither within so many seconds."""
        with self._changed:
            self._waiting.append(abort)
        try:
            abort.wait(lambda: self._over, clock() + bound)
        finally:
            with self._changed:
                self._waiting.remove(abort)
        if not self._over:
            raise TooLate
        if self._failure is not None:
            raise self._failure
        return self._answer[0]

    def _run(self) -> None:
        try:
            self._answer.append(self._ask())
        except BaseException as err:  # it ends this thread, and is told to those who wait
            self._failure = err
        with self._changed:
            self._over = True
            waiting = list(self._waiting)
        for abort in waiting:
            abort.wake()
