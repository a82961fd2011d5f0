"""The asyncio twin on the real service: the same promises, and a loop that is never blocked."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from typing import Any, Coroutine, List
from unittest import mock

from latchkey import (
    FOREVER,
    AsyncClient,
    AsyncLock,
    Client,
    LockLost,
    LockNotFound,
    LockNotHeld,
    LockUncertain,
    NotAcquired,
)
from tests.scripted import HELD, Heard, Scripted, answer
from tests.support import BOUND, SHORT_TTL, Proxy, Replica, eventually, fresh_name, need_service

replica: Replica


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.name = fresh_name()
        self.client = AsyncClient(replica.url)
        self.other = Client(replica.url)
        self.addCleanup(self.other.close)
        self.addAsyncCleanup(self.client.close)

    async def await_claims(self, number: int) -> None:
        until = time.monotonic() + BOUND
        while len((await self.client.list(name=self.name)).locks) != number:
            self.assertLess(time.monotonic(), until, f"{number} claims are awaited")
            await asyncio.sleep(0.02)

    async def test_a_lock_is_held_in_its_block_and_free_after_it(self) -> None:
        async with self.client.lock(self.name, ttl=30, holder="one", metadata={"a": "b"}) as lock:
            lock.check()
            self.assertTrue(lock.held)
            self.assertTrue(25 < lock.remaining() <= 30)
            self.assertEqual((lock.name, lock.ttl, lock.lease_id), (self.name, 30, lock.id))
            claim = await self.client.get(lock.id)
            self.assertEqual((claim.fencing_token, claim.holder), (lock.fencing_token, "one"))
            with self.assertRaises(NotAcquired) as busy:
                await self.client.lock(self.name)
            self.assertEqual(busy.exception.holder, "one")
        await self.await_claims(0)
        self.assertFalse(lock.held)

    async def test_an_awaited_lock_is_released_by_hand(self) -> None:
        lock = await self.client.lock(self.name)
        self.assertTrue(await lock.release())
        self.assertFalse(await lock.release())
        with self.assertRaises(LockNotHeld):
            lock.check()

    async def test_waiting_does_not_block_the_loop(self) -> None:
        async with self.client.lock(self.name):
            waiting = asyncio.create_task(self.take())
            ticks = 0
            await self.await_claims(2)
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                await asyncio.sleep(0.01)
                ticks += 1
            self.assertGreater(ticks, 10)
        lock = await asyncio.wait_for(waiting, BOUND)
        self.assertTrue(await lock.release())

    async def take(self) -> AsyncLock:
        return await self.client.lock(self.name, wait=FOREVER)

    async def test_more_can_wait_than_a_pool_has_threads(self) -> None:
        tokens: List[int] = []

        async def turn() -> None:
            async with self.client.lock(self.name, wait=FOREVER) as lock:
                tokens.append(lock.fencing_token)

        await asyncio.wait_for(asyncio.gather(*(turn() for _ in range(50))), 2 * BOUND)
        self.assertEqual(len(tokens), 50)
        self.assertEqual(tokens, sorted(set(tokens)))

    async def test_a_cancelled_wait_leaves_nothing(self) -> None:
        async with self.client.lock(self.name) as lock:
            waiting = asyncio.create_task(self.take())
            await self.await_claims(2)
            began = time.monotonic()
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertLess(time.monotonic() - began, BOUND / 2)
            claims = (await self.client.list(name=self.name)).locks
            self.assertEqual([claim.id for claim in claims], [lock.id])

    async def test_a_timeout_around_a_wait_leaves_nothing(self) -> None:
        async with self.client.lock(self.name):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.take(), 0.5)
            await self.await_claims(1)

    async def test_a_lock_that_comes_as_it_is_cancelled_is_given_back(self) -> None:
        granted = threading.Event()
        take = Client.lock

        def taken(client: Client, name: str, **how: object) -> object:
            lock = take(client, name, **how)  # type: ignore[arg-type]
            granted.set()
            return lock

        with mock.patch.object(Client, "lock", taken):
            taking = asyncio.create_task(self.take())
            await asyncio.sleep(0)
            granted.wait(BOUND)  # blocks the loop, so that the lock comes before the task can take it
            taking.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await taking
        await self.await_claims(0)

    async def test_a_lock_that_comes_as_it_is_cancelled_twice_is_given_back(self) -> None:
        for twice_at_once in (True, False):
            granted = threading.Event()
            take = Client.lock

            def taken(client: Client, name: str, **how: object) -> object:
                lock = take(client, name, **how)  # type: ignore[arg-type]
                granted.set()
                return lock

            with mock.patch.object(Client, "lock", taken):
                taking = asyncio.create_task(self.take())
                await asyncio.sleep(0)
                granted.wait(BOUND)
                taking.cancel()
                if not twice_at_once:
                    await asyncio.sleep(0)
                taking.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await taking
            await self.await_claims(0)

    async def test_a_cancelled_call_does_not_wait_for_its_answer(self) -> None:
        async with self.client.lock(self.name):
            queued = await self.client.claim(self.name, queue=True)
            asking = asyncio.create_task(self.client.wait(queued.id, 50))
            await asyncio.sleep(0.3)
            began = time.monotonic()
            asking.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asking
            self.assertLess(time.monotonic() - began, BOUND / 2)
            self.assertTrue(await self.client.release(queued.id))

    async def test_a_loss_wakes_who_waits_for_it(self) -> None:
        proxy = Proxy(replica.address)
        self.addCleanup(proxy.close)
        losses: List[LockNotHeld] = []
        with self.assertRaises(LockUncertain):
            async with AsyncClient(proxy.url).lock(self.name, ttl=SHORT_TTL, on_lost=losses.append) as lock:
                self.assertFalse(lock.lost.is_set())
                proxy.hold()
                self.assertTrue(await asyncio.wait_for(lock.lost.wait(), SHORT_TTL + 1))
                self.assertIsInstance(lock.lost.cause, LockUncertain)
                self.assertFalse(lock.held)
        self.assertEqual(len(losses), 1)

    async def test_waiting_for_a_loss_ends_with_the_release(self) -> None:
        async with self.client.lock(self.name) as lock:
            waiting = asyncio.create_task(lock.lost.wait())
        self.assertFalse(await asyncio.wait_for(waiting, BOUND))

    async def test_a_blocked_loop_does_not_keep_a_lock_from_being_renewed(self) -> None:
        async with self.client.lock(self.name, ttl=SHORT_TTL) as lock:
            time.sleep(1.5 * SHORT_TTL)
            lock.check()

    async def test_many_locks_are_on_one_lease(self) -> None:
        async with self.client.lease(ttl=20) as lease:
            first = await lease.lock(self.name)
            async with lease.lock(self.name + "/2", wait=1) as second:
                self.assertEqual({first.lease_id, second.lease_id}, {lease.id})
        self.assertIsInstance(first.lost.cause, LockLost)
        await self.await_claims(0)

    async def test_plain_calls_do_what_they_are_called_for(self) -> None:
        claim = await self.client.claim(self.name)
        self.assertEqual((await self.client.renew(claim.id)).fencing_token, claim.fencing_token)
        self.assertEqual((await self.client.wait(claim.id)).id, claim.id)
        self.assertTrue(await self.client.release(claim.id))
        with self.assertRaises(LockNotFound):
            await self.client.get(claim.id)
        lease = await self.client.create_lease(ttl=10)
        on_lease = await self.client.claim(self.name, lease_id=lease.id)
        self.assertEqual([claim async for claim in self.client.iterate(name=self.name)], [on_lease])
        self.assertEqual((await self.client.get_lease(lease.id)).ttl_seconds, 10)
        self.assertTrue(await self.client.end_lease(lease.id))

    async def test_a_release_goes_on_though_it_is_cancelled(self) -> None:
        asked, go_on = threading.Event(), threading.Event()

        def slow(heard: Heard, line: object) -> bool:
            asked.set()
            go_on.wait(BOUND)
            return answer(204)(heard, line)  # type: ignore[arg-type]

        server = Scripted(answer(201, {**HELD, "ttl_seconds": 600}), slow)
        self.addCleanup(server.close)
        lock = await AsyncClient(server.url).lock("n")
        releasing = asyncio.create_task(lock.release())
        while not asked.is_set():
            await asyncio.sleep(0.01)
        releasing.cancel()
        go_on.set()
        with self.assertRaises(asyncio.CancelledError):
            await releasing
        self.assertFalse(await lock.release(), "it was done")
        self.assertEqual([heard.method for heard in server.heard], ["POST", "DELETE"])


class TestEndOfLoop(unittest.TestCase):
    def test_a_loop_that_is_closed_without_its_tasks_leaves_no_lock(self) -> None:
        name, granted = fresh_name(), threading.Event()
        take = Client.lock

        def taken(client: Client, name: str, **how: object) -> object:
            lock = take(client, name, **how)  # type: ignore[arg-type]
            granted.set()
            return lock

        async def begin() -> Coroutine[Any, Any, AsyncLock]:
            taking = AsyncClient(replica.url).lock(name)._take()
            taking.send(None)  # up to where it waits
            return taking

        with mock.patch.object(Client, "lock", taken), Client(replica.url) as other:
            taking = asyncio.run(begin())
            self.assertTrue(granted.wait(BOUND))
            taking.close()
            eventually("nothing is left", lambda: not other.list(name=name).locks)

    def test_an_ended_loop_leaves_no_claim_of_a_wait(self) -> None:
        """As by Ctrl-C: asyncio.run cancels what is left."""
        name = fresh_name()

        async def wait() -> None:
            await AsyncClient(replica.url).lock(name, wait=FOREVER)

        async def leave_a_task_behind() -> None:
            task = asyncio.create_task(wait())
            while len((await AsyncClient(replica.url).list(name=name)).locks) != 2:
                await asyncio.sleep(0.02)
            self.assertFalse(task.done())

        with Client(replica.url) as other, other.lock(name) as lock:
            asyncio.run(asyncio.wait_for(leave_a_task_behind(), BOUND))
            self.assertEqual([claim.id for claim in other.list(name=name).locks], [lock.id])
