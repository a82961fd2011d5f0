"""Losing a lock of the real service, and being told before another can have it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import unittest
from typing import List

from latchkey import (
    FenceGuard,
    Lock,
    LockLost,
    LockNotHeld,
    LockUncertain,
    StaleToken,
)
from tests.support import (
    BOUND,
    SHORT_TTL,
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


class TestLosing(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.other = self.client(replica.url)

    def test_a_cut_line_makes_a_lock_uncertain_before_another_can_have_it(self) -> None:
        for cut in ("hold", "refuse"):
            with self.subTest(cut):
                name = fresh_name()
                proxy = self.proxy(replica)
                losses: List[LockNotHeld] = []
                lock = self.client(proxy.url).lock(name, ttl=SHORT_TTL, on_lost=losses.append)
                getattr(proxy, cut)()
                waiting = InThread(lambda: self.other.lock(name, wait=BOUND))
                self.assertTrue(lock.lost.wait(SHORT_TTL + 1))
                self.assertIsNone(waiting.value, "it is told before another has it")
                self.assertIsInstance(lock.lost.cause, LockUncertain)
                self.assertFalse(lock.held)
                self.assertEqual(lock.remaining(), 0)
                with self.assertRaises(LockUncertain) as told:
                    lock.check()
                self.assertIsNotNone(told.exception.__cause__, "the last failure is behind it")
                eventually("it is told by the callback too", lambda: len(losses) == 1)
                following = waiting.result()
                assert isinstance(following, Lock)
                proxy.flow()
                proxy.refuse(False)
                asked = proxy.count("PUT")
                following.release()
                time.sleep(SHORT_TTL / 3)
                self.assertEqual(proxy.count("PUT"), asked, "nothing renews a lock that was given up")
                self.assertEqual(len(losses), 1)

    def test_an_end_by_others_is_a_loss_at_the_next_renewal(self) -> None:
        with self.assertRaises(LockLost) as told:
            with self.other.lock(self.name, ttl=SHORT_TTL) as lock:
                self.assertTrue(self.client(replica.url).release(lock.id))
                self.assertTrue(lock.lost.wait(BOUND))
        self.assertNotIsInstance(told.exception, LockUncertain)
        self.assertFalse(lock.held)

    def test_an_error_of_the_block_is_not_hidden_by_the_loss(self) -> None:
        with self.assertRaises(KeyError) as raised:
            with self.other.lock(self.name, ttl=SHORT_TTL) as lock:
                self.other.release(lock.id)
                lock.lost.wait(BOUND)
                try:
                    raise ValueError("deepest")
                except ValueError:
                    raise KeyError("mine")
        behind = raised.exception.__context__
        self.assertIsInstance(behind, ValueError)
        assert behind is not None
        self.assertIsInstance(behind.__context__, LockLost)

    def test_a_check_that_raised_is_not_raised_again(self) -> None:
        with self.assertRaises(LockLost) as raised:
            with self.other.lock(self.name, ttl=SHORT_TTL) as lock:
                self.other.release(lock.id)
                lock.lost.wait(BOUND)
                lock.check()
        self.assertIsNone(raised.exception.__context__)

    def test_waiting_for_a_loss_ends_with_the_release(self) -> None:
        lock = self.other.lock(self.name)
        self.assertFalse(lock.lost.wait(0.01))
        waiting = InThread(lock.lost.wait)
        lock.release()
        self.assertIs(waiting.result(), False)

    def test_a_lease_that_is_cut_off_loses_all_its_locks(self) -> None:
        proxy = self.proxy(replica)
        losses: List[LockNotHeld] = []
        lease = self.client(proxy.url).lease(ttl=SHORT_TTL)
        locks = [lease.lock(f"{self.name}/{number}", on_lost=losses.append) for number in range(3)]
        released = lease.lock(f"{self.name}/released", on_lost=losses.append)
        released.release()
        proxy.hold()
        self.assertTrue(lease.lost.wait(SHORT_TTL + 1))
        for lock in locks:
            self.assertIsInstance(lock.lost.cause, LockUncertain)
        eventually("each is told, but not the one that was released", lambda: len(losses) == 3)

    def test_a_wait_on_a_lease_that_was_cut_off_ends_in_no_lock(self) -> None:
        proxy = self.proxy(replica)
        with self.other.lock(self.name):
            lease = self.client(proxy.url).lease(ttl=SHORT_TTL)
            waiting = InThread(lambda: lease.lock(self.name, wait=BOUND))
            self.await_claims(self.other, self.name, 2)
            proxy.hold()
            self.assertTrue(lease.lost.wait(SHORT_TTL + 1))
            proxy.flow()
        with self.assertRaises(LockNotHeld):
            waiting.result()
        self.await_claims(self.other, self.name, 0)


PAUSED = """
import sys, latchkey
lock = latchkey.Client(sys.argv[1]).lock(sys.argv[2], ttl=int(sys.argv[3]))
print(lock.fencing_token, flush=True)
sys.stdin.readline()
# The first thing that is asked on waking.
print(lock.held, lock.remaining(), type(lock.lost.cause).__name__, flush=True)
try:
    lock.check()
except latchkey.LockUncertain:
    print("refused", flush=True)
"""


class TestPause(ServiceTest):
    def test_a_paused_holder_knows_on_waking_and_is_refused_by_the_resource(self) -> None:
        name, guard = fresh_name(), FenceGuard()
        holder = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PAUSED, replica.url, name, str(SHORT_TTL)],
            env=python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        assert holder.stdin and holder.stdout
        token = int(holder.stdout.readline())
        guard.accept(name, token)
        holder.send_signal(signal.SIGSTOP)
        with self.client(replica.url).lock(name, wait=BOUND) as following:
            guard.accept(name, following.fencing_token)
            holder.stdin.write("\n")  # is there to be read at once
            holder.stdin.flush()
            holder.send_signal(signal.SIGCONT)
            self.assertEqual(holder.stdout.readline(), "False 0.0 LockUncertain\n")
            self.assertEqual(holder.stdout.readline(), "refused\n")
            with self.assertRaises(StaleToken):
                guard.accept(name, token)
            following.check()
