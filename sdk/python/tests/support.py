"""The real service, and a line to it that can be broken."""

from __future__ import annotations

import atexit
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from latchkey import Claim, Client

BINARY = os.environ.get("LATCHKEY_TEST_BINARY", "")
ETCD = os.environ.get("LATCHKEY_TEST_ETCD", "")
CONTRACT = os.environ.get("LATCHKEY_TEST_CONTRACT", "")

BOUND = 20.0
"""What a slow machine is given for anything."""

SHORT_TTL = 3


def need_service() -> None:
    """For setUpModule."""
    if not (BINARY and ETCD):
        raise unittest.SkipTest("the service is started by: go test ./sdk/python")


def fresh_name() -> str:
    return f"python/{uuid.uuid4()}"


def eventually(promise: str, so: Callable[[], bool], within: float = BOUND) -> None:
    until = time.monotonic() + within
    while not so():
        if time.monotonic() > until:
            raise AssertionError(f"not within {within} s: {promise}")
        time.sleep(0.02)


class Replica:
    """One process of the service, on the etcd that all share."""

    def __init__(self, *flags: str) -> None:
        self.url = ""
        with tempfile.NamedTemporaryFile() as log:
            self._process = subprocess.Popen(
                [BINARY, "serve", "--listen=127.0.0.1:0", f"--etcd-endpoints={ETCD}", *flags], stderr=log, stdout=log
            )
            atexit.register(self.kill)  # unittest runs no cleanups when it is interrupted

            def serves() -> bool:
                said = Path(log.name).read_text()
                if self._process.poll() is not None:
                    raise AssertionError(f"a replica ended: {said}")
                found = re.search(r"listens on (http://[^,\s\"]+)", said)
                self.url = found.group(1) if found else ""
                return bool(found)

            try:
                eventually("a replica serves", serves)
            except BaseException:
                self.kill()
                raise

    @property
    def address(self) -> Tuple[str, int]:
        host, port = self.url[len("http://") :].split(":")
        return host, int(port)

    def kill(self) -> None:
        atexit.unregister(self.kill)
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Softly: it drains."""
        self._process.terminate()
        self._process.wait(BOUND)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class Proxy:
    """Stands before a replica. It can cut its lines, hold all bytes back, or let answers be lost."""

    def __init__(self, upstream: Tuple[str, int]) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: List[socket.socket] = []
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._lose = 0
        self._refuse = False
        self.requests: List[Tuple[float, str]] = []
        """When each request came, and its first line."""
        host, port = self._listener.getsockname()
        self.url = f"http://{host}:{port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def count(self, begin: str) -> int:
        return sum(line.startswith(begin) for _, line in self.requests)

    def hold(self) -> None:
        """From now on nothing comes through, and nobody is told."""
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """Ends all lines."""
        with self._lock:
            for sock in self._open:
                _end(sock)
            self._open.clear()

    def refuse(self, refuse: bool = True) -> None:
        """Ends each new line at once, and those that there are."""
        self._refuse = refuse
        if refuse:
            self.cut()

    def lose_answers(self, number: int) -> None:
        """Lets the requests through, and cuts the line in place of so many answers."""
        self._lose = number

    def close(self) -> None:
        self._listener.close()
        self.flow()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuse:
                _end(client)
                continue
            try:
                server = socket.create_connection(self._upstream, BOUND)
            except OSError:
                _end(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._open += [client, server]
            threading.Thread(target=self._pump, args=(client, server, self._asked), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, self._answered), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, passes: Callable[[bytes], bool]) -> None:
        try:
            while chunk := source.recv(65536):
                if not passes(chunk):
                    break
                self._flows.wait()
                sink.sendall(chunk)
        except OSError:
            pass
        _end(source)
        _end(sink)

    def _asked(self, chunk: bytes) -> bool:
        if found := re.match(rb"(GET|POST|PUT|DELETE) \S+", chunk):
            self.requests.append((time.monotonic(), found.group().decode()))
        return True

    def _answered(self, chunk: bytes) -> bool:
        if self._lose > 0:
            self._lose -= 1
            return False
        return True


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


class ServiceTest(unittest.TestCase):
    """Tests of a client of one or two replicas, with a proxy before the first where a test wants one."""

    def replica(self, *flags: str) -> Replica:
        made = Replica(*flags)
        self.addCleanup(made.kill)
        return made

    def proxy(self, replica: Replica) -> Proxy:
        made = Proxy(replica.address)
        self.addCleanup(made.close)
        return made

    def client(self, *servers: str, timeout: float = 10) -> Client:
        made = Client(servers, timeout=timeout)
        self.addCleanup(made.close)
        return made

    def claims(self, client: Client, name: str) -> Tuple[Claim, ...]:
        return client.list(name=name).locks

    def await_claims(self, client: Client, name: str, number: int, within: float = BOUND) -> Tuple[Claim, ...]:
        eventually(f"{number} claims", lambda: len(self.claims(client, name)) == number, within)
        return self.claims(client, name)


class InThread:
    """Runs something beside the test, whose end the test waits for."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.value: object = None
        self.error: Optional[BaseException] = None

        def work() -> None:
            try:
                self.value = run()
            except BaseException as err:
                self.error = err

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def join(self, within: float = BOUND) -> None:
        self._thread.join(within)
        if self._thread.is_alive():
            raise AssertionError(f"it has not ended within {within} s")

    def result(self) -> object:
        self.join()
        if self.error is not None:
            raise self.error
        return self.value


def python_environment() -> Dict[str, str]:
    """For a Python process of a test's own."""
    source = str(Path(__file__).resolve().parent.parent / "src")
    return {**os.environ, "PYTHONPATH": source}
