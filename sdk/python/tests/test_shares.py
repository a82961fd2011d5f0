"""Locks of the real service that share a lease, and end one by one."""

from __future__ import annotations

import unittest
from typing import List

from latchkey import LockBroken, LockLost, LockNotFound, LockNotHeld
from tests.support import BOUND, SHORT_TTL, Replica, ServiceTest, eventually, fresh_name, need_service

replica: Replica


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


class TestSharedLeases(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.other = self.client(replica.url)

    def test_a_lock_that_others_end_is_lost_and_its_lease_is_not(self) -> None:
        for reason, cause in ((None, LockNotFound), ("web-3 is gone", LockBroken)):
            with self.subTest(reason=reason), self.client(replica.url).lease(ttl=SHORT_TTL) as lease:
                losses: List[LockNotHeld] = []
                ended = lease.lock(f"{self.name}/ended", on_lost=losses.append)
                stays = lease.lock(f"{self.name}/stays", on_lost=losses.append)
                self.other.release(ended.id, reason=reason)
                self.assertTrue(ended.lost.wait(BOUND))
                self.assertFalse(ended.held)
                self.assertEqual(ended.remaining(), 0)
                with self.assertRaises(LockLost) as told:
                    ended.check()
                self.assertIsInstance(told.exception.__cause__, cause)
                if reason:
                    self.assertIn(reason, str(told.exception))
                eventually("it is told by the callback too", lambda: len(losses) == 1)
                stays.check()
                lease.check()
                self.assertFalse(ended.release())
                self.assertTrue(stays.release())
                self.assertFalse(stays.lost.wait(2 * BOUND), "waiting ends with the release")

    def test_leaving_the_block_of_a_lock_that_others_ended_raises(self) -> None:
        with self.client(replica.url).lease(ttl=SHORT_TTL) as lease:
            with self.assertRaises(LockLost), lease.lock(self.name) as lock:
                self.other.release(lock.id)
                self.assertTrue(lock.lost.wait(BOUND))
            with lease.lock(self.name) as again:
                self.assertFalse(again.lost.wait(SHORT_TTL), "what is taken anew is not taken for the one that was lost")
