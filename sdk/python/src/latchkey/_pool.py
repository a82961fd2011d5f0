"""Connections that wait for their next request."""

from __future__ import annotations

import os
import ssl
from collections import deque
from typing import Deque, Dict, Optional

from latchkey._abort import Abort
from latchkey._clock import clock
from latchkey._line import Line, NotSent, Server
from latchkey._resolve import Resolver

# Balancers cut lines that are idle for 60 s, and some forget them silently.
LONGEST_IDLE = 30.0
MOST_IDLE = 16

LONGEST_CONNECT = 5.0


class Pool:
    """Takes no lock, so that a fork in the middle of a call leaves none taken in the child."""

    def __init__(self, tls: Optional[ssl.SSLContext]) -> None:
        self._tls = tls
        self._resolver = Resolver()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._idle: Dict[Server, Deque[Line]] = {}

    def idle(self, server: Server) -> Deque[Line]:
        """The idle lines to the server, the last used last."""
        if self._process != os.getpid():
            self._disown()
        return self._idle.setdefault(server, deque())

    def _disown(self) -> None:
        inherited = self._idle
        self._begin()
        for lines in inherited.values():
            for line in lines:
                line.forget()

    def take(self, server: Server, bound: float, abort: Abort) -> Line:
        """A line that was used before, or a new one; NotSent when there can be none."""
        idle = self.idle(server)
        while True:
            try:
                line = idle.pop()
            except IndexError:
                return self.connect(server, bound, abort)
            if line.open and clock() - line.idle_since < LONGEST_IDLE:
                return line
            line.close()

    def connect(self, server: Server, bound: float, abort: Abort) -> Line:
        until = clock() + min(bound, LONGEST_CONNECT)
        try:
            addresses = self._resolver.addresses(server.host, server.port, until - clock(), abort)
        except (OSError, UnicodeError, RuntimeError) as err:  # the last: an interpreter that ends starts no threads
            raise NotSent(server, err) from err
        return Line(server, addresses, self._tls, until)

    def put(self, server: Server, line: Line) -> None:
        idle = self.idle(server)
        if not line.open or len(idle) >= MOST_IDLE:
            line.close()
            return
        line.idle_since = clock()
        idle.append(line)

    def close(self) -> None:
        """Closes what is idle. The pool can be used again."""
        for server in list(self._idle):
            idle = self.idle(server)
            while idle:
                idle.pop().close()

    def __del__(self) -> None:
        for lines in self._idle.values():
            for line in lines:
                line.forget()
