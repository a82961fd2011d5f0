"""A server that answers what a test tells it to: for what the real service and its balancers do rarely."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import BinaryIO, Callable, Dict, List, Optional, Tuple

HELD = {
    "id": "an-id",
    "name": "n",
    "state": "held",
    "fencing_token": 7,
    "position": 0,
    "lease_id": "an-id",
    "ttl_seconds": 2,
    "renew_after_seconds": 1,
}


@dataclass(frozen=True)
class Heard:
    """A request. connection counts those that were opened before it."""

    connection: int
    method: str
    target: str
    headers: Dict[str, str]
    body: bytes


Script = Callable[[Heard, socket.socket], bool]
"""Answers a request; whether the line stays open."""


def answer(status: int, body: object = None, headers: Tuple[str, ...] = (), kind: str = "application/json") -> Script:
    """Sends this answer. A body that is no text is sent as JSON."""
    text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()

    def send(heard: Heard, line: socket.socket) -> bool:
        head = [f"HTTP/1.1 {status} So", f"Content-Type: {kind}", f"Content-Length: {len(text)}", *headers, "", ""]
        line.sendall("\r\n".join(head).encode() + text)
        return True

    return send


def problem(status: int, code: str, *headers: str, **members: str) -> Script:
    body = {"type": "t", "title": "T", "status": status, "detail": "d", "code": code, **members}
    return answer(status, body, headers)


def holding(**others: Script) -> Script:
    """Answers as a service at which whoever asks holds the lock; others are the answers to some methods."""
    scripts = {"DELETE": answer(204), **others}

    def send(heard: Heard, line: socket.socket) -> bool:
        return scripts.get(heard.method, answer(200, HELD))(heard, line)

    return send


def silence(heard: Heard, line: socket.socket) -> bool:
    """Ends the line in place of an answer."""
    return False


class Scripted:
    """Answers request by request from the script given; the last goes on for ever."""

    def __init__(self, *scripts: Script, tls: Optional[ssl.SSLContext] = None) -> None:
        self._scripts = list(scripts)
        self._tls = tls
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: List[socket.socket] = []
        self.heard: List[Heard] = []
        self.connections = 0
        host, port = self._listener.getsockname()
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for line in self._lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._lines.append(line)
            threading.Thread(target=self._serve, args=(line, self.connections - 1), daemon=True).start()

    def _serve(self, line: socket.socket, number: int) -> None:
        try:
            if self._tls is not None:
                line = self._tls.wrap_socket(line, server_side=True)
            with line, line.makefile("rb") as file:
                while heard := _hear(file, number):
                    with self._lock:
                        self.heard.append(heard)
                        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                    if not script(heard, line):
                        return
        except OSError:
            pass  # the client left, or the test is over


def _hear(file: BinaryIO, number: int) -> Optional[Heard]:
    first = file.readline().decode().split()
    if not first:
        return None
    headers = {}
    while line := file.readline().decode().strip():
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    body = file.read(int(headers.get("content-length", 0)))
    return Heard(number, first[0], first[1], headers, body or b"")
