"""Addresses of a host. The system may take half a minute to say that it does not know."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any, Dict, List, Tuple

from latchkey._abort import Abort
from latchkey._aside import Question, TooLate

Addresses = List[Tuple[Any, ...]]
"""As getaddrinfo gives them."""


class Resolver:
    """Asks for each host once at a time, however many want to know. Takes no lock, as the pool that it belongs to."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._asked: Dict[Tuple[str, int], Question[Addresses]] = {}

    def addresses(self, host: str, port: int, bound: float, abort: Abort) -> Addresses:
        """OSError or UnicodeError if there are none, or it takes longer than so many seconds."""
        if _is_address(host):
            return _ask(host, port)
        if self._process != os.getpid():
            self._begin()  # the threads that ask are the parent's
        question = self._asked.get((host, port))
        if question is None or question.over:
            question = Question(f"resolve {host}", lambda: _ask(host, port))
            self._asked[host, port] = question
        try:
            return question.answer(bound, abort)
        except TooLate:
            raise socket.timeout("looking up the host's name takes too long") from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _ask(host: str, port: int) -> Addresses:
    found: Addresses = list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return found
