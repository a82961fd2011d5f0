"""Requests, sent to one server after another for as long as their outcome allows it."""

from __future__ import annotations

import json
import math
import random
import ssl
from dataclasses import dataclass, replace
from typing import Callable, Dict, Generic, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import quote

from latchkey._abort import Abort
from latchkey._clock import clock
from latchkey._credentials import Credentials
from latchkey._line import Answer, Line, NoAnswer, NotSent, Server
from latchkey._pool import Pool
from latchkey._version import __version__
from latchkey.errors import NoToken, Internal, OutcomeUnknown, PlaceLost, ProblemError, Unreachable, problem_error
from latchkey.wire import Malformed, Problem

T = TypeVar("T")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
LEAST_FOR_A_TRY = 0.5

# A service can ask to be left alone for hours; it may be well again long before that.
LONGEST_ASKED_PAUSE = 30.0
# A place in line lapses 15 s after the last that was heard of its owner, if the service is set as it comes.
LONGEST_PAUSE_IN_LINE = 4.0

# From the service these say "not done" or "unknown".
_ELSEWHERE = frozenset({408, 429, 500, 502, 503, 504})

_OURS = frozenset({"Connection", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Transfer-Encoding"})


@dataclass(frozen=True)
class Request:
    """repeatable says that doing it twice is doing it once. wait is how long the server may hold the answer back, and
    patience for how much longer it is awaited at the most. in_line: repeating it soon is what keeps a place."""

    method: str
    target: str
    body: Optional[Mapping[str, object]] = None
    key: Optional[str] = None
    repeatable: bool = True
    wait: float = 0.0
    patience: float = math.inf
    in_line: bool = False


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What was answered to the try that was sent at this time. unsure: an earlier try may have been done."""

    value: T
    sent: float
    unsure: bool


class NotOurs(Exception):
    """Something before the service answered. perhaps_done says that it may have asked the service first."""

    def __init__(self, server: Server, answer: Answer) -> None:
        super().__init__(f"{server.authority}: {answer.status}, and no answer of latchkey")
        self.status = answer.status
        self.retry_after = _retry_after(answer)
        self.perhaps_done = answer.unsure or answer.status >= 500


class Backoff:
    """Pauses with full jitter, each up to twice as long as the one before."""

    def __init__(self, longest: float = LONGEST_PAUSE) -> None:
        self._longest = longest
        self._ceiling = min(FIRST_PAUSE, longest)

    def next(self) -> float:
        pause = random.uniform(0, self._ceiling)
        self._ceiling = min(2 * self._ceiling, self._longest)
        return pause


def path(kind: str, capability: str) -> str:
    if not capability:
        raise ValueError("an id is not empty")
    return f"/{kind}/{quote(capability, safe='')}"


class Calls:
    """timeout bounds a request beyond what it waits for, in seconds."""

    def __init__(
        self,
        servers: Sequence[Server],
        headers: Mapping[str, str],
        timeout: float,
        tls: Optional[ssl.SSLContext],
        credentials: Credentials,
    ) -> None:
        self.servers = servers
        self.timeout = timeout
        self._headers = {"User-Agent": f"latchkey-python/{__version__}", **_own_spelling(headers)}
        self._credentials = credentials
        self._preferred = 0
        self.pool = Pool(tls)

    def call(
        self,
        make: Callable[[], Request],
        read: Callable[[object], T],
        until: float,
        abort: Abort,
        strict: bool = False,
    ) -> Outcome[T]:
        """Sends what make makes until it is answered, or the time has come: then it raises the last failure.

        The servers that were not tried yet share what time there is. Each is tried once even when it is over, unless this
        is strict.
        """
        backoff = Backoff()
        tried = 0
        unsure = False
        while True:
            request = make()
            failure: Union[Unreachable, ProblemError]
            asked_pause: Optional[float] = None
            try:
                bound = self._bound(request, len(self.servers) - tried, until, strict)
                outcome = self.attempt(request, read, bound, abort)
                return replace(outcome, unsure=unsure or outcome.unsure)
            except NotSent as err:
                failure = Unreachable(f"no server can be reached: {err}")
            except NoAnswer as err:
                failure = Unreachable(f"no answer: {err}")
                unsure = True
            except NotOurs as err:
                failure = Unreachable(f"no answer of the service: {err}")
                asked_pause = err.retry_after
                unsure = unsure or err.perhaps_done
            except ProblemError as err:
                failure = err
                asked_pause = err.retry_after
                unsure = unsure or err.unsure or isinstance(err, (OutcomeUnknown, Internal))
            failure.unsure = unsure
            if not _worth_repeating(failure) or (unsure and not request.repeatable):
                raise failure
            tried += 1
            if tried < len(self.servers) and not (strict and clock() >= until):
                continue
            left = until - clock() - LEAST_FOR_A_TRY
            if left <= 0:
                raise failure
            longest = LONGEST_PAUSE_IN_LINE if request.in_line else LONGEST_ASKED_PAUSE
            abort.sleep(min(left, max(backoff.next(), min(asked_pause or 0, longest))))

    def _bound(self, request: Request, untried: int, until: float, strict: bool) -> float:
        """How long the next attempt may take."""
        bound = request.wait + min(self.timeout, request.patience)
        left = until - clock()
        if untried <= 0 or (strict and request.wait):
            return min(bound, left)
        if strict:
            return min(bound, left / untried)
        if request.wait or not request.repeatable:
            return bound  # what is not answered then goes no further anyway, or has waited where it should
        return min(bound, max(left / untried, LEAST_FOR_A_TRY))

    def attempt(self, request: Request, read: Callable[[object], T], bound: float, abort: Abort) -> Outcome[T]:
        """Sends a request once. After a failure that is the server's, the next attempt goes to another."""
        abort.check()
        chosen = self._preferred
        try:
            answer = self._authorized(self.servers[chosen], request, bound, abort)
            if 200 <= answer.status < 300:
                return Outcome(_read(self.servers[chosen], answer, read), answer.sent, answer.unsure)
            problem = _problem(self.servers[chosen], answer)
        except (NotSent, NoAnswer, NotOurs):
            self._leave(chosen)
            raise
        if _worth_repeating(problem):
            self._leave(chosen)
        raise problem

    def turn(self) -> None:
        """The next attempt goes to another server."""
        self._leave(self._preferred)

    def _leave(self, server: int) -> None:
        if self._preferred == server:
            self._preferred = (server + 1) % len(self.servers)

    def _authorized(self, server: Server, request: Request, bound: float, abort: Abort) -> Answer:
        """Sends the request, and once more with a fresh token if the first is refused."""
        token = self._credentials.get(max(bound, self.timeout), abort)  # a first one is in no hurry: nothing is held yet
        until = clock() + bound
        refused = self._exchange(server, request, until - clock(), abort, token)
        if refused.status != 401 or token is None:
            return refused
        try:
            fresh = self._credentials.get(until - clock(), abort, refused=token)
        except NoToken:
            return refused  # which says more
        if fresh == token:
            return refused
        answer = self._exchange(server, request, until - clock(), abort, fresh)
        return replace(answer, unsure=answer.unsure or refused.unsure)

    def _exchange(self, server: Server, request: Request, bound: float, abort: Abort, token: Optional[str]) -> Answer:
        headers = {**self._headers, "Host": server.authority}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        body = None
        if request.body is not None:
            body = json.dumps(request.body).encode()
            headers["Content-Type"] = "application/json"
            headers["Content-Length"] = str(len(body))
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        until = clock() + bound
        line = self.pool.take(server, bound, abort)
        again = False
        while True:
            try:
                answer = line.exchange(
                    request.method, server.path + request.target, headers, body, until - clock(), abort
                )
            except NoAnswer as err:
                line.close()
                if not (err.at_once and request.repeatable):
                    raise
                # The line was cut while it was idle: that says nothing against the server.
                line = self._again(server, until - clock(), abort)
                again = True
            except BaseException:
                line.close()
                raise
            else:
                self.pool.put(server, line)
                return replace(answer, unsure=again)

    def _again(self, server: Server, bound: float, abort: Abort) -> Line:
        try:
            return self.pool.connect(server, bound, abort)
        except NotSent as err:
            raise NoAnswer(server, err) from err  # the first try may have arrived


def _own_spelling(headers: Mapping[str, str]) -> Dict[str, str]:
    spelled = {name.title(): value for name, value in headers.items()}
    if taken := _OURS & spelled.keys():
        raise ValueError(f"these headers are the client's own: {', '.join(sorted(taken))}")
    return spelled


def _read(server: Server, answer: Answer, read: Callable[[object], T]) -> T:
    try:
        return read(json.loads(answer.body) if answer.body else None)
    except (ValueError, RecursionError) as err:
        raise NoAnswer(server, Malformed(f"{answer.status} with a body that is not latchkey's: {err}")) from err


def _problem(server: Server, answer: Answer) -> ProblemError:
    try:
        told = replace(Problem.read(json.loads(answer.body)), status=answer.status)
    except (ValueError, RecursionError):
        raise NotOurs(server, answer) from None
    problem = problem_error(told, _retry_after(answer))
    problem.unsure = answer.unsure
    return problem


def _retry_after(answer: Answer) -> Optional[float]:
    text = answer.headers.get("Retry-After") or ""
    return float(text) if text.isascii() and text.isdigit() else None


def _worth_repeating(failure: Union[Unreachable, ProblemError]) -> bool:
    if isinstance(failure, Unreachable):
        return True
    return failure.status in _ELSEWHERE and not isinstance(failure, PlaceLost)
