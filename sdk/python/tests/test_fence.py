"""What a resource refuses."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import List

from latchkey import FenceGuard, SQLFenceGuard, StaleToken
from tests.support import InThread


class TestFenceGuard(unittest.TestCase):
    def test_lower_tokens_are_refused_and_equal_ones_are_not(self) -> None:
        guard = FenceGuard()
        for token in (7, 7, 9):
            guard.accept("a", token)
        guard.accept("b", 1)
        with self.assertRaises(StaleToken) as refused:
            guard.accept("a", 8)
        self.assertEqual((refused.exception.name, refused.exception.token, refused.exception.highest), ("a", 8, 9))
        guard.accept("a", 9)

    def test_what_is_no_token_is_refused(self) -> None:
        for wrong in (0, -1, 2**53, True, 1.0, "1", None):
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                FenceGuard().accept("a", wrong)  # type: ignore[arg-type]

    def test_among_threads_the_highest_never_falls(self) -> None:
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)
        guard = FenceGuard()
        together = threading.Barrier(4)

        def offer(step: int) -> None:
            for least in range(10, 2000, 10):
                together.wait()
                with contextlib.suppress(StaleToken):
                    guard.accept("a", least + step)
                together.wait()
                # All have offered theirs, so the least of them is refused.
                with self.assertRaises(StaleToken):
                    guard.accept("a", least)

        for offering in [InThread(functools.partial(offer, step)) for step in (0, 1, 2, 3)]:
            offering.result()


class TestSQLFenceGuard(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = str(Path(folder.name) / "data")
        self.guard = SQLFenceGuard(paramstyle=sqlite3.paramstyle)
        with self.connect() as db, db:
            db.execute(self.guard.schema())
            db.execute("CREATE TABLE invoices (id integer PRIMARY KEY, status text)")
            db.execute("INSERT INTO invoices VALUES (1, 'open')")

    def connect(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(self.file, timeout=20))

    def write(self, token: int, status: str) -> None:
        with self.connect() as db, db:  # commits, or rolls back; and closes
            self.guard.accept(db.cursor(), "invoices/1", token)
            db.execute("UPDATE invoices SET status = ? WHERE id = 1", (status,))

    def status(self) -> str:
        with self.connect() as db:
            (status,) = db.execute("SELECT status FROM invoices").fetchone()
        return str(status)

    def test_a_former_holder_writes_nothing(self) -> None:
        self.write(5, "by 5")
        self.write(6, "by 6")
        self.write(6, "by 6 again")
        with self.assertRaises(StaleToken) as refused:
            self.write(5, "late")
        self.assertEqual(refused.exception.highest, 6)
        self.assertEqual(self.status(), "by 6 again")

    def test_what_is_rolled_back_was_not_accepted(self) -> None:
        with self.connect() as db:
            self.guard.accept(db.cursor(), "invoices/1", 9)
            db.rollback()
        self.write(5, "by 5")
        self.assertEqual(self.status(), "by 5")

    def test_two_transactions_cannot_both_be_the_first(self) -> None:
        highest: List[int] = []

        def write(token: int) -> None:
            try:
                self.write(token, f"by {token}")
                highest.append(token)
            except StaleToken:
                pass

        writers = [InThread(functools.partial(write, token)) for token in range(1, 9)]
        for writer in writers:
            writer.result()
        self.assertIn(8, highest)
        self.assertEqual(self.status(), "by 8")

    def test_only_plain_names_become_tables(self) -> None:
        SQLFenceGuard(table="locks.fences", paramstyle="pyformat")
        for table in ("", "a b", "fences; DROP TABLE x", '"x"', "1a"):
            with self.subTest(table=table), self.assertRaises(ValueError):
                SQLFenceGuard(table=table)
        with self.assertRaises(ValueError):
            SQLFenceGuard(paramstyle="named")
