"""What the clock alone decides. The clock is the test's, and no thread runs."""

from __future__ import annotations

import threading
import unittest
from typing import List, Tuple
from unittest import mock

from latchkey import LockLost, LockNotHeld, LockUncertain, Problem
from latchkey._abort import Abort
from latchkey._heartbeat import Heartbeat, margin
from latchkey.errors import problem_error
from tests.support import BOUND

GONE = problem_error(Problem("t", "T", 404, "d", "lease_not_found"), None)


class TestHeartbeat(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 100.0
        patch = mock.patch("latchkey._heartbeat.clock", lambda: self.now)
        patch.start()
        self.addCleanup(patch.stop)

    def beat(self, ttl: float = 30) -> Heartbeat:
        def never(bound: float, abort: Abort) -> Tuple[float, float]:
            raise AssertionError("nothing is renewed here")

        return Heartbeat("lock 'n'", never, 1, sent=100.0, ttl=ttl)

    def test_a_lease_is_given_up_a_margin_before_its_end(self) -> None:
        for ttl, before in ((2, 0.25), (3, 0.3), (10, 1), (30, 2), (86400, 2)):
            with self.subTest(ttl=ttl):
                self.assertAlmostEqual(margin(ttl), before)
                self.now = 100.0
                beat = self.beat(ttl)
                self.now = 100 + ttl - before - 0.001
                self.assertIsNone(beat.loss())
                self.assertAlmostEqual(beat.remaining(), before + 0.001)
                self.now = 100 + ttl - before + 0.001
                self.assertIsInstance(beat.loss(), LockUncertain)
                self.assertEqual(beat.remaining(), 0)

    def test_a_loss_is_for_ever(self) -> None:
        beat = self.beat()
        self.now = 1000
        self.assertIsInstance(beat.loss(), LockUncertain)
        beat.renewed(sent=999, ttl=30)
        self.assertIsInstance(beat.loss(), LockUncertain)
        beat.lost(GONE)
        self.assertIsInstance(beat.loss(), LockUncertain)

    def test_time_counts_from_the_latest_renewal_sent(self) -> None:
        beat = self.beat()
        beat.renewed(sent=110, ttl=20)
        beat.renewed(sent=105, ttl=60)  # its answer was overtaken
        self.now = 120
        self.assertEqual(beat.remaining(), 10)
        self.assertEqual(beat.ttl, 20)

    def test_renewals_are_due_at_a_third_with_jitter(self) -> None:
        beat = self.beat()
        due = [beat._due() for _ in range(1000)]
        self.assertTrue(all(109 <= when <= 111 for when in due))
        self.assertGreater(max(due) - min(due), 1)

    def test_a_renewal_ends_before_the_lease_is_given_up(self) -> None:
        self.assertEqual(self.beat(6)._bound(1), 2)
        beat = self.beat(30)
        self.assertEqual(beat._bound(1), 5)
        self.now = 127
        self.assertAlmostEqual(beat._bound(1), 1)
        self.now = 102
        for untried, bound in ((1, 2), (2, 1.7), (3, 3.4 / 3), (7, 3.4 / 3), (0, 2), (-1, 2)):
            self.assertAlmostEqual(self.beat(6)._bound(untried), bound)

    def test_each_loss_is_told_once(self) -> None:
        beat, told = self.beat(), threading.Event()
        losses: List[LockNotHeld] = []

        def tell(loss: LockNotHeld) -> None:
            losses.append(loss)
            told.set()

        def fail(loss: LockNotHeld) -> None:
            raise ValueError("the user's own")

        beat.on_loss(losses.append)
        beat.off_loss(losses.append)
        beat.on_loss(fail)
        beat.on_loss(tell)
        beat.lost(GONE)
        self.now = 1000
        self.assertIsInstance(beat.loss(), LockLost)
        self.assertTrue(told.wait(BOUND))
        self.assertEqual(losses, [beat.loss()])
        told.clear()
        beat.on_loss(tell)
        self.assertTrue(told.wait(BOUND), "who asks late is told too")

    def test_a_stopped_heartbeat_is_not_lost_by_the_clock(self) -> None:
        beat = self.beat()
        beat.stop()
        self.now = 1000
        self.assertIsNone(beat.loss())
        self.assertEqual(beat.remaining(), 0)
