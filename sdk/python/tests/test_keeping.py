"""Keeping a lock of the real service, whatever happens to its replicas."""

from __future__ import annotations

import time
import unittest

from tests.support import SHORT_TTL, Replica, ServiceTest, eventually, fresh_name, need_service

replica: Replica


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


class TestKeeping(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.other = self.client(replica.url)

    def test_a_lock_outlives_its_ttl_by_renewals(self) -> None:
        proxy = self.proxy(replica)
        with self.client(proxy.url).lock(self.name, ttl=SHORT_TTL) as lock:
            eventually("four renewals", lambda: proxy.count("PUT") >= 4)
            self.assertTrue(lock.held)
            self.assertTrue(self.other.get(lock.id).held)
        times = [when for when, line in proxy.requests if line.startswith(("POST", "PUT"))]
        pauses = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertGreater(min(pauses), SHORT_TTL / 3 / 2)
        number = len(proxy.requests)
        time.sleep(SHORT_TTL / 3 * 1.2)
        self.assertEqual(len(proxy.requests), number, "nothing is renewed after the release")

    def test_a_holder_keeps_its_lock_when_its_replica_dies(self) -> None:
        dying = self.replica()
        with self.client(dying.url, replica.url).lock(self.name, ttl=SHORT_TTL) as lock:
            dying.kill()
            time.sleep(SHORT_TTL * 1.5)
            lock.check()
            self.assertEqual(self.other.get(lock.id).fencing_token, lock.fencing_token)

    def test_a_holder_keeps_its_lock_when_its_replica_is_paused(self) -> None:
        paused = self.replica()
        with self.client(paused.url, replica.url).lock(self.name, ttl=SHORT_TTL) as lock:
            paused.pause()
            self.addCleanup(paused.resume)
            time.sleep(SHORT_TTL * 1.5)
            lock.check()
