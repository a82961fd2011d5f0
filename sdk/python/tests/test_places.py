"""A place in line on the real service while a server falls silent."""

from __future__ import annotations

import time
import unittest

from latchkey import Lock
from tests.support import BOUND, InThread, Replica, ServiceTest, eventually, fresh_name, need_service

replica: Replica

WAITING_TTL = 15.0
"""For so long a place outlives the last that was heard of its owner."""


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


class TestPlaces(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.one = self.client(replica.url)

    def test_a_frozen_server_does_not_cost_the_place(self) -> None:
        frozen = self.replica()
        silent = [self.proxy(frozen), self.proxy(frozen)]
        healthy = self.proxy(replica)
        holder = self.one.lock(self.name, ttl=60)
        client = self.client(silent[0].url, silent[1].url, healthy.url)
        waiting = InThread(lambda: client.lock(self.name, wait=4 * BOUND))
        _, place = self.await_claims(self.one, self.name, 2)
        eventually("it waits", lambda: silent[0].count("GET /locks/") > 0)
        frozen.pause()
        began = time.monotonic()
        eventually("the healthy one is asked", lambda: healthy.count("GET /locks/") > 0, within=WAITING_TTL)
        self.assertLess(time.monotonic() - began, WAITING_TTL - 1)
        holder.release()
        lock = waiting.result()
        assert isinstance(lock, Lock)
        self.assertEqual(lock.id, place.id)
        lock.release()
