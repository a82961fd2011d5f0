"""One connection to one server, all of whose operations end by a time."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from dataclasses import dataclass
from email.message import Message
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from latchkey._abort import Abort, shut
from latchkey._clock import clock
from latchkey._resolve import Addresses

LARGEST_ANSWER = 16 << 20

# A peer that vanished without a word is noticed before the places that it kept lapse.
SILENT_BEFORE_PROBE = 5
PROBE_EVERY = 2
PROBES = 3


@dataclass(frozen=True)
class Server:
    """A base URL, taken apart."""

    url: str
    host: str
    port: int
    path: str
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Server:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a base URL: want http://HOST:PORT or https://HOST")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("a base URL has no user, query or fragment: credentials go into headers")
        tls = parts.scheme == "https"
        port = parts.port if parts.port is not None else (443 if tls else 80)
        return cls(url, parts.hostname, port, parts.path.rstrip("/"), tls)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


@dataclass(frozen=True)
class Answer:
    """What a server said. sent is the clock's time just before the request was sent; unsure: it was sent once before."""

    status: int
    headers: Message
    body: bytes
    sent: float
    unsure: bool = False


class NotSent(Exception):
    """No part of the request can have reached a server."""

    def __init__(self, server: Server, cause: BaseException) -> None:
        super().__init__(f"{server.authority}: {str(cause) or type(cause).__name__}")


class NoAnswer(Exception):
    """The request may have been done. at_once says that the line was dead already, from before."""

    def __init__(self, server: Server, cause: BaseException, at_once: bool = False) -> None:
        super().__init__(f"{server.authority}: {str(cause) or type(cause).__name__}")
        self.at_once = at_once


class Line:
    """A connection. It is used by one thread at a time."""

    def __init__(self, server: Server, addresses: Addresses, tls: Optional[ssl.SSLContext], until: float) -> None:
        try:
            self._socket = _connect(server, addresses, tls, until)
        except OSError as err:
            raise NotSent(server, err) from err
        self._server = server
        self._http = http.client.HTTPConnection(server.host, server.port)
        self._used = False
        self.idle_since = 0.0

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes], bound: float, abort: Abort
    ) -> Answer:
        """Sends a request and reads its answer. After any failure the line is of no more use."""
        timed = _TimedSocket(self._socket, clock() + bound)
        self._http.sock = timed
        answered = False
        sent = clock()
        try:
            abort.watch(self._socket)
            self._http.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                self._http.putheader(name, value)
            self._http.endheaders(body)
            response = self._http.getresponse()
            answered = True
            text = _body(response)
        except (OSError, http.client.HTTPException) as err:
            abort.check()
            raise NoAnswer(self._server, err, self._used and not answered and isinstance(err, ConnectionError)) from err
        finally:
            abort.unwatch()
        self._used = True
        return Answer(response.status, response.headers, text, sent)

    @property
    def open(self) -> bool:
        """Whether another request can be sent: nothing has come since the last answer, neither bytes nor an end."""
        if self._http.sock is None:
            return False
        self._socket.settimeout(0)
        try:
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # below TLS, which cannot look without taking
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        shut(self._socket)
        self.forget()

    def forget(self) -> None:
        """Closes this process' part only: the line may be in use by the process that forked this one."""
        self._socket.close()


def _body(response: http.client.HTTPResponse) -> bytes:
    try:
        text = response.read(LARGEST_ANSWER + 1)
    except (ValueError, OverflowError) as err:  # of lengths that are none
        raise http.client.HTTPException(f"the answer makes no sense: {err}") from err
    if response.length or len(text) > LARGEST_ANSWER:
        raise http.client.HTTPException("the answer is cut off, or larger than any of latchkey's")
    return text


def _connect(server: Server, addresses: Addresses, tls: Optional[ssl.SSLContext], until: float) -> socket.socket:
    failure: Optional[OSError] = None
    for tried, (family, kind, proto, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, proto)
        try:
            # A dead address leaves time for those after it.
            sock.settimeout(_left(until) / (len(addresses) - tried))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _probe(sock)
            if tls is not None and server.tls:
                sock.settimeout(_left(until))
                return tls.wrap_socket(sock, server_hostname=server.host)
            return sock
        except OSError as err:
            sock.close()
            failure = err
    raise failure or OSError("the host has no address")


def _probe(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", SILENT_BEFORE_PROBE),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _left(until: float) -> float:
    left = until - clock()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


class _TimedSocket:
    """What http.client needs of a socket. Its own timeout would begin anew with each piece that comes."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._socket, self._until = sock, until

    def sendall(self, data: Any) -> None:
        self._socket.settimeout(_left(self._until))
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._socket, self._until))

    def close(self) -> None:
        """The line closes its socket itself: http.client would while the answer is still to be read."""


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float) -> None:
        self._socket, self._until = sock, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._socket.settimeout(_left(self._until))
        return self._socket.recv_into(buffer)
