"""For what a lock protects: refusing whoever comes with the token of a time that has passed."""

from __future__ import annotations

import re
import threading
from typing import Any, Dict, Protocol, Sequence

from latchkey.errors import StaleToken
from latchkey.wire import MAX_TOKEN

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


def _checked(token: int) -> int:
    if not isinstance(token, int) or isinstance(token, bool) or not 1 <= token <= MAX_TOKEN:
        raise ValueError("a fencing token is a whole number from 1 to 2**53 - 1")
    return token


class FenceGuard:
    """Keeps the highest token of each name in memory: for a resource that lives in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._highest: Dict[str, int] = {}

    def accept(self, name: str, token: int) -> None:
        """Accepts the highest token so far, or one as high, and remembers it. Raises StaleToken for a lower one."""
        _checked(token)
        with self._lock:
            highest = self._highest.get(name, 0)
            if token < highest:
                raise StaleToken(name, token, highest)
            self._highest[name] = token


class Cursor(Protocol):
    """What is used of a DB-API cursor."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Sequence[Any], /) -> Any: ...
    def fetchone(self) -> Any: ...


class SQLFenceGuard:
    """Keeps the highest token of each name in a table, inside your own transaction: SQLite 3.24+ or PostgreSQL.

    The table is yours to create: see schema(). paramstyle is that of your driver's module.
    """

    def __init__(self, *, table: str = "fences", paramstyle: str = "qmark") -> None:
        if not _TABLE.fullmatch(table):
            raise ValueError("a table is a plain SQL name, perhaps with a schema before it")
        if paramstyle not in _PLACEHOLDERS:
            raise ValueError(f"paramstyle is one of {', '.join(_PLACEHOLDERS)}")
        mark = _PLACEHOLDERS[paramstyle]
        self._table = table
        self._accept = (
            f"INSERT INTO {table} AS fence (name, token) VALUES ({mark}, {mark})"
            " ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token"
        )
        self._highest = f"SELECT token FROM {table} WHERE name = {mark}"

    def schema(self) -> str:
        """The statement that makes the table."""
        return f"CREATE TABLE IF NOT EXISTS {self._table} (name text PRIMARY KEY, token bigint NOT NULL)"

    def accept(self, cursor: Cursor, name: str, token: int) -> None:
        """As FenceGuard.accept, by one atomic statement: make it the first of every transaction that the lock protects.

        Raises StaleToken: then roll back.
        """
        cursor.execute(self._accept, (name, _checked(token)))
        if cursor.rowcount == 0:
            cursor.execute(self._highest, (name,))
            row = cursor.fetchone()
            raise StaleToken(name, token, row[0] if row else token)
