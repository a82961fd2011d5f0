"""What the client makes of servers that are silent, of what stands before them, and of answers that never come."""

from __future__ import annotations

import json
import socket
import threading
import time
import unittest
from typing import Any, FrozenSet, List
from unittest import mock

from latchkey import FOREVER, Client, Forbidden, LockLost, NotAcquired, Problem, Unreachable
from latchkey._abort import Abort
from latchkey._api import Api
from latchkey._clock import clock
from latchkey._heartbeat import Heartbeat
from latchkey._share import Share, Shares
from latchkey.errors import problem_error
from tests.scripted import HELD, Heard, Script, Scripted, answer, problem, silence
from tests.support import BOUND, InThread

KEY = "k" * 16
QUEUED = {**{name: value for name, value in HELD.items() if name != "fencing_token"}, "state": "queued"}
RENEWED = {"id": "an-id", "ttl_seconds": 2, "renew_after_seconds": 1}
BUSY = problem(409, "lock_held")
NAMELESS = "replica-1.test"


class FaultTest(unittest.TestCase):
    def setUp(self) -> None:
        self.over = threading.Event()
        self.addCleanup(self.over.set)

    def hang(self, heard: Heard, line: socket.socket) -> bool:
        self.over.wait()
        return False

    def server(self, *scripts: Script) -> Scripted:
        made = Scripted(*scripts)
        self.addCleanup(made.close)
        return made

    def client(self, *servers: Scripted, timeout: float = 2) -> Client:
        made = Client([server.url for server in servers], timeout=timeout)
        self.addCleanup(made.close)
        return made

    def methods(self, server: Scripted) -> List[str]:
        return [heard.method for heard in server.heard]


class TestWhatStandsBefore(FaultTest):
    FOREIGN = (
        answer(404, b"<html>default backend", kind="text/html"),
        answer(403, b"<html>blocked", kind="text/html"),
        answer(302, None, ("Location: /login",)),
        answer(500, b"<html>oops", kind="text/html"),
        answer(524, b"<html>a time-out occurred", kind="text/html"),
        answer(404, {"message": "no Route matched"}),
    )

    def test_an_answer_of_something_else_sends_on_to_the_next(self) -> None:
        for foreign in self.FOREIGN:
            first, second = self.server(foreign), self.server(answer(201, HELD))
            self.assertEqual(self.client(first, second).claim("n", key=KEY).fencing_token, 7)

    def test_nothing_but_answers_of_something_else_is_unreachable(self) -> None:
        for foreign in self.FOREIGN:
            with self.assertRaises(Unreachable) as raised:
                self.client(self.server(foreign), timeout=0.6).get("a")
            self.assertRegex(str(raised.exception), "404|403|302|500|524")

    def test_a_claim_without_a_key_goes_on_only_if_it_was_not_done(self) -> None:
        for foreign, asked in zip(self.FOREIGN, (1, 1, 1, 0, 0, 1)):
            first, second = self.server(foreign), self.server(answer(201, HELD))
            try:
                self.client(first, second).claim("n")
            except Unreachable as err:
                self.assertTrue(err.unsure)
            self.assertEqual(len(second.heard), asked)

    def test_an_answer_that_makes_no_sense_is_none(self) -> None:
        def backwards(heard: Heard, line: socket.socket) -> bool:
            line.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n")
            return False

        first, second = self.server(backwards), self.server(answer(200, HELD))
        self.assertEqual(self.client(first, second).get("a").fencing_token, 7)
        with self.assertRaises(Unreachable):
            self.client(self.server(backwards), timeout=0.6).get("a")


class TestSilence(FaultTest):
    def test_silent_servers_leave_time_for_the_one_that_answers(self) -> None:
        silent = [self.server(self.hang) for _ in range(2)]
        began = time.monotonic()
        self.client(*silent, self.server(answer(201, HELD)), timeout=6).claim("n", key=KEY)
        self.assertLess(time.monotonic() - began, 6)

    def test_a_lock_outlives_two_silent_servers(self) -> None:
        six = {**HELD, "ttl_seconds": 6}
        first, second = self.server(answer(201, six), self.hang), self.server(self.hang)
        third = self.server(answer(200, six))
        lock = self.client(first, second, third).lock("n")
        self.assertFalse(lock.lost.wait(7))
        self.assertGreater(len(third.heard), 0)
        lock.release()

    def test_a_name_that_is_not_resolved_holds_nothing_up(self) -> None:
        real = socket.getaddrinfo

        def resolve(host: Any, *args: Any, **others: Any) -> Any:
            if host == NAMELESS:
                self.over.wait()
                raise socket.gaierror(-3, "Temporary failure in name resolution")
            return real(host, *args, **others)

        server = self.server(answer(200, HELD))
        with mock.patch("socket.getaddrinfo", resolve):
            alone = Client(f"http://{NAMELESS}:1", timeout=1)
            with self.assertRaises(Unreachable):
                InThread(lambda: alone.get("a")).result()
            with_another = Client([f"http://{NAMELESS}:1", server.url], timeout=2)
            InThread(lambda: with_another.get("a")).result()
            asking = [thread for thread in threading.enumerate() if NAMELESS in thread.name]
            self.assertLessEqual(len(asking), 2, "one question a client, however often it tries")
            self.over.set()
            for thread in asking:
                thread.join(BOUND)
                self.assertFalse(thread.is_alive())


class TestManyShares(unittest.TestCase):
    def setUp(self) -> None:
        self.api = mock.Mock(spec=Api)
        self.beat = mock.Mock(spec=Heartbeat)
        self.shares = Shares(self.api, "l")

    def hold(self, *names: str) -> List[Share]:
        return [self.shares.add(name, name, self.beat) for name in names]

    def look(self) -> None:
        self.shares.look(clock() + BOUND, Abort())

    def test_a_lease_with_many_locks_is_looked_at_now_and_then(self) -> None:
        for number, looks in ((0, 0), (1, 20), (100, 20), (101, 2)):
            with self.subTest(number=number):
                self.setUp()
                names = [f"n{each}" for each in range(number)]
                self.hold(*names)
                self.api.held_on_once.return_value = frozenset(names)
                for _ in range(20):
                    self.look()
                self.assertEqual(self.api.held_on_once.call_count, looks)
                self.api.look_once.assert_not_called()

    def test_a_lock_that_came_after_the_look_was_sent_is_not_missed_in_it(self) -> None:
        def come_meanwhile(*asked: object) -> FrozenSet[str]:
            self.hold("late")
            return frozenset()

        self.hold("early")
        self.api.held_on_once.side_effect = come_meanwhile
        self.look()
        self.assertEqual([call.args[0] for call in self.api.look_once.call_args_list], ["early"])

    def test_what_is_missing_in_a_look_is_lost_only_if_the_service_says_so(self) -> None:
        self.beat.loss.return_value = None
        self.api.held_on_once.return_value = frozenset()
        (share,) = self.hold("n")
        for said in (None, Unreachable("nobody"), problem_error(Problem("t", "T", 503, "d", "unavailable"), None)):
            self.api.look_once.side_effect = said
            self.look()
            self.assertIsNone(share.loss())
        self.api.look_once.side_effect = problem_error(Problem("t", "T", 410, "d", "lock_broken", reason="why"), None)
        self.look()
        self.assertIsInstance(share.loss(), LockLost)
        self.look()
        self.assertEqual(self.api.look_once.call_count, 4, "what is lost is asked for no more")


class TestAcquiring(FaultTest):
    def test_a_long_pause_that_is_asked_for_does_not_cost_the_place(self) -> None:
        for refusal in (problem(503, "overloaded", "Retry-After: 3600"), answer(503, None, ("Retry-After: 3600",))):
            server = self.server(answer(202, QUEUED), refusal, answer(200, HELD), answer(200, RENEWED), answer(204))
            began = time.monotonic()
            InThread(lambda: self.client(server).lock("n", wait=FOREVER).release()).result()
            self.assertLess(time.monotonic() - began, 15 / 3 + 5)

    def test_a_wait_of_one_second_asks(self) -> None:
        server = self.server(answer(202, QUEUED), answer(200, HELD), answer(200, RENEWED), answer(204))
        self.client(server).lock("n", wait=1).release()
        self.assertEqual(self.methods(server), ["POST", "GET", "PUT", "DELETE"])
        self.assertIn("wait_seconds=1", server.heard[1].target)

    def test_what_is_left_of_a_wait_asks_too(self) -> None:
        server = self.server(answer(202, QUEUED), answer(200, HELD), answer(200, RENEWED), answer(204))
        self.client(server).lock("n", wait=0.7).release()
        self.assertEqual(self.methods(server), ["POST", "GET", "PUT", "DELETE"])
        self.assertIn("wait_seconds=0", server.heard[1].target)

    def test_a_server_silent_at_the_end_of_the_wait_is_not_asked_last(self) -> None:
        first = self.server(answer(202, QUEUED), self.hang)
        second = self.server(BUSY)
        with self.assertRaises(NotAcquired):
            self.client(first, second).lock("n", wait=1)
        self.assertEqual(self.methods(second), ["POST"])

    def test_a_server_silent_after_its_grant_does_not_cost_it(self) -> None:
        six = {**HELD, "ttl_seconds": 6}
        first = self.server(answer(202, QUEUED), answer(200, six), self.hang)
        second = self.server(answer(200, RENEWED), answer(204))
        began = time.monotonic()
        self.client(first, second, timeout=BOUND).lock("n", wait=FOREVER).release()
        self.assertLess(time.monotonic() - began, 6, "the TTL")
        self.assertEqual(self.methods(second), ["PUT", "DELETE"])

    def test_the_callers_own_key_is_kept_when_the_place_is_lost(self) -> None:
        server = self.server(answer(202, QUEUED), problem(404, "lock_not_found"), answer(201, HELD), answer(204))
        self.client(server).lock("n", wait=BOUND, key=KEY).release()
        keys = [heard.headers["idempotency-key"] for heard in server.heard if heard.method == "POST"]
        self.assertEqual(keys, [KEY, KEY])

    def test_what_may_have_been_done_is_taken_back_though_a_later_try_was_refused(self) -> None:
        forbidden = problem(403, "forbidden")
        for refusals, kind in (([BUSY], NotAcquired), ([forbidden], Forbidden), ([forbidden] * 3, Forbidden)):
            with self.subTest(kind=kind):
                server = self.server(silence, *refusals, answer(200, HELD), answer(204))
                with self.assertRaises(kind):
                    self.client(server).lock("n")
                self.assertEqual(self.methods(server), ["POST", *["POST"] * len(refusals), "POST", "DELETE"])
                posts = [heard for heard in server.heard if heard.method == "POST"]
                self.assertEqual(len({heard.headers["idempotency-key"] for heard in posts}), 1)
                self.assertNotIn("queue", json.loads(posts[-1].body))
