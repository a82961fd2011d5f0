"""One method an operation of openapi.yaml, for the parts of this package. What users call is in client.py."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, FrozenSet, Mapping, Optional, Tuple
from urllib.parse import urlencode

from latchkey._abort import Abort
from latchkey._calls import Calls, Outcome, Request, path
from latchkey._clock import clock
from latchkey.errors import LeaseNotFound, LockNotFound
from latchkey.wire import Claim, ClaimPage, LeaseInfo, LeaseStatus


def claim_request(
    name: str,
    *,
    ttl: Optional[int] = None,
    lease_id: Optional[str] = None,
    wait_seconds: int = 0,
    queue: bool = False,
    holder: Optional[str] = None,
    metadata: Optional[Mapping[str, str]] = None,
    key: Optional[str] = None,
) -> Request:
    body: Dict[str, object] = {"name": name}
    if lease_id is not None:
        body["lease_id"] = lease_id
    if wait_seconds:
        body["wait_seconds"] = wait_seconds
    if queue:
        body["queue"] = True
    body.update(_shown(ttl, holder, metadata))
    return Request(
        "POST",
        "/locks",
        body,
        key,
        key is not None or lease_id is not None,
        wait_seconds,
        in_line=queue and key is not None,
    )


def lease_request(ttl: Optional[int], holder: Optional[str], metadata: Optional[Mapping[str, str]]) -> Request:
    return Request("POST", "/leases", _shown(ttl, holder, metadata))


def _shown(ttl: Optional[int], holder: Optional[str], metadata: Optional[Mapping[str, str]]) -> Dict[str, object]:
    body: Dict[str, object] = {}
    if ttl is not None:
        body["ttl_seconds"] = ttl
    if holder is not None:
        body["holder"] = holder
    if metadata is not None:
        body["metadata"] = dict(metadata)
    return body


def ask_request(lock_id: str, wait_seconds: Optional[int]) -> Request:
    """Asks for the claim when it says how long to wait, else only looks."""
    query = "" if wait_seconds is None else f"?wait_seconds={wait_seconds}"
    return Request("GET", path("locks", lock_id) + query, wait=wait_seconds or 0, in_line=wait_seconds is not None)


def renew_request(lease_id: str) -> Request:
    return Request("PUT", path("leases", lease_id))


def read_nothing(value: object) -> None:
    """Reads a 204."""


class Api:
    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def until(self, wait: float = 0) -> float:
        """When a call that begins now and waits so long is given up."""
        return clock() + wait + self.calls.timeout

    def claim(self, request: Request, until: float, abort: Abort, strict: bool = False) -> Outcome[Claim]:
        return self.calls.call(lambda: request, Claim.read, until, abort, strict)

    def ask(self, lock_id: str, wait_seconds: Optional[int], abort: Abort) -> Claim:
        request = ask_request(lock_id, wait_seconds)
        return self.calls.call(lambda: request, Claim.read, self.until(request.wait), abort).value

    def list(self, filters: Mapping[str, object], abort: Abort) -> ClaimPage:
        query = urlencode({name: value for name, value in filters.items() if value is not None})
        request = Request("GET", "/locks" + (f"?{query}" if query else ""))
        return self.calls.call(lambda: request, ClaimPage.read, self.until(), abort).value

    def remove_lock(
        self, lock_id: str, until: float, abort: Abort, strict: bool = False, reason: Optional[str] = None
    ) -> bool:
        """Whether this call removed it: found gone after a try that was not answered counts as done by that try."""
        query = "" if reason is None else "?" + urlencode({"reason": reason})
        return self._remove(path("locks", lock_id) + query, until, abort, strict)

    def create_lease(
        self, ttl: Optional[int], holder: Optional[str], metadata: Optional[Mapping[str, str]], abort: Abort
    ) -> Outcome[LeaseInfo]:
        request = lease_request(ttl, holder, metadata)
        return self.calls.call(lambda: request, LeaseInfo.read, self.until(), abort)

    def renew(self, lease_id: str, until: float, abort: Abort, patience: float = math.inf) -> Outcome[LeaseInfo]:
        request = replace(renew_request(lease_id), patience=patience)
        return self.calls.call(lambda: request, LeaseInfo.read, until, abort)

    def renew_once(self, lease_id: str, bound: float, abort: Abort) -> Tuple[float, float]:
        """A heartbeat's renewal: one try. When it was sent, and the TTL that began then."""
        outcome = self.calls.attempt(renew_request(lease_id), LeaseInfo.read, bound, abort)
        return outcome.sent, outcome.value.ttl_seconds

    def held_on_once(self, lease_id: str, bound: float, abort: Abort) -> FrozenSet[str]:
        """One try: the ids of what is held on the lease."""
        status = self.calls.attempt(Request("GET", path("leases", lease_id)), LeaseStatus.read, bound, abort).value
        return frozenset(claim.id for claim in status.locks if claim.held)

    def look_once(self, lock_id: str, bound: float, abort: Abort) -> Claim:
        """One try."""
        return self.calls.attempt(ask_request(lock_id, None), Claim.read, bound, abort).value

    def look_at_lease(self, lease_id: str, abort: Abort) -> LeaseStatus:
        request = Request("GET", path("leases", lease_id))
        return self.calls.call(lambda: request, LeaseStatus.read, self.until(), abort).value

    def remove_lease(self, lease_id: str, until: float, abort: Abort, strict: bool = False) -> bool:
        """As remove_lock."""
        return self._remove(path("leases", lease_id), until, abort, strict)

    def _remove(self, target: str, until: float, abort: Abort, strict: bool) -> bool:
        request = Request("DELETE", target)
        try:
            self.calls.call(lambda: request, read_nothing, until, abort, strict)
        except (LockNotFound, LeaseNotFound) as err:
            return err.unsure
        return True
