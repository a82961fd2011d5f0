"""Waiting in line on the real service: a place is kept, and nothing is left of a wait that came to nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import unittest
from typing import List
from unittest import mock

from latchkey import FOREVER, Client, Lock, NotAcquired, Unreachable
from latchkey._acquire import Acquisition
from tests.support import (
    BOUND,
    InThread,
    Replica,
    ServiceTest,
    eventually,
    fresh_name,
    need_service,
    python_environment,
)

replica: Replica


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


class TestWaiting(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.one, self.other = self.client(replica.url), self.client(replica.url)

    def got(self, waiting: InThread) -> Lock:
        lock = waiting.result()
        assert isinstance(lock, Lock)
        self.addCleanup(lock.release)
        return lock

    def test_waiters_are_served_in_line(self) -> None:
        first = self.one.lock(self.name)
        order: List[int] = []

        def wait(number: int) -> None:
            with self.other.lock(self.name, wait=FOREVER) as lock:
                order.append(lock.fencing_token)

        waiting = []
        for number in range(3):
            waiting.append(InThread(lambda: wait(number)))
            self.await_claims(self.one, self.name, number + 2)
        first.release()
        for each in waiting:
            each.result()
        self.assertEqual(order, sorted(order))
        self.assertGreater(order[0], first.fencing_token)

    def test_a_grant_after_a_wait_is_renewed_before_it_is_handed_out(self) -> None:
        proxy = self.proxy(replica)
        with self.one.lock(self.name):
            waiting = InThread(lambda: self.client(proxy.url).lock(self.name, ttl=30, wait=BOUND))
            self.await_claims(self.one, self.name, 2)
        lock = self.got(waiting)
        self.assertEqual(proxy.count("PUT /leases/"), 1)
        self.assertGreater(lock.remaining(), 25)

    def test_a_lock_without_a_wait_takes_one_request(self) -> None:
        proxy = self.proxy(replica)
        with self.client(proxy.url).lock(self.name, wait=5):
            self.assertEqual(len(proxy.requests), 1)

    def test_when_the_wait_is_over_nothing_is_left(self) -> None:
        for wait in (0.3, 2):
            with self.subTest(wait=wait), self.one.lock(self.name, holder="one") as lock:
                began = time.monotonic()
                with self.assertRaises(NotAcquired) as busy:
                    self.other.lock(self.name, wait=wait)
                self.assertGreaterEqual(time.monotonic() - began, wait)
                self.assertEqual(busy.exception.holder, "one")
                self.assertEqual([claim.id for claim in self.claims(self.one, self.name)], [lock.id])

    def test_a_wait_that_is_interrupted_leaves_nothing(self) -> None:
        program = (
            "import sys, latchkey\n"
            "try: latchkey.Client(sys.argv[1]).lock(sys.argv[2], wait=latchkey.FOREVER)\n"
            "except KeyboardInterrupt: sys.exit(33)\n"
        )
        with self.one.lock(self.name) as lock:
            child = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", program, replica.url, self.name],
                env=python_environment(),
                stderr=subprocess.PIPE,
            )
            self.await_claims(self.one, self.name, 2)
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=BOUND)
            self.assertEqual((child.returncode, said), (33, b""))
            self.assertEqual([claim.id for claim in self.claims(self.one, self.name)], [lock.id])

    def test_a_lost_place_is_claimed_again(self) -> None:
        with self.one.lock(self.name):
            waiting = InThread(lambda: self.other.lock(self.name, wait=BOUND))
            _, queued = self.await_claims(self.one, self.name, 2)
            with self.assertLogs("latchkey", "INFO") as logs:
                self.one.release(queued.id)
                eventually(
                    "another claim waits",
                    lambda: any(not c.held and c.id != queued.id for c in self.claims(self.one, self.name)),
                )
            self.assertIn("claiming again", "".join(logs.output))
        self.assertNotEqual(self.got(waiting).id, queued.id)

    def test_a_place_is_kept_when_its_replica_dies(self) -> None:
        dying = self.replica()
        client = self.client(dying.url, replica.url)
        first = self.one.lock(self.name)
        moved = InThread(lambda: client.lock(self.name, wait=BOUND))
        _, place = self.await_claims(self.one, self.name, 2)
        last = InThread(lambda: self.other.lock(self.name, wait=BOUND))
        self.await_claims(self.one, self.name, 3)
        dying.kill()
        first.release()
        lock = self.got(moved)
        self.assertEqual(lock.id, place.id)
        self.assertIsNone(last.value)
        lock.release()
        self.assertGreater(self.got(last).fencing_token, lock.fencing_token)

    def test_a_place_is_kept_when_its_replica_drains(self) -> None:
        leaving = self.replica()
        client = self.client(leaving.url, replica.url)
        first = self.one.lock(self.name)
        moved = InThread(lambda: client.lock(self.name, wait=BOUND))
        _, place = self.await_claims(self.one, self.name, 2)
        leaving.stop()
        first.release()
        self.assertEqual(self.got(moved).id, place.id)

    def test_an_answer_that_was_lost_makes_no_second_claim(self) -> None:
        proxy = self.proxy(replica)
        proxy.lose_answers(1)
        with self.client(proxy.url).lock(self.name) as lock:
            self.assertEqual(proxy.count("POST /locks"), 2)
            self.assertEqual([claim.id for claim in self.claims(self.one, self.name)], [lock.id])
            proxy.lose_answers(1)
            self.assertTrue(lock.release(), "the first try did it")

    def test_a_claim_whose_answers_were_all_lost_is_taken_back(self) -> None:
        proxy = self.proxy(replica)
        proxy.lose_answers(1000)
        leave = Acquisition._leave

        def heal_and_leave(acquisition: Acquisition) -> None:
            self.assertEqual(len(self.claims(self.one, self.name)), 1)
            proxy.lose_answers(0)
            leave(acquisition)

        with mock.patch.object(Acquisition, "_leave", heal_and_leave), self.assertRaises(Unreachable):
            self.client(proxy.url, timeout=1).lock(self.name, ttl=600)
        self.assertEqual(self.claims(self.one, self.name), ())


FORKING = """
import os, sys, latchkey

def use(client, lock):
    for _ in range(100):
        assert client.get(lock.id).name == lock.name

client = latchkey.Client(sys.argv[1])
with client.lock(sys.argv[2]) as lock:
    pid = os.fork()
    if pid == 0:
        assert not lock.held and lock.remaining() == 0 and not lock.release()
        try:
            lock.check()
        except latchkey.LockNotHeld:
            pass
        else:
            raise AssertionError
        with client.lock(sys.argv[2] + "/child") as own:
            use(client, own)
            own.check()
        sys.exit(21)  # through the end of the block, which must not release
    use(client, lock)
    _, status = os.waitpid(pid, 0)
    assert os.WEXITSTATUS(status) == 21, status
    lock.check()
    assert client.get(lock.id).held
    pid = os.fork()
if pid == 0:
    sys.exit(22)  # having left the block, which must not raise either
_, status = os.waitpid(pid, 0)
assert os.WEXITSTATUS(status) == 22, status
"""


class TestForksAndThreads(ServiceTest):
    def test_many_threads_share_a_client(self) -> None:
        client, name = self.client(replica.url), fresh_name()
        tokens: List[int] = []

        def take_turns() -> None:
            for _ in range(5):
                with client.lock(name, wait=FOREVER) as lock:
                    tokens.append(lock.fencing_token)

        for thread in [InThread(take_turns) for _ in range(8)]:
            thread.result()
        self.assertEqual(len(tokens), 40)
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_a_client_goes_on_in_a_forked_process(self) -> None:
        self.run_python(FORKING, fresh_name())

    def test_an_interpreter_ends_quietly_with_a_lock_still_held(self) -> None:
        program = (
            "import sys, time, latchkey\n"
            "lock = latchkey.Client(sys.argv[1]).lock(sys.argv[2], ttl=2)\n"
            "time.sleep(0.7)  # amid its renewals\n"
        )
        self.run_python(program, fresh_name())

    def run_python(self, program: str, name: str) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, replica.url, name],
            env=python_environment(),
            capture_output=True,
            timeout=BOUND,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))


class TestClient(ServiceTest):
    def test_a_client_can_be_used_after_close(self) -> None:
        with Client(replica.url) as client:
            lock = client.lock(fresh_name())
        self.assertTrue(lock.held)
        self.assertTrue(lock.release())
        client.close()
