"""Errors as values: what they say, and their way between processes."""

from __future__ import annotations

import pickle
import unittest

from latchkey import (
    HeldBy,
    InputFault,
    InvalidRequest,
    LatchkeyError,
    LockHeld,
    LockLost,
    LockNotHeld,
    LockUncertain,
    NotAcquired,
    Problem,
    ProblemError,
    StaleToken,
    Unreachable,
)
from latchkey.errors import problem_error

HELD = Problem("t", "T", 409, "d", "lock_held", holder=HeldBy(7, "me", {"a": "b"}), queue_length=3)
INVALID = Problem(
    "t", "T", 400, "2 faults", "invalid_request", (InputFault("is 0", pointer="/a"), InputFault("x", None, "b"))
)


class TestErrors(unittest.TestCase):
    def test_each_survives_its_way_between_processes(self) -> None:
        errors = (
            Unreachable("u"),
            LockLost("l"),
            LockUncertain("c"),
            StaleToken("n", 1, 2),
            NotAcquired("n", HELD),
            NotAcquired("n"),
            problem_error(HELD, 2.0),
            problem_error(INVALID, None),
        )
        for error in errors:
            with self.subTest(error=error):
                there = pickle.loads(pickle.dumps(error))
                self.assertIs(type(there), type(error))
                self.assertEqual(str(there), str(error))
                self.assertEqual(there.__dict__, error.__dict__)

    def test_each_says_what_happened(self) -> None:
        self.assertEqual(str(NotAcquired("n", HELD)), "'n' is held by me")
        self.assertEqual(str(NotAcquired("n")), "'n' is held by another")
        self.assertEqual(str(problem_error(HELD, None)), "409 lock_held: d")
        self.assertEqual(str(problem_error(INVALID, None)), "400 invalid_request: 2 faults (/a: is 0; b: x)")

    def test_kinds_are_told_apart(self) -> None:
        self.assertTrue(issubclass(LockLost, LockNotHeld) and issubclass(LockUncertain, LockNotHeld))
        self.assertFalse(issubclass(LockLost, LockUncertain) or issubclass(LockUncertain, LockLost))
        for error in (InvalidRequest, LockHeld):
            self.assertTrue(issubclass(error, ProblemError) and issubclass(error, LatchkeyError))
