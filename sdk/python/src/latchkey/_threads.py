"""Running what blocks beside an event loop, so that it can be cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Optional, TypeVar

from latchkey._abort import Abort
from latchkey._acquire import CLEANUP_BOUND

T = TypeVar("T")


async def in_thread(work: Callable[[Abort], T], undo: Optional[Callable[[T], object]] = None) -> T:
    """Runs work in a thread of its own: a pool's threads could all be waiting for what only one more would release.

    Cancelled, it ends the work, and waits a little for it to clean up. A result that came too late is undone.
    """
    abort = Abort()
    done = _start(lambda: _unless_late(work(abort), abort, undo))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        abort.set()
        done.add_done_callback(_heard)
        await asyncio.wait({done}, timeout=CLEANUP_BOUND)
        if undo is not None and done.done() and done.exception() is None:
            result = done.result()
            undone = _start(lambda: undo(result))
            undone.add_done_callback(_heard)
            await asyncio.wait({undone}, timeout=CLEANUP_BOUND)
        raise


def _unless_late(result: T, abort: Abort, undo: Optional[Callable[[T], object]]) -> T:
    if undo is not None and abort.is_set():
        undo(result)
        abort.check()
    return result


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
