import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  Client,
  LockBrokenError,
  LockLostError,
  LockNotFoundError,
  LockReleasedError,
  LockUncertainError,
  NotAcquiredError,
  type ClientEvent,
} from "@latchkey/client";
import { faulty } from "./faults.js";
import { aName, BOUND_MS, eventually, fired, replicas, SHORT_TTL, within } from "./service.js";
import { Line } from "./line.js";

const [replica] = await replicas(1);
const client = new Client(replica!.url);

describe("a lease of many locks", { concurrency: true }, () => {
  test("keeps them all on one heartbeat", async () => {
    let renewals = 0;
    const counting: typeof fetch = (url, init) => {
      renewals += init?.method === "PUT" ? 1 : 0;
      return fetch(url, init);
    };
    const far = new Client(replica!.url, { fetch: counting });
    await using lease = await far.lease({ ttl: SHORT_TTL, holder: "me" });
    const locks = await Promise.all([lease.lock(aName()), lease.lock(aName()), far.lock(aName(), { lease })]);
    const end = performance.now() + 2 * SHORT_TTL * 1000;
    await eventually("two TTLs", () => performance.now() > end);
    assert.ok(lease.held && locks.every((lock) => lock.held));
    assert.ok(renewals <= 12, `${renewals} renewals in two TTLs are not one heartbeat`);
    assert.deepEqual(locks.map((lock) => [lock.leaseId, lock.ttl]), locks.map(() => [lease.id, SHORT_TTL]));
    const standing = (await client.getLease(lease.id)).locks.map(({ id }) => id);
    assert.deepEqual(new Set(standing), new Set(locks.map(({ id }) => id)));

    assert.equal(await locks[0]!.release(), true);
    assert.ok(!locks[0]!.held && locks[1]!.held && lease.held);
    assert.throws(() => locks[0]!.check(), LockReleasedError);
  });

  test("loses them all when it ends", async () => {
    const lease = await client.lease({ ttl: SHORT_TTL });
    const locks = await Promise.all([lease.lock(aName()), lease.lock(aName())]);
    const waiting = lease.lock((await client.lock(aName())).name, { wait: 60 });
    const ended = assert.rejects(within(BOUND_MS, "the end of the wait", waiting), LockLostError);
    await client.deleteLease(lease.id);
    const reasons = await Promise.all([lease, ...locks].map(({ signal }) => fired(signal)));
    assert.ok(reasons.every((reason) => reason instanceof LockLostError), String(reasons));
    await ended;
    await assert.rejects(lease.lock(aName()), LockLostError);
    assert.equal(await locks[0]!.release(), false);
    await lease.close();
  });

  test("loses them when it is released, and leaves nothing", async () => {
    const lease = await client.lease();
    const name = aName();
    const lock = await lease.lock(name);
    assert.equal(await lease.release(), true);
    assert.ok((await fired(lock.signal)) instanceof LockLostError);
    assert.equal(lease.signal.aborted, false);
    assert.deepEqual((await client.listLocks({ name })).locks, []);
    await assert.rejects(lease.lock(name), LockReleasedError);
  });

  test("is uncertain with all of them when its line hangs", async () => {
    const line = await Line.to(replica!.url);
    const lease = await new Client(line.url).lease({ ttl: SHORT_TTL });
    const lock = await lease.lock(aName());
    const hung = performance.now();
    line.hang();
    const reason = await fired(lock.signal);
    assert.ok(reason instanceof LockUncertainError, String(reason));
    assert.ok(performance.now() - hung < SHORT_TTL * 1000, "the deadline had passed");
    assert.equal(lease.signal.reason, reason);
    line.heal();
    await assert.rejects(lease.close(), reason);
  });

  test("waits in line as a lock does, and meets itself", async () => {
    const name = aName();
    await using lease = await client.lease({ ttl: SHORT_TTL });
    const first = await client.lock(name);
    const waiting = lease.lock(name, { wait: 30 });
    await eventually("the waiter in the queue", async () => (await client.listLocks({ name, state: "queued" })).locks.length === 1);
    await first.release();
    await using lock = await within(BOUND_MS, "the lock", waiting);
    assert.ok(lock.held);
    await assert.rejects(lease.lock(name), NotAcquiredError, "no lock is re-entrant");
  });
});

describe("a lock on a lease of many", { concurrency: true }, () => {
  for (const { how, reason, kind, says } of [
    { how: "broken", reason: "host web-3 is gone", kind: LockBrokenError, says: /was broken by an administrator: host web-3 is gone$/ },
    { how: "released elsewhere", reason: undefined, kind: LockNotFoundError, says: /is lost: / },
  ]) {
    test(`is told when it was ${how}, and the others are kept`, async () => {
      const events: ClientEvent[] = [];
      const far = new Client(replica!.url, { onEvent: (event) => events.push(event) });
      await using lease = await far.lease({ ttl: SHORT_TTL });
      const [lock, other] = await Promise.all([lease.lock(aName()), lease.lock(aName())]);
      await client.deleteLock(lock.id, reason === undefined ? {} : { reason });
      const loss = await fired(lock.signal);
      assert.ok(loss instanceof LockLostError && loss.cause instanceof kind, String(loss));
      assert.match(loss.message, says);
      assert.ok(!lock.held && lock.remaining() === 0);
      assert.deepEqual(events, [{ type: "lost", name: lock.name, error: loss }]);
      assert.ok(other.held && lease.held);
      assert.equal(await lock.release(), false);
    });
  }

  test("is not lost for being younger than the look that misses it", async () => {
    let granted: Awaited<ReturnType<typeof lease.lock>> | undefined;
    let asked = 0;
    const line = faulty((method, url) => {
      if (method === "GET" && url.pathname.startsWith("/locks/")) {
        asked++;
      }
      if (method !== "GET" || !url.pathname.startsWith("/leases/") || granted) {
        return undefined;
      }
      return async (pass) => {
        const answer = await pass();
        granted = await lease.lock(aName());
        return answer;
      };
    });
    const lease = await new Client(replica!.url, { fetch: line }).lease({ ttl: SHORT_TTL });
    await lease.lock(aName());
    await eventually("a lock granted between a look and its answer", () => granted !== undefined);
    const seen = lease.remaining();
    await eventually("another renewal", () => lease.remaining() > seen);
    assert.ok(granted!.held);
    assert.equal(asked, 0, "it was asked for");
    await lease.release();
  });
});
