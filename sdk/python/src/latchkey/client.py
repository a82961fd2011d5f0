"""The client."""

from __future__ import annotations

import copy
import os
import ssl
from types import TracebackType
from typing import Callable, Iterable, Iterator, List, Mapping, Optional, Type, Union

from latchkey._abort import Abort
from latchkey._acquire import wanted
from latchkey._api import Api, claim_request
from latchkey._calls import Calls
from latchkey._credentials import Credentials, Token
from latchkey._line import Server
from latchkey.lock import Lease, Lock, OnLost, take_lease, take_lock
from latchkey.wire import Claim, ClaimPage, LeaseInfo, LeaseStatus

ENVIRONMENT = "LATCHKEY_SERVER"
DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_TTL = 30
DEFAULT_TIMEOUT = 10.0


def parse_servers(servers: Union[str, Iterable[str], None]) -> List[Server]:
    """The servers of a list, of a text with commas, of the environment or by default, in that order."""
    if servers is None:
        servers = os.environ.get(ENVIRONMENT) or DEFAULT_SERVER
    if isinstance(servers, str):
        servers = servers.split(",")
    parsed = [Server.parse(url.strip()) for url in servers if url.strip()]
    if not parsed:
        raise ValueError("no server is given")
    return parsed


class Client:
    """Speaks to latchkey, at any of several base URLs. It may be used by many threads, and after a fork.

    A request goes to the server that last answered, and on to the next when that one fails. A call is repeated, where
    its outcome allows, for timeout seconds beyond what it waits for, and every server is tried once; one request takes
    timeout seconds beyond its wait at the most. Proxies in the environment are not used. Redirects are not followed.

    servers: base URLs, as a list or in one text with commas. By default LATCHKEY_SERVER, or http://127.0.0.1:8080.
    headers: sent with every request, such as what a proxy on the way wants.
    token: says who calls: an API token or a JWT, sent as Authorization: Bearer; or a function that returns it. That is asked
        before the first request, and again when one is answered 401, which is then sent once more if there is another token.
        It is called in a thread of its own, once at a time, and awaited for no longer than the request has time. What it
        raises is told as NoToken.
    ssl_context: how to check the certificates of https servers, and the client's own certificate; by default as Python does.
    """

    def __init__(
        self,
        servers: Union[str, Iterable[str], None] = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        token: Optional[Token] = None,
        timeout: float = DEFAULT_TIMEOUT,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        if not timeout > 0:
            raise ValueError("timeout is a number of seconds above 0")
        parsed = parse_servers(servers)
        if ssl_context is None and any(server.tls for server in parsed):
            ssl_context = ssl.create_default_context()
        if token is not None and any(name.title() == "Authorization" for name in headers or {}):
            raise ValueError("headers have an Authorization, and so would the token")
        self._api = Api(Calls(parsed, headers or {}, timeout, ssl_context, Credentials(token)))
        self._new_abort: Callable[[], Abort] = Abort

    def _ended_by(self, abort: Abort) -> Client:
        """The same client, for a call that another thread may end."""
        client = copy.copy(self)
        client._new_abort = lambda: abort
        return client

    def lock(
        self,
        name: str,
        *,
        ttl: int = DEFAULT_TTL,
        wait: Optional[float] = None,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Lock:
        """Returns the held lock, which renews itself until it is released: use it in a with statement.

        ttl: seconds that the lock outlives its last renewal, whole ones.
        wait: seconds to wait in line for it; 0 or None does not wait, FOREVER waits for as long as it takes.
        holder, metadata: shown to others.
        key: the idempotency key, fresh for each acquisition; a random one by default.
        on_lost: called once, in a thread of its own, with the LockLost or LockUncertain.

        Raises NotAcquired when another has it, Unreachable when no server answered, or a ProblemError.
        """
        return take_lock(self._api, wanted(name, wait, ttl, None, holder, metadata, key), on_lost, self._new_abort())

    def lease(
        self,
        *,
        ttl: int = DEFAULT_TTL,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Lease:
        """Returns a lease that renews itself until it is released: its lock() puts many locks on the one heartbeat."""
        return take_lease(self._api, ttl, holder, metadata, on_lost, self._new_abort())

    def claim(
        self,
        name: str,
        *,
        ttl: Optional[int] = None,
        lease_id: Optional[str] = None,
        wait_seconds: int = 0,
        queue: bool = False,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
    ) -> Claim:
        """POST /locks. The claim is held, or with queue perhaps queued; nothing renews it. Raises LockHeld.

        Without a key and a lease_id it is not repeated once it may have been done.
        """
        request = claim_request(
            name,
            ttl=ttl,
            lease_id=lease_id,
            wait_seconds=wait_seconds,
            queue=queue,
            holder=holder,
            metadata=metadata,
            key=key,
        )
        return self._api.claim(request, self._api.until(wait_seconds), self._new_abort()).value

    def get(self, lock_id: str) -> Claim:
        """GET /locks/{id}. Looks at a claim: this keeps no place and renews nothing."""
        return self._api.ask(lock_id, None, self._new_abort())

    def wait(self, lock_id: str, wait_seconds: int = 0) -> Claim:
        """GET /locks/{id}?wait_seconds=. Asks for a claim, which keeps its place and takes the grant."""
        return self._api.ask(lock_id, wait_seconds, self._new_abort())

    def release(self, lock_id: str, *, reason: Optional[str] = None) -> bool:
        """DELETE /locks/{id}. Whether this call removed the claim; False when nothing stood.

        reason: breaks another's lock, for administrators; 1 to 255 bytes without control characters, which its holder is told.
        """
        return self._api.remove_lock(lock_id, self._api.until(), self._new_abort(), reason=reason)

    def list(
        self,
        *,
        name: Optional[str] = None,
        prefix: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> ClaimPage:
        """GET /locks. One page of who holds and who waits."""
        filters = {"name": name, "prefix": prefix, "state": state, "limit": limit, "cursor": cursor}
        return self._api.list(filters, self._new_abort())

    def iterate(
        self, *, name: Optional[str] = None, prefix: Optional[str] = None, state: Optional[str] = None
    ) -> Iterator[Claim]:
        """All that list() has, page by page."""
        cursor: Optional[str] = None
        while True:
            page = self.list(name=name, prefix=prefix, state=state, cursor=cursor)
            yield from page.locks
            cursor = page.next_cursor
            if cursor is None:
                return

    def create_lease(
        self, *, ttl: Optional[int] = None, holder: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None
    ) -> LeaseInfo:
        """POST /leases. Nothing renews it."""
        return self._api.create_lease(ttl, holder, metadata, self._new_abort()).value

    def get_lease(self, lease_id: str) -> LeaseStatus:
        """GET /leases/{id}. Looks at a lease and what is held on it: this renews nothing."""
        return self._api.look_at_lease(lease_id, self._new_abort())

    def renew(self, lease_id: str) -> LeaseInfo:
        """PUT /leases/{id}, with the id of a lease or of a held lock. Count from before this call. Raises LeaseNotFound."""
        return self._api.renew(lease_id, self._api.until(), self._new_abort()).value

    def end_lease(self, lease_id: str) -> bool:
        """DELETE /leases/{id}. Whether this call ended it; False when nothing stood."""
        return self._api.remove_lease(lease_id, self._api.until(), self._new_abort())

    def close(self) -> None:
        """Closes the idle connections. Locks go on being renewed until they are released."""
        self._api.calls.pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
