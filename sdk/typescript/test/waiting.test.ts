import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, NotAcquiredError, UnreachableError, type ClientEvent } from "@latchkey/client";
import { aName, BOUND_MS, eventually, replicas, within } from "./service.js";
import { Line } from "./line.js";

const [one, two] = await replicas(2, "--waiting-ttl=5s");
const client = new Client(one!.url);

/** A client that notes what it is told. */
function attentive(...servers: string[]): { client: Client; events: ClientEvent[] } {
  const events: ClientEvent[] = [];
  return { client: new Client(servers, { onEvent: (event) => events.push(event) }), events };
}

async function claimsOn(name: string): Promise<readonly string[]> {
  return (await new Client(two!.url).listLocks({ name })).locks.map((lock) => `${lock.state} ${lock.holder ?? ""}`.trim());
}

describe("waiting", { concurrency: true }, () => {
  test("waiters are granted in their order", async () => {
    const name = aName();
    const first = await client.lock(name, { holder: "first" });
    const order: string[] = [];
    const waits: Promise<void>[] = [];
    for (const holder of ["second", "third"]) {
      const waiter = attentive(two!.url);
      waits.push(
        waiter.client.lock(name, { wait: 30, holder }).then(async (lock) => {
          order.push(`${holder} ${lock.held}`);
          await lock.release();
        }),
      );
      await eventually(`${holder} in the queue`, () => waiter.events.some((event) => event.type === "queued"));
    }
    assert.deepEqual(await claimsOn(name), ["held first", "queued second", "queued third"]);
    await first.release();
    await within(BOUND_MS, "both waiters", Promise.all(waits));
    assert.deepEqual(order, ["second true", "third true"]);
  });

  test("a wait that ends is NotAcquired, and leaves no claim behind", async () => {
    const name = aName();
    await using held = await client.lock(name, { holder: "holder" });
    const error = await client.lock(name, { wait: 1, holder: "waiter" }).catch((error: unknown) => error);
    assert.ok(error instanceof NotAcquiredError);
    assert.equal(error.holder?.holder, "holder");
    assert.deepEqual(await claimsOn(name), ["held holder"]);
    assert.ok(held.held);
  });

  test("a wait that is aborted rejects with the reason, and leaves no claim behind", async () => {
    const name = aName();
    await using held = await client.lock(name, { holder: "holder" });
    const stop = new AbortController();
    const waiting = client.lock(name, { wait: Infinity, holder: "waiter", signal: stop.signal });
    await eventually("the waiter in the queue", async () => (await claimsOn(name)).includes("queued waiter"));
    const reason = new Error("enough");
    stop.abort(reason);
    await assert.rejects(within(BOUND_MS, "the end of the wait", waiting), reason);
    assert.deepEqual(await claimsOn(name), ["held holder"]);
    await assert.rejects(client.lock(name, { signal: AbortSignal.abort(reason) }), reason);
    assert.ok(held.held);
  });

  test("a try whose answer is lost leaves no claim behind", async () => {
    const name = aName();
    const line = await Line.to(one!.url);
    const { client } = attentive(line.url);
    const stop = new AbortController();
    line.loseAnswers();
    const trying = client.lock(name, { holder: "lost", signal: stop.signal });
    await eventually("the claim", async () => (await claimsOn(name)).includes("held lost"));
    line.heal();
    stop.abort();
    await assert.rejects(within(BOUND_MS, "the end of the try", trying), { name: "AbortError" });
    assert.deepEqual(await claimsOn(name), []);
  });

  test("a claim whose answer is lost is asked for again, and is the same", async () => {
    const name = aName();
    const line = await Line.to(one!.url);
    const { client, events } = attentive(line.url);
    line.loseAnswers();
    const locking = client.lock(name, { holder: "lost" });
    await eventually("the claim", async () => (await claimsOn(name)).includes("held lost"));
    const [standing] = (await new Client(two!.url).listLocks({ name })).locks;
    line.heal();
    await using lock = await within(BOUND_MS, "the lock", locking);
    assert.equal(lock.id, standing!.id);
    assert.equal(lock.fencingToken, standing!.fencing_token);
    assert.ok(events.some((event) => event.type === "retry"));
  });

  test("a place that is lost is taken anew", async () => {
    const name = aName();
    const held = await client.lock(name, { holder: "holder" });
    const waiter = attentive(two!.url);
    const waiting = waiter.client.lock(name, { wait: 30, holder: "waiter" });
    await eventually("the waiter in the queue", async () => (await claimsOn(name)).includes("queued waiter"));
    const claim = (await client.listLocks({ name, state: "queued" })).locks[0]!;
    await client.deleteLock(claim.id!);
    await eventually("a new place", async () => {
      const [again] = (await client.listLocks({ name, state: "queued" })).locks;
      return again !== undefined && again.id !== claim.id;
    });
    await eventually("three events", () => waiter.events.length >= 3);
    assert.equal(waiter.events.map((event) => event.type).join(", "), "queued, place_lost, queued");
    await held.release();
    await using lock = await within(BOUND_MS, "the lock", waiting);
    assert.notEqual(lock.id, claim.id);
    assert.ok(lock.held);
  });

  test("a lock that cannot be reached is Unreachable, and says why", async () => {
    const line = await Line.to(one!.url);
    line.cut();
    const impatient = new Client(line.url, { requestTimeout: 0.3 });
    const error = await impatient.lock(aName()).catch((error: unknown) => error);
    assert.ok(error instanceof UnreachableError);
    assert.equal(error.server, line.url);
    assert.ok(error.cause instanceof Error);
  });
});

test("a service with a shorter longest wait is polled more often", async () => {
  const [hasty] = await replicas(1, "--max-wait=2s");
  const name = aName();
  const held = await new Client(hasty!.url).lock(name);
  const waiter = attentive(hasty!.url);
  const waiting = waiter.client.lock(name, { wait: 30 });
  await eventually("the waiter in the queue", () => waiter.events.some((event) => event.type === "queued"));
  await held.release();
  await using lock = await within(BOUND_MS, "the lock", waiting);
  assert.ok(lock.held);
});
