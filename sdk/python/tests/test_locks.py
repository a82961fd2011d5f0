"""Taking, refusing and giving back, on the real service."""

from __future__ import annotations

import gc
import os
import socket
import unittest
import weakref
from contextlib import suppress
from typing import List

import latchkey
from latchkey import (
    Client,
    IdempotencyKeyReused,
    InvalidRequest,
    LeaseNotFound,
    LockHeld,
    LockLost,
    LockNotFound,
    LockNotHeld,
    LockQueued,
    NotAcquired,
    NotFound,
    Unreachable,
)
from tests.support import InThread, Replica, ServiceTest, fresh_name, need_service

replica: Replica


def setUpModule() -> None:
    global replica
    need_service()
    replica = Replica()
    unittest.addModuleCleanup(replica.kill)


def dead_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as once:
        host, port = once.getsockname()
    return f"http://{host}:{port}"


class TestLocks(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.one, self.other = self.client(replica.url), self.client(replica.url)

    def test_a_lock_is_held_in_its_block_and_free_after_it(self) -> None:
        with self.one.lock(self.name, ttl=30, holder="one", metadata={"a": "b"}) as lock:
            self.assertTrue(lock.held)
            self.assertEqual((lock.name, lock.ttl, lock.lease_id), (self.name, 30, lock.id))
            self.assertTrue(0 < lock.remaining() <= 30)
            lock.check()
            (claim,) = self.claims(self.other, self.name)
            self.assertEqual(
                (claim.held, claim.fencing_token, claim.holder, claim.metadata),
                (True, lock.fencing_token, "one", {"a": "b"}),
            )
        self.assertEqual(self.claims(self.other, self.name), ())
        self.assertFalse(lock.held)
        self.assertEqual(lock.remaining(), 0)
        with self.assertRaises(LockNotHeld) as released:
            lock.check()
        self.assertNotIsInstance(released.exception, LockLost)
        with self.other.lock(self.name) as next_lock:
            self.assertGreater(next_lock.fencing_token, lock.fencing_token)

    def test_a_busy_lock_says_who_has_it(self) -> None:
        with self.one.lock(self.name, holder="one", metadata={"host": "a"}) as lock:
            with self.assertRaises(NotAcquired) as busy:
                self.other.lock(self.name)
        refused = busy.exception
        self.assertEqual(
            (refused.name, refused.holder, refused.metadata, refused.fencing_token, refused.queue_length),
            (self.name, "one", {"host": "a"}, lock.fencing_token, 0),
        )

    def test_release_says_what_it_did(self) -> None:
        lock = self.one.lock(self.name)
        self.assertTrue(lock.release())
        self.assertFalse(lock.release())
        gone = self.one.lock(self.name)
        self.assertTrue(self.other.release(gone.id))
        self.assertFalse(gone.release())

    def test_a_key_finds_its_claim(self) -> None:
        key = "a key of the user's own"
        lock = self.one.lock(self.name, key=key)
        again = self.other.lock(self.name, key=key)
        self.assertEqual((again.id, again.fencing_token), (lock.id, lock.fencing_token))
        with self.assertRaises(IdempotencyKeyReused):
            self.other.lock(self.name, key=key, holder="another")
        self.assertTrue(lock.release())
        self.assertFalse(again.release())

    def test_names_and_metadata_of_any_script_arrive_whole(self) -> None:
        name = self.name + "/käse 🧀/&?#%"
        with self.one.lock(name, holder="ö", metadata={"ключ": "値"}):
            (claim,) = self.claims(self.other, name)
        self.assertEqual((claim.name, claim.holder, claim.metadata), (name, "ö", {"ключ": "値"}))

    def test_each_refusal_has_its_class(self) -> None:
        with self.assertRaises(InvalidRequest) as invalid:
            self.one.lock(self.name, ttl=1)
        self.assertEqual((invalid.exception.status, invalid.exception.code), (400, "invalid_request"))
        self.assertEqual([fault.pointer for fault in invalid.exception.problem.errors], ["/ttl_seconds"])
        self.assertIn("/ttl_seconds", str(invalid.exception))
        with self.assertRaises(LockNotFound):
            self.one.get("nothing")
        with self.assertRaises(LeaseNotFound):
            self.one.renew("nothing")
        with self.assertRaises(NotFound):
            self.client(replica.url + "/elsewhere").lock(self.name)
        with self.one.lock(self.name, holder="one"):
            with self.assertRaises(LockHeld) as held:
                self.other.claim(self.name)
            self.assertEqual(held.exception.problem.queue_length, 0)
            self.assertGreaterEqual(held.exception.retry_after or 0, 1)
            queued = self.other.claim(self.name, queue=True)
            self.assertFalse(queued.held)
            with self.assertRaises(LockQueued):
                self.other.renew(queued.id)
            self.assertTrue(self.other.release(queued.id))

    def test_ids_are_kept_out_of_what_is_shown(self) -> None:
        with self.one.lease() as lease, lease.lock(self.name) as lock:
            claim, info = self.one.get(lock.id), self.one.renew(lease.id)
            shown = " ".join(map(repr, (lock, lease, claim, info, self.one.get_lease(lease.id))))
        with self.assertRaises(LockNotFound) as gone:
            self.one.get(lock.id)
        for secret in (lock.id, lease.id):
            self.assertNotIn(secret, shown + str(gone.exception))

    def test_plain_calls_do_what_they_are_called_for(self) -> None:
        claim = self.one.claim(self.name, ttl=30, key="k" * 16)
        self.assertEqual(self.one.claim(self.name, ttl=30, key="k" * 16), claim)
        waiting = self.other.claim(self.name, queue=True, wait_seconds=1)
        self.assertEqual((waiting.state, waiting.position), ("queued", 1))
        self.assertEqual(self.one.renew(claim.id).fencing_token, claim.fencing_token)
        self.assertTrue(self.one.release(claim.id))
        self.assertTrue(self.other.wait(waiting.id, 5).held)
        self.assertTrue(self.other.get(waiting.id).held)
        self.assertTrue(self.other.end_lease(waiting.id))
        lease = self.one.create_lease(ttl=20, holder="one")
        on_lease = self.one.claim(self.name, lease_id=lease.id)
        status = self.one.get_lease(lease.id)
        self.assertEqual((status.ttl_seconds, status.holder, status.locks), (20, "one", (on_lease,)))
        self.assertTrue(self.one.end_lease(lease.id))
        self.assertFalse(self.one.end_lease(lease.id))

    def test_lists_go_on_page_by_page(self) -> None:
        names = [f"{self.name}/{number}" for number in range(5)]
        with self.one.lease() as lease:
            for name in names:
                lease.lock(name)
            page = self.one.list(prefix=self.name, limit=2, state="held")
            self.assertEqual([claim.name for claim in page.locks], names[:2])
            rest = self.one.list(prefix=self.name, limit=3, state="held", cursor=page.next_cursor)
            self.assertEqual([claim.name for claim in rest.locks], names[2:])
            self.assertEqual([claim.name for claim in self.one.iterate(prefix=self.name)], names)


class TestLeases(ServiceTest):
    def setUp(self) -> None:
        self.name = fresh_name()
        self.one, self.other = self.client(replica.url), self.client(replica.url)

    def test_many_locks_are_on_one_lease(self) -> None:
        with self.one.lease(ttl=20, holder="one") as lease:
            first, second = lease.lock(self.name), lease.lock(self.name + "/2")
            self.assertEqual({first.lease_id, second.lease_id}, {lease.id})
            self.assertEqual((first.ttl, lease.ttl), (20, 20))
            with self.assertRaises(NotAcquired):
                self.other.lock(self.name)
            self.assertTrue(first.release())
            self.assertFalse(first.held)
            self.assertTrue(second.held and lease.held)
            self.other.lock(self.name).release()
        self.assertEqual(self.claims(self.other, self.name + "/2"), ())

    def test_a_long_lease_does_not_remember_released_locks(self) -> None:
        with self.one.lease() as lease:
            lock = lease.lock(self.name)
            lock.release()
            kept = weakref.ref(lock)
            del lock
            gc.collect()
            self.assertIsNone(kept())

    def test_the_end_of_a_lease_is_the_loss_of_what_is_on_it(self) -> None:
        losses: List[LockNotHeld] = []
        lease = self.one.lease(on_lost=losses.append)
        lock = lease.lock(self.name)
        self.assertTrue(lease.release())
        self.assertIsInstance(lock.lost.cause, LockLost)
        self.assertFalse(lock.held)
        with self.assertRaises(LockLost):
            lock.check()
        with self.assertRaises(LockNotHeld):
            lease.lock(self.name)
        self.assertFalse(lock.release())
        self.assertEqual(losses, [], "a lease that was released was not lost")

    def test_a_lease_that_is_over_takes_no_lock(self) -> None:
        lease = self.one.lease()
        self.assertTrue(self.other.end_lease(lease.id))
        with self.assertRaises(LockLost):
            lease.lock(self.name)
        self.assertFalse(lease.held)

    def test_a_wait_on_a_lease_ends_with_it(self) -> None:
        with self.other.lock(self.name):
            lease = self.one.lease()
            waiting = InThread(lambda: lease.lock(self.name, wait=60))
            self.await_claims(self.other, self.name, 2)
            self.other.end_lease(lease.id)
            with self.assertRaises(LockLost):
                waiting.result()


class TestServers(ServiceTest):
    def test_a_dead_server_is_passed_over(self) -> None:
        with self.client(dead_url(), replica.url).lock(fresh_name()) as lock:
            self.assertTrue(lock.held)

    def test_servers_come_from_a_list_a_text_or_the_environment(self) -> None:
        before = os.environ.pop("LATCHKEY_SERVER", None)
        try:
            parse = latchkey.client.parse_servers
            self.assertEqual([server.url for server in parse(None)], ["http://127.0.0.1:8080"])
            self.assertEqual([server.port for server in parse("http://a:1, https://b/base/")], [1, 443])
            os.environ["LATCHKEY_SERVER"] = f"{dead_url()},{replica.url}"
            with Client() as client, client.lock(fresh_name()) as lock:
                self.assertTrue(lock.held)
        finally:
            os.environ.pop("LATCHKEY_SERVER", None)
            if before is not None:
                os.environ["LATCHKEY_SERVER"] = before

    def test_what_is_no_base_url_is_refused(self) -> None:
        for url in ("", ",", "localhost:8080", "ftp://a", "http://", "http://u:p@a", "http://a?b", "http://a#b"):
            with self.subTest(url=url), self.assertRaises(ValueError):
                Client(url)
        for headers in ({"host": "a"}, {"Idempotency-Key": "a"}):
            with self.assertRaises(ValueError):
                Client(replica.url, headers=headers)
        with self.assertRaises(ValueError):
            Client(replica.url, timeout=0)
        for wait in (-1, float("nan")):
            with self.assertRaises(ValueError):
                Client(replica.url).lock("a", wait=wait)

    def test_nobody_there_is_unreachable(self) -> None:
        with self.assertRaises(Unreachable):
            self.client(dead_url(), timeout=0.5).lock(fresh_name())

    def test_a_server_that_waits_less_than_others_is_asked_for_less(self) -> None:
        hasty = self.replica("--max-wait=3s")
        name = fresh_name()
        with self.client(replica.url).lock(name, ttl=30) as first:
            waiting = InThread(lambda: self.client(hasty.url).lock(name, wait=30))
            self.await_claims(self.client(replica.url), name, 2)
        lock = waiting.result()
        assert isinstance(lock, latchkey.Lock)
        self.assertGreater(lock.fencing_token, first.fencing_token)
        with suppress(LockNotHeld):
            lock.check()
        self.assertTrue(lock.release())
