"""Running what blocks beside an event loop, so that it can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Generic, List, Optional, TypeVar

from latchkey._abort import Abort, Aborted
from latchkey._acquire import CLEANUP_BOUND

T = TypeVar("T")


class _Handover(Generic[T]):
    """A result on its way from its thread to its task. Exactly one of them is left with it: the task, or undo."""

    def __init__(self, abort: Abort, undo: Optional[Callable[[T], object]]) -> None:
        self._abort, self._undo = abort, undo
        self._changed = threading.Lock()
        self._results: List[T] = []
        self._given_up = False

    def offer(self, result: T) -> T:
        """The work's thread has it. Undoes it if nobody takes it any more."""
        with self._changed:
            if not self._given_up:
                self._results.append(result)
                return result
        if self._undo is None:
            return result
        self._undo(result)
        raise Aborted

    def give_up(self) -> Callable[[], object]:
        """Nobody will take it: ends the work. Returns what is left to do then, which undoes what has come already."""
        with self._changed:
            self._given_up = True
            come, self._results = self._results, []
        self._abort.set()
        undo = self._undo
        return lambda: [undo(result) for result in come if undo is not None]


async def in_thread(work: Callable[[Abort], T], undo: Optional[Callable[[T], object]] = None) -> T:
    """Runs work in a thread of its own: a pool's threads could all be waiting for what only one more would release.

    Cancelled, it ends the work, and waits a little for it to clean up. A result that came too late is undone, also when it
    is cancelled once more meanwhile.
    """
    abort = Abort()
    handover = _Handover(abort, undo)
    done = _start(lambda: handover.offer(work(abort)))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        undone = _start(handover.give_up())  # before anything is awaited here: that may be cancelled too
        for ends in (done, undone):
            ends.add_done_callback(_heard)
        await asyncio.wait({done}, timeout=CLEANUP_BOUND)
        await asyncio.wait({undone}, timeout=CLEANUP_BOUND)
        raise
    except GeneratorExit:  # its loop has ended without it
        threading.Thread(target=handover.give_up(), name="latchkey undo", daemon=True).start()
        raise


def _start(work: Callable[[], T]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as err:
            post(loop, _settle, done.set_exception, done, err)
        else:
            post(loop, _settle, done.set_result, done, result)

    threading.Thread(target=run, name="latchkey call", daemon=True).start()
    return done


def _settle(settle: Callable[[Any], None], done: asyncio.Future[Any], value: object) -> None:
    if not done.done():
        settle(value)


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    """Calls in the loop's thread; not at all if the loop has ended."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        pass


def _heard(done: asyncio.Future[Any]) -> None:
    """Looks at a failure that nobody else will."""
    if not done.cancelled():
        done.exception()
