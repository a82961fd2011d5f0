"""Who calls, and what a client makes of the answers that come of it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, List, Union

from latchkey import (
    FOREVER,
    AsyncClient,
    Client,
    Forbidden,
    LockBroken,
    LockLost,
    LockNotHeld,
    LockUncertain,
    MaxHoldReached,
    NoToken,
    TooManyClaims,
    TooManyLeases,
    TooManyRequests,
    TooManyStreams,
    Unauthorized,
    Unreachable,
)
from tests.scripted import HELD, Heard, Script, Scripted, answer, holding, problem
from tests.support import BOUND, InThread, eventually

UNAUTHORIZED = problem(401, "unauthorized")
BROKEN = problem(410, "lock_broken", reason="host web-3 is gone")
SIX = answer(200, {**HELD, "ttl_seconds": 6})
LONG = answer(201, {**HELD, "ttl_seconds": 60})


def accepting(token: str) -> Script:
    def send(heard: Heard, line: socket.socket) -> bool:
        allowed = heard.headers.get("authorization") == f"Bearer {token}"
        return (holding() if allowed else UNAUTHORIZED)(heard, line)

    return send


class AccessTest(unittest.TestCase):
    def serve(self, *scripts: Script) -> Scripted:
        server = Scripted(*scripts)
        self.addCleanup(server.close)
        return server

    def client(self, server: Scripted, token: Union[str, Callable[[], str], None] = None) -> Client:
        client = Client(server.url, token=token, timeout=5)
        self.addCleanup(client.close)
        return client

    def sent(self, server: Scripted, method: str = "") -> List[str]:
        return [heard.headers.get("authorization", "") for heard in server.heard if heard.method == method or not method]


class TestTokens(AccessTest):
    def test_the_token_is_sent_with_every_request(self) -> None:
        server = self.serve(holding())
        client = self.client(server, "lk_token")
        with client.lock("n"):
            client.renew("an-id")
        self.assertEqual(self.sent(server), ["Bearer lk_token"] * 3)

        async def beside() -> None:
            async with AsyncClient(server.url, token=lambda: "lk_other") as other:
                await other.get("an-id")

        asyncio.run(beside())
        self.assertEqual(self.sent(server)[3:], ["Bearer lk_other"])

    def test_a_refused_token_is_asked_for_again_once(self) -> None:
        for tokens, sent, works in (
            (["old", "new"], ["old", "new", "new"], True),
            (["old"], ["old", "old"], False),
            (["old", "older", "oldest"], ["old", "older", "older", "oldest"], False),
        ):
            with self.subTest(tokens=tokens):
                server, left = self.serve(accepting("new")), list(tokens)
                client = self.client(server, lambda: left.pop(0) if len(left) > 1 else left[0])
                for _ in range(2):
                    try:
                        client.get("an-id")
                        self.assertTrue(works)
                    except Unauthorized as err:
                        self.assertFalse(works)
                        self.assertNotIn("old", str(err))
                self.assertEqual(self.sent(server), [f"Bearer {token}" for token in sent])

    def test_many_refused_requests_ask_for_one_token(self) -> None:
        callers = 8
        refused = threading.Barrier(callers, timeout=BOUND)

        def send(heard: Heard, line: socket.socket) -> bool:
            if heard.headers["authorization"] == "Bearer old":
                refused.wait()  # all of them have been sent with it
            return accepting("new")(heard, line)

        asked: List[str] = []

        def source() -> str:
            asked.append("new" if asked else "old")
            return asked[-1]

        client = self.client(self.serve(send), source)
        with ThreadPoolExecutor(callers) as pool:
            for got in [pool.submit(client.get, "an-id") for _ in range(callers)]:
                self.assertTrue(got.result(BOUND).held)
        self.assertEqual(asked, ["old", "new"])

    def test_a_token_that_does_not_come_holds_nothing_up(self) -> None:
        go_on, asked = threading.Event(), []
        self.addCleanup(go_on.set)

        def source() -> str:
            asked.append(1)
            if len(asked) > 1:
                go_on.wait()
            return "new" if len(asked) > 1 else "old"

        server = self.serve(holding(POST=answer(201, {**HELD, "ttl_seconds": 3}), PUT=UNAUTHORIZED))
        client = Client(server.url, token=source, timeout=2)
        lock = client.lock("n", ttl=3)
        self.assertTrue(lock.lost.wait(BOUND))
        self.assertIsInstance(lock.lost.cause, LockUncertain)
        self.assertTrue(InThread(lock.release).result(), "the token that there is may be good for that")
        with self.assertRaises(Unauthorized):
            InThread(lambda: client.renew("an-id")).result()
        InThread(lambda: client.lock("other").release()).result()
        self.assertEqual(len(asked), 2, "it is asked once at a time")
        go_on.set()
        eventually("the new token is sent", lambda: client.get("an-id").held and self.sent(server)[-1] == "Bearer new")

    def test_a_first_token_that_does_not_come_is_told_in_time(self) -> None:
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        client = Client(self.serve(holding()).url, token=lambda: "lk" if go_on.wait() else "", timeout=1)
        for _ in range(2):
            with self.assertRaises(NoToken):
                InThread(lambda: client.lock("n")).result()
        go_on.set()
        client.lock("n").release()

    def test_a_token_that_cannot_be_had(self) -> None:
        def closed() -> str:
            raise OSError("the vault is closed")

        server = self.serve(holding())
        for source in (closed, lambda: "", lambda: "hush\r\nX: y", lambda: "hush hush"):
            with self.assertRaises(NoToken) as caught:
                self.client(server, source).lock("n")
            self.assertNotIn("hush", str(caught.exception))
        self.assertEqual(server.heard, [])
        for token in ("", "hush hush", "hush\n"):
            with self.assertRaises(ValueError) as bad:
                Client(server.url, token=token)
            self.assertNotIn("hush", str(bad.exception))
        with self.assertRaises(ValueError):
            Client(server.url, token="a", headers={"authorization": "Basic b"})

    def test_the_token_follows_no_redirect(self) -> None:
        elsewhere = self.serve(holding())
        server = self.serve(answer(307, None, (f"Location: {elsewhere.url}/locks/an-id",)))
        with self.assertRaises(Unreachable):
            self.client(server, "lk_token").get("an-id")
        self.assertEqual(elsewhere.heard, [])

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork here")
    def test_a_forked_child_can_ask_though_its_parent_was_asking(self) -> None:
        server = self.serve(holding())
        begun, go_on = threading.Event(), threading.Event()

        def source() -> str:
            begun.set()
            go_on.wait(BOUND)
            return "lk_token"

        client = self.client(server, source)
        asking = threading.Thread(target=client.get, args=("an-id",))
        asking.start()
        self.assertTrue(begun.wait(BOUND))
        child = os.fork()
        if child == 0:
            go_on.set()
            os._exit(0 if client.get("an-id").held else 1)
        _, status = os.waitpid(child, 0)
        go_on.set()
        asking.join(BOUND)
        self.assertEqual(status, 0)


class TestAnswers(AccessTest):
    def test_a_refused_renewal_is_uncertain_and_not_lost(self) -> None:
        for refusal, kind in ((UNAUTHORIZED, Unauthorized), (problem(403, "forbidden"), Forbidden)):
            with self.subTest(kind=kind):
                server = self.serve(holding(POST=SIX, PUT=refusal))
                began = time.monotonic()
                lock = self.client(server, "lk_token").lock("n")
                self.assertTrue(lock.lost.wait(BOUND))
                self.assertLess(time.monotonic() - began, 6, "it is told before the deadline")
                self.assertIsInstance(lock.lost.cause, LockUncertain)
                self.assertIsInstance((lock.lost.cause or LockUncertain()).__cause__, kind)
                self.assertGreater(len(self.sent(server, "PUT")), 1)

    def test_a_renewal_refused_for_an_old_token_is_sent_again(self) -> None:
        rotated = threading.Event()

        def renewal(heard: Heard, line: socket.socket) -> bool:
            if rotated.is_set() and heard.headers["authorization"] != "Bearer new":
                return UNAUTHORIZED(heard, line)
            return SIX(heard, line)

        server = self.serve(holding(POST=SIX, PUT=renewal))
        with self.client(server, lambda: "new" if rotated.is_set() else "old").lock("n") as lock:
            rotated.set()
            eventually("the new token is sent", lambda: "Bearer new" in self.sent(server, "PUT"))
            lock.check()

    def test_what_ends_a_lock_at_its_renewal_is_told_at_once(self) -> None:
        for refusal, kind, says in (
            (BROKEN, LockBroken, "broken by an administrator: host web-3 is gone"),
            (problem(409, "max_hold_reached"), MaxHoldReached, "d"),
        ):
            with self.subTest(kind=kind):
                server = self.serve(holding(POST=answer(201, {**HELD, "ttl_seconds": 9}), PUT=refusal))
                with self.assertRaises(LockLost) as caught, self.client(server).lock("n") as lock:
                    self.assertTrue(lock.lost.wait(BOUND))
                    self.assertEqual(len(self.sent(server, "PUT")), 1, "it is not renewed any more")
                self.assertIsInstance(caught.exception.__cause__, kind)
                self.assertEqual(str(caught.exception), f"lock 'n': {says}")

    def test_a_lock_broken_unnoticed_is_lost_at_its_release(self) -> None:
        server = self.serve(holding(POST=LONG, DELETE=BROKEN))
        with self.assertRaises(LockLost), self.client(server).lock("n"):
            pass
        lock = self.client(server).lock("n")
        with self.assertRaises(LockLost):
            lock.release()
        self.assertFalse(lock.release())

    def test_a_place_that_was_broken_is_not_taken_again(self) -> None:
        queued = {**HELD, "state": "queued", "position": 1}
        server = self.serve(holding(POST=answer(202, queued), GET=BROKEN, DELETE=BROKEN))
        with self.assertRaises(LockBroken) as caught:
            self.client(server).lock("n", wait=FOREVER)
        self.assertEqual(caught.exception.reason, "host web-3 is gone")
        self.assertEqual(len(self.sent(server, "POST")), 1)
        self.assertNotIsInstance(caught.exception, LockNotHeld)

    def test_too_much_is_tried_again_when_asked_to(self) -> None:
        for kind, code in (
            (TooManyRequests, "too_many_requests"),
            (TooManyClaims, "too_many_claims"),
            (TooManyLeases, "too_many_leases"),
            (TooManyStreams, "too_many_streams"),
        ):
            with self.subTest(code=code):
                server = self.serve(problem(429, code, "Retry-After: 1"), holding())
                began = time.monotonic()
                with self.client(server).lock("n"):
                    self.assertGreaterEqual(time.monotonic() - began, 1)
                full = self.serve(problem(429, code, "Retry-After: 60"))
                with self.assertRaises(kind):
                    Client(full.url, timeout=0.3).create_lease()

    def test_a_renewal_that_came_too_soon_is_sent_again_in_time(self) -> None:
        late: List[Script] = [problem(429, "too_many_requests", "Retry-After: 60")]

        def renewal(heard: Heard, line: socket.socket) -> bool:
            return (late.pop() if late else SIX)(heard, line)

        server = self.serve(holding(POST=SIX, PUT=renewal))
        with self.client(server).lock("n") as lock:
            eventually("another renewal", lambda: len(self.sent(server, "PUT")) >= 2)
            lock.check()

    def test_breaking_tells_the_reason(self) -> None:
        server = self.serve(holding())
        self.assertTrue(self.client(server).release("an-id", reason="host web-3 & co."))
        self.assertEqual(server.heard[0].target, "/locks/an-id?reason=host+web-3+%26+co.")

    def test_a_list_may_keep_ids_to_itself(self) -> None:
        shown = {name: value for name, value in HELD.items() if name not in ("id", "lease_id")}
        server = self.serve(answer(200, {"locks": [{**shown, "principal": "billing", "hold_left_seconds": 0}]}))
        (claim,) = self.client(server).list().locks
        self.assertEqual((claim.id, claim.principal, claim.hold_left_seconds), ("", "billing", 0))

