import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, type ClientEvent } from "@latchkey/client";
import { answered, cutAfter, faulty, type Fault } from "./faults.js";
import { refusal } from "./played.js";
import { aName, replicas } from "./service.js";

const [replica] = await replicas(1);
const direct = new Client(replica!.url);

/** A client whose first claims meet these faults, one after the other. */
function meeting(...faults: Fault[]): { client: Client; events: ClientEvent[] } {
  const events: ClientEvent[] = [];
  const line = faulty((method) => (method === "POST" ? faults.shift() : undefined));
  return { client: new Client(replica!.url, { fetch: line, requestTimeout: 1, onEvent: (event) => events.push(event) }), events };
}

const slowDown = answered(() => refusal(429, "too_many_requests", {}, { "Retry-After": "60" }));
const noEntry = answered(() => refusal(403, "forbidden"));
const proxySaysNo = answered(() => new Response("<h1>407</h1>", { status: 407 }));

describe("a claim that was done, and whose answer was lost", { concurrency: true }, () => {
  for (const { then, faults } of [
    { then: "refused until the time was over", faults: [slowDown, slowDown] },
    { then: "forbidden", faults: [noEntry] },
    { then: "refused by a proxy", faults: [proxySaysNo] },
  ]) {
    test(`is taken back when it was ${then}`, async () => {
      const name = aName();
      const { client, events } = meeting(cutAfter, ...faults);
      await assert.rejects(client.lock(name));
      assert.deepEqual((await direct.listLocks({ name })).locks, []);
      assert.ok(!events.some(({ type }) => type === "left_behind"));
    });
  }

  test("is told to be left behind when it cannot be taken back", async () => {
    const name = aName();
    const { client, events } = meeting(cutAfter, ...Array.from({ length: 100 }, () => slowDown));
    await assert.rejects(client.lock(name));
    assert.equal((await direct.listLocks({ name })).locks.length, 1);
    assert.deepEqual(events.filter(({ type }) => type === "left_behind").map((event) => "name" in event && event.name), [name]);
  });
});

test("a claim that was only refused is not asked for again to take it back", async () => {
  let claims = 0;
  const line = faulty((method) => (method === "POST" ? (claims++, noEntry) : undefined));
  await assert.rejects(new Client(replica!.url, { fetch: line }).lock(aName()), { name: "ForbiddenError" });
  assert.equal(claims, 1);
});

test("a place that is lost is taken anew under the key of the caller", async () => {
  const name = aName();
  const key = `my-own-key-${name}`;
  const keys: (string | null)[] = [];
  const line = faulty((method, _, headers) => (method === "POST" ? (keys.push(headers.get("Idempotency-Key")), undefined) : undefined));
  const held = await direct.lock(name);
  const events: ClientEvent[] = [];
  let lose: (() => Promise<void>) | undefined = async () => direct.deleteLock((await direct.listLocks({ name, state: "queued" })).locks[0]!.id!);
  let free: (() => Promise<boolean>) | undefined = () => held.release();
  const waiter = new Client(replica!.url, {
    fetch: line,
    onEvent: (event) => {
      events.push(event);
      if (event.type === "queued") {
        const next = lose ?? free;
        [lose, free] = [undefined, lose ? free : undefined];
        void next?.();
      }
    },
  });
  await using lock = await waiter.lock(name, { wait: 30, key });
  assert.ok(lock.held && events.some(({ type }) => type === "place_lost"));
  assert.deepEqual(new Set(keys), new Set([key]));
});
