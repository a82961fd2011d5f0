"""Ending, from another thread, what a call waits for."""

from __future__ import annotations

import socket
import threading
from typing import Callable, Optional

from latchkey._clock import clock, wait_until


class Aborted(BaseException):
    """The call was given up by who made it. No part of the public API: it never leaves the thread that it ends."""


class Abort:
    """A call looks at it between requests, and shows it the socket that it is about to wait on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._set = False
        self._socket: Optional[socket.socket] = None

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._changed:
            self._set = True
            self._changed.notify_all()
            if self._socket is not None:
                shut(self._socket)

    def watch(self, sock: socket.socket) -> None:
        """Shuts this socket when set, in place of the one before."""
        with self._changed:
            self.check()
            self._socket = sock

    def unwatch(self) -> None:
        with self._changed:
            self._socket = None

    def check(self) -> None:
        if self._set:
            raise Aborted

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, clock() + seconds)

    def wait(self, so: Callable[[], bool], until: float) -> None:
        """Waits until it is so, of which wake tells, or until the time has come."""
        with self._changed:
            while not self._set and not so() and clock() < until:
                wait_until(self._changed, until)
        self.check()

    def wake(self) -> None:
        """Lets wait look again."""
        with self._changed:
            self._changed.notify_all()


def shut(sock: socket.socket) -> None:
    """Ends a connection even if a forked process still has it open too, and wakes who reads from it."""
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS, whose own is not for two threads
    except OSError:
        pass  # it has ended already
