"""What the client makes of broken lines and of answers that are not the service's."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
import unittest
from typing import Callable, List, Tuple

from latchkey import Client, InvalidRequest, LockUncertain, NotAcquired, Overloaded, ProblemError, Unavailable, Unreachable
from tests.scripted import HELD, Heard, Script, Scripted, answer, problem, silence
from tests.support import BOUND, InThread, eventually

TLS = os.environ.get("LATCHKEY_TEST_TLS", "")
KEY = "k" * 16


class LineTest(unittest.TestCase):
    def server(self, *scripts: Script) -> Scripted:
        made = Scripted(*scripts)
        self.addCleanup(made.close)
        return made

    def client(self, *servers: Scripted, timeout: float = 2) -> Client:
        made = Client([server.url for server in servers], timeout=timeout)
        self.addCleanup(made.close)
        return made


class TestLines(LineTest):
    def test_a_claim_that_stands_on_after_its_wait_is_given_back(self) -> None:
        queued = {key: value for key, value in HELD.items() if key != "fencing_token"}
        queued.update(state="queued", position=1)
        server = self.server(answer(202, queued), answer(202, queued), answer(204))
        with self.assertRaises(NotAcquired):
            self.client(server).lock("n")
        self.assertEqual([heard.method for heard in server.heard], ["POST", "POST", "DELETE"])

    def test_a_line_is_used_again(self) -> None:
        server = self.server(answer(200, HELD))
        client = self.client(server)
        for _ in range(5):
            client.get("a")
        self.assertEqual(server.connections, 1)

    def test_a_line_that_was_cut_while_idle_is_not_used(self) -> None:
        idle, closed = threading.Event(), threading.Event()

        def once(heard: Heard, line: socket.socket) -> bool:
            answer(200, HELD)(heard, line)
            idle.wait(BOUND)
            line.shutdown(socket.SHUT_RDWR)
            closed.set()
            return False

        server = self.server(once, answer(200, HELD))
        client = self.client(server)
        client.get("a")
        idle.set()
        closed.wait(BOUND)
        client.claim("n")
        self.assertEqual([(heard.connection, heard.method) for heard in server.heard], [(0, "GET"), (1, "POST")])

    def test_a_line_that_dies_under_a_request_is_replaced_if_it_can_be_repeated(self) -> None:
        calls: Tuple[Callable[[Client], object], ...] = (
            lambda client: client.get("a"),
            lambda client: client.claim("n", key=KEY),
            lambda client: client.claim("n", lease_id="l"),
        )
        for call in calls:
            server, other = self.server(answer(200, HELD), silence, answer(200, HELD)), self.server(answer(200, HELD))
            client = self.client(server, other)
            client.get("a")
            call(client)
            self.assertEqual([heard.connection for heard in server.heard], [0, 0, 1])
            self.assertEqual(other.heard, [], "that an idle line was cut says nothing against its server")

    def test_a_claim_without_a_key_is_not_sent_twice(self) -> None:
        for failure in (silence, answer(502), answer(504), problem(503, "outcome_unknown"), problem(500, "internal")):
            server = self.server(answer(200, HELD), failure, answer(201, HELD))
            client = self.client(server)
            client.get("a")
            with self.assertRaises((Unreachable, ProblemError)):
                client.claim("n")
            self.assertEqual(len(server.heard), 2)

    def test_what_was_not_done_is_sent_to_the_next(self) -> None:
        for failure in (problem(503, "unavailable"), problem(503, "overloaded"), problem(429, "too_many_waiters")):
            first, second = self.server(failure), self.server(answer(201, HELD))
            client = self.client(first, second)
            self.assertEqual(client.claim("n").fencing_token, 7)
            client.get("a")
            self.assertEqual((len(first.heard), len(second.heard)), (1, 2), "the one that answered is kept to")

    def test_a_request_goes_no_further_than_its_bound(self) -> None:
        def drip(heard: Heard, line: socket.socket) -> bool:
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            for _ in range(int(BOUND / 0.1)):
                line.sendall(b" ")
                time.sleep(0.1)
            return False

        began = time.monotonic()
        with self.assertRaises(Unreachable):
            self.client(self.server(drip), timeout=1).get("a")
        self.assertLess(time.monotonic() - began, BOUND / 2)

    def test_retry_after_is_obeyed_up_to_the_time_left(self) -> None:
        server = self.server(problem(503, "unavailable", "Retry-After: 1"), answer(200, HELD))
        began = time.monotonic()
        self.client(server, timeout=5).get("a")
        self.assertGreaterEqual(time.monotonic() - began, 1)
        began = time.monotonic()
        with self.assertRaises(Unavailable) as raised:
            self.client(self.server(problem(503, "unavailable", "Retry-After: 3600")), timeout=1).get("a")
        self.assertLess(time.monotonic() - began, BOUND)
        self.assertEqual(raised.exception.retry_after, 3600)

    def test_answers_end_as_they_say(self) -> None:
        text = json.dumps(HELD).encode()

        def chunked(heard: Heard, line: socket.socket) -> bool:
            half = len(text) // 2
            line.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (text[:half], text[half:], b""):
                line.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            return True

        def until_the_end(heard: Heard, line: socket.socket) -> bool:
            line.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text)
            return False

        def cut_off(heard: Heard, line: socket.socket) -> bool:
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + text)
            return False

        server = self.server(chunked, until_the_end, cut_off, answer(200, HELD))
        client = self.client(server)
        for _ in range(3):
            self.assertEqual(client.get("a").fencing_token, 7)
        self.assertEqual(len(server.heard), 4, "the one that was cut off was asked again")

    def test_what_is_not_latchkey_is_no_success(self) -> None:
        nonsense = (b"<html>", b"[]", b'{"id": 1}', json.dumps({**HELD, "fencing_token": "7"}).encode(), b"[" * 100000)
        for body in nonsense:
            with self.subTest(body=body[:20]):
                first, second = self.server(answer(200, body)), self.server(answer(200, HELD))
                self.assertEqual(self.client(first, second).get("a").fencing_token, 7)
        held_without_token = {name: value for name, value in HELD.items() if name != "fencing_token"}
        with self.assertRaises(Unreachable):
            self.client(self.server(answer(200, held_without_token)), timeout=0.6).get("a")

    def test_redirects_are_not_followed(self) -> None:
        elsewhere = self.server(answer(200, HELD))
        server = self.server(answer(307, None, (f"Location: {elsewhere.url}/locks",)))
        with self.assertRaises(Unreachable) as raised:
            self.client(server, timeout=0.6).claim("n", key=KEY)
        self.assertIn("307", str(raised.exception))
        self.assertEqual(elsewhere.heard, [])

    def test_an_unknown_code_is_a_problem_all_the_same(self) -> None:
        with self.assertRaises(ProblemError) as raised:
            self.client(self.server(problem(409, "new_in_a_later_version"))).get("a")
        self.assertIs(type(raised.exception), ProblemError)
        self.assertEqual((raised.exception.code, raised.exception.status), ("new_in_a_later_version", 409))

    def test_a_404_of_a_balancer_is_no_loss_and_no_release(self) -> None:
        server = self.server(answer(201, HELD), answer(404, b"default backend", kind="text/plain"))
        lock = self.client(server).lock("n")
        self.assertTrue(lock.lost.wait(BOUND))
        self.assertIsInstance(lock.lost.cause, LockUncertain)
        self.assertGreater(len(server.heard), 2, "it was tried again")
        with self.assertRaises(Unreachable):
            lock.release()

    def test_leaving_after_a_loss_is_quick_though_nobody_answers(self) -> None:
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(heard: Heard, line: socket.socket) -> bool:
            over.wait()
            return False

        first, second = self.server(answer(201, HELD), hang), self.server(hang)

        def lose() -> None:
            with self.client(first, second, timeout=600).lock("n") as lock:
                lock.lost.wait()

        with self.assertRaises(LockUncertain):
            InThread(lose).result()

        def tried(server: Scripted) -> bool:
            return any(heard.method == "DELETE" for heard in server.heard)

        self.assertTrue(tried(first) and tried(second), "they share the time")

    def test_an_overloaded_service_is_left_with_its_own_error(self) -> None:
        server = self.server(problem(503, "overloaded"))
        with self.assertRaises(Overloaded):
            self.client(server, timeout=1).lock("n")
        self.assertGreater(len(server.heard), 1)

    def test_headers_and_paths_of_the_users_own_are_sent(self) -> None:
        server = self.server(answer(200, HELD))
        with Client(server.url + "/base/", headers={"authorization": "Bearer x", "user-agent": "u"}) as client:
            client.claim("n", key=KEY, ttl=5)
        (heard,) = server.heard
        self.assertEqual((heard.method, heard.target), ("POST", "/base/locks"))
        self.assertEqual(heard.headers["authorization"], "Bearer x")
        self.assertEqual(heard.headers["user-agent"], "u")
        self.assertEqual(heard.headers["host"], server.url[len("http://") :])
        self.assertEqual(heard.headers["idempotency-key"], KEY)
        self.assertEqual(json.loads(heard.body), {"name": "n", "ttl_seconds": 5})

    def test_proxies_of_the_environment_are_not_used(self) -> None:
        server = self.server(answer(200, HELD))
        os.environ["http_proxy"] = "http://127.0.0.1:1"
        self.addCleanup(os.environ.pop, "http_proxy")
        self.assertEqual(self.client(server).get("a").fencing_token, 7)


class TestAcquisition(LineTest):
    """What waiting and claiming make of answers that are hard to get from the real service."""

    QUEUED = {**{name: value for name, value in HELD.items() if name != "fencing_token"}, "state": "queued"}
    RENEWED = {"id": "an-id", "ttl_seconds": 2, "renew_after_seconds": 1}

    def acquire(self, *scripts: Script, wait: float = BOUND) -> List[Heard]:
        """Acquires and releases, and returns the requests of the acquisition."""
        server = self.server(*scripts, answer(204))
        lock = self.client(server).lock("n", wait=wait)
        heard = list(server.heard)
        lock.release()
        return heard

    def test_an_unknown_outcome_is_repeated_with_the_same_key(self) -> None:
        first, second, third = self.acquire(
            problem(503, "outcome_unknown"), problem(500, "internal"), answer(201, HELD), wait=0
        )
        keys = {heard.headers["idempotency-key"] for heard in (first, second, third)}
        self.assertEqual(len(keys), 1)
        self.assertEqual(len({heard.body for heard in (first, second, third)}), 1)

    def test_a_place_that_is_gone_is_claimed_again_with_another_key(self) -> None:
        for gone in (problem(404, "lock_not_found"), problem(503, "place_lost")):
            first, ask, second = self.acquire(answer(202, self.QUEUED), gone, answer(201, HELD))
            self.assertEqual([heard.method for heard in (first, ask, second)], ["POST", "GET", "POST"])
            self.assertNotEqual(first.headers["idempotency-key"], second.headers["idempotency-key"])

    def test_a_grant_that_cannot_be_renewed_is_no_lock(self) -> None:
        heard = self.acquire(
            answer(202, self.QUEUED), answer(200, HELD), problem(404, "lease_not_found"), answer(201, HELD)
        )
        self.assertEqual([each.method for each in heard], ["POST", "GET", "PUT", "POST"])

    def test_an_answer_that_came_late_is_renewed_before_it_is_handed_out(self) -> None:
        def late(heard: Heard, line: socket.socket) -> bool:
            time.sleep(1.8)  # of a TTL of two seconds
            return answer(201, HELD)(heard, line)

        server = self.server(late, answer(200, self.RENEWED), answer(204))
        lock = self.client(server, timeout=BOUND).lock("n")
        self.assertEqual([heard.method for heard in server.heard], ["POST", "PUT"])
        lock.release()

    def test_a_server_that_does_not_wait_is_left_for_another(self) -> None:
        leaving = self.server(answer(202, self.QUEUED), answer(200, self.QUEUED))
        staying = self.server(answer(200, HELD), answer(200, self.RENEWED), answer(204))
        self.client(leaving, staying).lock("n", wait=BOUND).release()
        self.assertEqual([heard.method for heard in leaving.heard], ["POST", "GET"])

    def test_nothing_is_taken_back_that_cannot_be_there(self) -> None:
        server = self.server(problem(400, "invalid_request"))
        with self.assertRaises(InvalidRequest):
            self.client(server).lock("n")
        self.assertEqual(len(server.heard), 1)
        lost = self.server(silence)
        with self.assertRaises(Unreachable) as raised:
            self.client(lost, timeout=0.6).claim("n")
        self.assertTrue(raised.exception.unsure)

    def test_a_wait_goes_on_through_an_outage(self) -> None:
        heard = self.acquire(
            answer(202, self.QUEUED), silence, problem(503, "unavailable"), answer(200, HELD), answer(200, self.RENEWED)
        )
        self.assertEqual([each.method for each in heard], ["POST", "GET", "GET", "GET", "PUT"])


@unittest.skipUnless(TLS, "the certificate is made by: go test ./sdk/python")
class TestTLS(LineTest):
    def server(self, *scripts: Script) -> Scripted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{TLS}/cert.pem", f"{TLS}/key.pem")
        made = Scripted(*scripts, tls=context)
        self.addCleanup(made.close)
        return made

    def test_a_lock_is_kept_over_tls(self) -> None:
        server = self.server(answer(201, HELD), answer(200, {"id": "i", "ttl_seconds": 2, "renew_after_seconds": 1}))
        context = ssl.create_default_context(cafile=f"{TLS}/cert.pem")
        with Client(server.url, ssl_context=context) as client:
            lock = client.lock("n")
            eventually("it is renewed", lambda: len(server.heard) >= 3)
            self.assertTrue(lock.held)
            lock.release()
        self.assertEqual(server.connections, 1)

    def test_the_clients_own_certificate_is_shown(self) -> None:
        asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        asking.load_cert_chain(f"{TLS}/cert.pem", f"{TLS}/key.pem")
        asking.load_verify_locations(f"{TLS}/cert.pem")
        asking.verify_mode = ssl.CERT_REQUIRED
        server = Scripted(answer(200, HELD), tls=asking)
        self.addCleanup(server.close)
        context = ssl.create_default_context(cafile=f"{TLS}/cert.pem")
        with self.assertRaises(Unreachable), Client(server.url, ssl_context=context, timeout=0.6) as nobody:
            nobody.get("a")
        context.load_cert_chain(f"{TLS}/cert.pem", f"{TLS}/key.pem")
        with Client(server.url, ssl_context=context) as somebody:
            self.assertTrue(somebody.get("a").held)

    def test_a_certificate_that_nobody_vouches_for_is_refused(self) -> None:
        server = self.server(answer(200, HELD))
        with self.assertRaises(Unreachable) as raised:
            self.client(server, timeout=0.6).get("a")
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(raised.exception))
        self.assertEqual(server.heard, [])
