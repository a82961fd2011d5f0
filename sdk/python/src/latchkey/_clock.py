"""The clock that leases are counted on: it only goes forward, and goes on while the machine sleeps."""

from __future__ import annotations

import sys
import threading
import time
from typing import Callable

# A sleeping machine stops the clock that waits are counted on, so no wait is longer than this before clock() is looked at.
LONGEST_SLEEP = 1.0


def _forward_clock() -> Callable[[], float]:
    if sys.platform == "linux":
        return lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        # There time.monotonic() stops in sleep, and this one does not.
        return lambda: time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic


clock = _forward_clock()
"""Seconds since some moment. Only differences mean anything, and only within this machine."""


def wait_until(condition: threading.Condition, when: float) -> None:
    """Waits, with condition held, until it is notified or the time has come; at most LONGEST_SLEEP."""
    left = when - clock()
    if left > 0:
        condition.wait(min(left, LONGEST_SLEEP))
