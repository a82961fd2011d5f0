"""The token that requests carry, and where a fresh one is had."""

from __future__ import annotations

import os
import threading
from typing import Callable, Optional, Union

from latchkey.errors import NoToken

Token = Union[str, Callable[[], str]]


class Credentials:
    """Asks for the token before the first request, and again when one was refused; one thread at a time."""

    def __init__(self, token: Optional[Token]) -> None:
        self._source: Optional[Callable[[], str]] = None
        if isinstance(token, str):
            fixed = _sound(token)
            self._source = lambda: fixed
        elif token is not None:
            self._source = token
        self._token: Optional[str] = None
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._asking = threading.Lock()

    def get(self, refused: Optional[str] = None) -> Optional[str]:
        """A token that is not the one refused, or that one if there is no other; None if requests carry none."""
        if self._source is None:
            return None
        if self._process != os.getpid():
            self._begin()  # what was locked at the fork stays so
        with self._asking:
            if self._token is None or self._token == refused:
                self._token = self._ask(self._source)
            return self._token

    @staticmethod
    def _ask(source: Callable[[], str]) -> str:
        try:
            return _sound(source())
        except Exception as err:
            raise NoToken(f"no token: {err}") from err


def _sound(token: str) -> str:
    if not isinstance(token, str) or not token or any(not "!" <= char <= "~" for char in token):
        raise ValueError("a token is a text of printable ASCII without spaces")  # it may be secret: not shown
    return token
