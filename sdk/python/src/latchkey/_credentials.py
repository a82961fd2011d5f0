"""The token that requests carry, and where a fresh one is had."""

from __future__ import annotations

import os
import threading
from typing import Callable, Optional, Union

from latchkey._abort import Abort
from latchkey._aside import Question, TooLate
from latchkey.errors import NoToken

Token = Union[str, Callable[[], str]]


class Credentials:
    """Asks for the token before the first request, and again when one was refused; once at a time, in a thread of its own.

    While a fresh token is awaited the one that there is goes on being used: not every request may be refused with it.
    """

    def __init__(self, token: Optional[Token]) -> None:
        self._source: Optional[Callable[[], str]] = None
        self._token: Optional[str] = None
        if isinstance(token, str):
            self._token = _sound(token)
        else:
            self._source = token
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._choosing = threading.Lock()
        self._question: Optional[Question[str]] = None

    def get(self, bound: float, abort: Abort, refused: Optional[str] = None) -> Optional[str]:
        """A token that is not the one refused, or that one if there is no other; None if requests carry none.

        NoToken if there is none within so many seconds.
        """
        if self._source is None:
            return self._token
        known = self._token
        if known is not None and known != refused:
            return known
        try:
            return self._asked(self._source, refused).answer(bound, abort)
        except TooLate:
            raise NoToken("no token: it does not come in the time there is") from None
        except Exception as err:
            raise NoToken(f"no token: {err}") from err

    def _asked(self, source: Callable[[], str], refused: Optional[str]) -> Question[str]:
        """The question that is under way, the last one if it brought another token than the one refused, or a new one."""
        if self._process != os.getpid():
            self._begin()  # what was locked at the fork stays so, and who asked is the parent's
        with self._choosing:
            last = self._question
            if last is None or (last.over and (self._token is None or self._token == refused)):
                last = self._question = Question("token", lambda: self._ask(source))
            return last

    def _ask(self, source: Callable[[], str]) -> str:
        try:
            self._token = _sound(source())
        except Exception:
            raise
        except BaseException as err:  # it is not for the threads that wait to end of this
            raise ValueError(f"the function that gives it raised {type(err).__name__}") from err
        return self._token


def _sound(token: str) -> str:
    if not isinstance(token, str) or not token or any(not "!" <= char <= "~" for char in token):
        raise ValueError("a token is a text of printable ASCII without spaces and line ends")  # it may be secret: not shown
    return token
