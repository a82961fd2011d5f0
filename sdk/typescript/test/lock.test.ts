import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Client,
  IdempotencyKeyReusedError,
  InvalidRequestError,
  LockHeldError,
  LockNotFoundError,
  LockReleasedError,
  NotAcquiredError,
} from "@latchkey/client";
import { aName, replicas } from "./service.js";

const [replica] = await replicas(1);
const client = new Client(replica!.url);

test("a lock is held until its block is left, and the next has a higher token", async () => {
  const name = aName();
  let first = 0;
  {
    await using lock = await client.lock(name, { ttl: 20, holder: "first", metadata: { host: "web-3" } });
    first = lock.fencingToken;
    assert.equal(lock.name, name);
    assert.equal(lock.ttl, 20);
    assert.equal(lock.leaseId, lock.id);
    assert.ok(lock.held);
    lock.check();
    assert.ok(lock.remaining() > 10 && lock.remaining() <= 20, `remaining ${lock.remaining()}`);
    assert.equal(lock.signal.aborted, false);
    const standing = await client.getLock(lock.id);
    assert.deepEqual(
      { state: standing.state, holder: standing.holder, metadata: standing.metadata, token: standing.fencing_token },
      { state: "held", holder: "first", metadata: { host: "web-3" }, token: first },
    );
  }
  await using next = await client.lock(name);
  assert.ok(next.fencingToken > first, `${next.fencingToken} is not above ${first}`);
  assert.equal(next.ttl, 30);
});

test("a lock that is held by another is NotAcquired, with who holds it", async () => {
  const name = aName();
  await using lock = await client.lock(name, { holder: "alice", metadata: { host: "a" } });
  const error = await client.lock(name, { holder: "bob" }).then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof NotAcquiredError);
  assert.equal(error.name, "NotAcquiredError");
  assert.equal(error.lockName, name);
  assert.equal(error.queueLength, 0);
  assert.deepEqual(error.holder, { holder: "alice", metadata: { host: "a" }, fencing_token: lock.fencingToken });
  assert.match(error.message, /is held by "alice", 0 waiting/);
  assert.ok(error.cause instanceof LockHeldError);
});

test("release says whether it did it, once", async () => {
  const name = aName();
  const lock = await client.lock(name);
  const { signal } = lock;
  assert.deepEqual(await Promise.all([lock.release(), lock.release()]), [true, true]);
  assert.equal(lock.held, false);
  assert.equal(lock.remaining(), 0);
  assert.throws(() => lock.check(), LockReleasedError);
  assert.equal(signal.aborted, false, "a release is no loss");
  await lock.close();

  const gone = await client.lock(name);
  await client.deleteLock(gone.id);
  assert.equal(await gone.release(), false);
});

test("the same key finds the same claim", async () => {
  const name = aName();
  const key = crypto.randomUUID();
  await using first = await client.lock(name, { key });
  const again = await client.lock(name, { key });
  assert.equal(again.id, first.id);
  assert.equal(again.fencingToken, first.fencingToken);
  await assert.rejects(client.lock(name, { key, ttl: 7 }), IdempotencyKeyReusedError);
  assert.equal((await client.getLock(first.id)).state, "held", "the refused claim took nothing back");
});

test("what the service refuses is an error of its code", async () => {
  const error = await client.lock(aName(), { ttl: 1e9 }).catch((error: unknown) => error);
  assert.ok(error instanceof InvalidRequestError);
  assert.deepEqual([error.status, error.code, error.faults.map((fault) => fault.pointer)], [400, "invalid_request", ["/ttl_seconds"]]);
  assert.match(error.message, /./);
  await assert.rejects(client.getLock("nothing"), LockNotFoundError);
  await assert.rejects(client.deleteLock("nothing"), (error: unknown) => error instanceof LockNotFoundError && error.code === "lock_not_found");
  assert.throws(() => new Client("ftp://host"), TypeError);
  assert.throws(() => new Client("http://user:word@host"), TypeError);
  assert.throws(() => new Client("http://host", { requestTimeout: 0 }), RangeError);
  await assert.rejects(client.lock(aName(), { wait: -1 }), RangeError);
});

test("the plain calls", async () => {
  const prefix = `${aName()}/`;
  const lock = await client.createLock({ name: `${prefix}a`, ttl_seconds: 20 });
  const queued = await client.createLock({ name: `${prefix}a`, ttl_seconds: 20, queue: true });
  assert.deepEqual([lock.state, queued.state, queued.position], ["held", "queued", 1]);
  assert.equal((await client.getLock(queued.id, { waitSeconds: 0 })).state, "queued");
  assert.equal((await client.renewLease(lock.id)).fencing_token, lock.fencing_token);
  const page = await client.listLocks({ prefix, limit: 1 });
  assert.deepEqual(page.locks.map(({ id }) => id), [lock.id]);
  const rest = await client.listLocks({ prefix, limit: 1, cursor: page.next_cursor! });
  assert.deepEqual(rest.locks.map(({ id }) => id), [queued.id]);
  assert.deepEqual((await client.listLocks({ prefix, state: "queued" })).locks.map(({ id }) => id), [queued.id]);
  await client.deleteLock(lock.id);
  assert.equal((await client.getLock(queued.id, { waitSeconds: 5 })).state, "held");
  await client.deleteLock(queued.id);

  const lease = await client.createLease({ ttl_seconds: 20, holder: "me" });
  const on = await client.createLock({ name: `${prefix}b`, lease_id: lease.id });
  const status = await client.getLease(lease.id);
  assert.deepEqual([status.holder, status.locks.map(({ id }) => id)], ["me", [on.id]]);
  await client.deleteLease(lease.id);
  assert.deepEqual((await client.listLocks({ prefix })).locks, []);
});
