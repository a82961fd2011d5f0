"""The same for asyncio. Each call runs in a thread of its own, so nothing here blocks the event loop, and a loop that
something else blocks does not keep a lock from being renewed."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Generic,
    Iterable,
    Mapping,
    Optional,
    Type,
    TypeVar,
    Union,
)

from latchkey._abort import Abort
from latchkey._acquire import wanted
from latchkey._credentials import Token
from latchkey._threads import in_thread, post
from latchkey.client import DEFAULT_TIMEOUT, DEFAULT_TTL, Client
from latchkey.errors import LockNotHeld
from latchkey.lock import Held, Lease, Lock, OnLost
from latchkey.wire import Claim, ClaimPage, LeaseInfo, LeaseStatus

S = TypeVar("S", bound=Held)
T = TypeVar("T")
A = TypeVar("A", bound="AsyncHeld[Any]")


class AsyncLoss:
    """Whether something was lost, and why. It is used like an asyncio.Event."""

    def __init__(self, on_lost: Optional[OnLost]) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._on_lost = on_lost
        self._held: Optional[Held] = None

    def attach(self, held: Held) -> None:
        self._held = held

    def tell(self, loss: LockNotHeld) -> None:
        """Is called from the heartbeat's thread."""
        post(self._loop, self._lose, loss)

    def _lose(self, loss: LockNotHeld) -> None:
        self._over.set()
        if self._on_lost is not None:
            self._on_lost(loss)

    def end(self) -> None:
        self._over.set()

    @property
    def cause(self) -> Optional[LockNotHeld]:
        """A LockLost or a LockUncertain, None while all is well."""
        return self._held.lost.cause if self._held is not None else None

    def is_set(self) -> bool:
        return self.cause is not None

    async def wait(self) -> bool:
        """Waits until it is lost. Ends with False when it is released meanwhile."""
        await self._over.wait()
        return self.is_set()


class AsyncHeld(Generic[S]):
    """Something that a heartbeat keeps. Leaving its async with block releases it, and raises if it was lost inside."""

    def __init__(self, held: S, lost: AsyncLoss) -> None:
        self._held = held
        self.lost = lost
        lost.attach(held)

    @property
    def ttl(self) -> float:
        """Seconds that it outlives its last renewal, as the service granted them."""
        return self._held.ttl

    @property
    def held(self) -> bool:
        """Whether it may be counted on now, by the clock and not by a timer."""
        return self._held.held

    def check(self) -> None:
        """Raises LockLost, LockUncertain or, when it was released, LockNotHeld."""
        self._held.check()

    def remaining(self) -> float:
        """Seconds in which nobody else can be granted it, counted from when its last renewal was sent; 0 when not held."""
        return self._held.remaining()

    async def release(self) -> bool:
        """As Lock.release. Cancelled, it goes on for a little, in the background."""
        try:
            return await in_thread(lambda _: self._held.release())
        finally:
            self.lost.end()

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            await in_thread(lambda _: self._held._leave(error))
        finally:
            self.lost.end()

    def __repr__(self) -> str:
        return f"<Async{repr(self._held)[1:]}"


class AsyncLock(AsyncHeld[Lock]):
    """A held lock. Send its fencing_token with every write to what it protects."""

    @property
    def name(self) -> str:
        return self._held.name

    @property
    def id(self) -> str:
        return self._held.id

    @property
    def lease_id(self) -> str:
        return self._held.lease_id

    @property
    def fencing_token(self) -> int:
        return self._held.fencing_token


class AsyncLease(AsyncHeld[Lease]):
    """A lease of one's own: any number of locks on one heartbeat. Its end is the loss of all of them."""

    @property
    def id(self) -> str:
        return self._held.id

    def lock(
        self,
        name: str,
        *,
        wait: Optional[float] = None,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Pending[AsyncLock]:
        """As AsyncClient.lock, on this lease and with its TTL."""
        want = wanted(name, wait, None, self.id, holder, metadata, key)
        return Pending(lambda: _take(AsyncLock, lambda tell, abort: self._held._take(want, tell, abort), on_lost))


class Pending(Generic[A]):
    """What is being acquired: await it, or enter it with async with."""

    def __init__(self, take: Callable[[], Coroutine[Any, Any, A]]) -> None:
        self._take = take
        self._taken: Optional[A] = None

    def __await__(self) -> Generator[Any, None, A]:
        return self._take().__await__()

    async def __aenter__(self) -> A:
        self._taken = await self._take()
        return self._taken

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._taken is not None:
            await self._taken.__aexit__(kind, error, trace)


async def _take(dress: Callable[[S, AsyncLoss], A], take: Callable[[OnLost, Abort], S], on_lost: Optional[OnLost]) -> A:
    lost = AsyncLoss(on_lost)
    held = await in_thread(lambda abort: take(lost.tell, abort), lambda late: late._give_up(hurry=True))
    return dress(held, lost)


class AsyncClient:
    """Client for asyncio: the same arguments, methods, bounds and errors. A call that waits occupies a thread.

    A cancelled acquisition takes its claim back, for 2 seconds at the most, before the cancellation goes on. A function that
    gives the token is called in such a thread too: it is a plain one, and may block.
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
        self._client = Client(servers, headers=headers, token=token, timeout=timeout, ssl_context=ssl_context)

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
    ) -> Pending[AsyncLock]:
        """As Client.lock: await it, or enter it with async with. on_lost is called in the event loop."""

        def take(tell: OnLost, abort: Abort) -> Lock:
            client = self._client._ended_by(abort)
            return client.lock(name, ttl=ttl, wait=wait, holder=holder, metadata=metadata, key=key, on_lost=tell)

        return Pending(lambda: _take(AsyncLock, take, on_lost))

    def lease(
        self,
        *,
        ttl: int = DEFAULT_TTL,
        holder: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Pending[AsyncLease]:
        """As Client.lease."""

        def take(tell: OnLost, abort: Abort) -> Lease:
            return self._client._ended_by(abort).lease(ttl=ttl, holder=holder, metadata=metadata, on_lost=tell)

        return Pending(lambda: _take(AsyncLease, take, on_lost))

    async def claim(
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
        """As Client.claim. Cancelled, it may have been done."""
        return await self._call(
            lambda client: client.claim(
                name,
                ttl=ttl,
                lease_id=lease_id,
                wait_seconds=wait_seconds,
                queue=queue,
                holder=holder,
                metadata=metadata,
                key=key,
            )
        )

    async def get(self, lock_id: str) -> Claim:
        """As Client.get."""
        return await self._call(lambda client: client.get(lock_id))

    async def wait(self, lock_id: str, wait_seconds: int = 0) -> Claim:
        """As Client.wait."""
        return await self._call(lambda client: client.wait(lock_id, wait_seconds))

    async def release(self, lock_id: str, *, reason: Optional[str] = None) -> bool:
        """As Client.release."""
        return await self._call(lambda client: client.release(lock_id, reason=reason))

    async def list(
        self,
        *,
        name: Optional[str] = None,
        prefix: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> ClaimPage:
        """As Client.list."""
        return await self._call(
            lambda client: client.list(name=name, prefix=prefix, state=state, limit=limit, cursor=cursor)
        )

    async def iterate(
        self, *, name: Optional[str] = None, prefix: Optional[str] = None, state: Optional[str] = None
    ) -> AsyncIterator[Claim]:
        """As Client.iterate, for async for."""
        cursor: Optional[str] = None
        while True:
            page = await self.list(name=name, prefix=prefix, state=state, cursor=cursor)
            for claim in page.locks:
                yield claim
            cursor = page.next_cursor
            if cursor is None:
                return

    async def create_lease(
        self, *, ttl: Optional[int] = None, holder: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None
    ) -> LeaseInfo:
        """As Client.create_lease."""
        return await self._call(lambda client: client.create_lease(ttl=ttl, holder=holder, metadata=metadata))

    async def get_lease(self, lease_id: str) -> LeaseStatus:
        """As Client.get_lease."""
        return await self._call(lambda client: client.get_lease(lease_id))

    async def renew(self, lease_id: str) -> LeaseInfo:
        """As Client.renew."""
        return await self._call(lambda client: client.renew(lease_id))

    async def end_lease(self, lease_id: str) -> bool:
        """As Client.end_lease."""
        return await self._call(lambda client: client.end_lease(lease_id))

    async def _call(self, call: Callable[[Client], T]) -> T:
        return await in_thread(lambda abort: call(self._client._ended_by(abort)))

    async def close(self) -> None:
        """As Client.close."""
        self._client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()
