import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, LockUncertainError, type ClientEvent } from "@latchkey/client";
import { aName, BOUND_MS, eventually, LEAST_TTL, replicas, within } from "./service.js";

const [replica] = await replicas(1);
const client = new Client(replica!.url);

type Before = (method: string, url: string, headers: Headers) => unknown;

/** A client that lets `before` happen before each request is sent, and `after` before its answer is told. */
function meddled(before: Before, after: () => unknown = () => {}): [Client, ClientEvent[]] {
  const events: ClientEvent[] = [];
  const slow: typeof fetch = async (url, init) => {
    await before(init?.method ?? "GET", String(url), new Headers(init?.headers));
    const answer = await fetch(url, init);
    await after();
    return answer;
  };
  return [new Client(replica!.url, { fetch: slow, onEvent: (event) => events.push(event) }), events];
}

describe("a grant", { concurrency: true }, () => {
  test("after a wait is renewed at once, before the lock is handed over; without a wait it is not", async () => {
    const sent: string[] = [];
    const [counting, events] = meddled((method) => sent.push(method));
    const name = aName();
    await using free = await counting.lock(aName(), { wait: 60 });
    assert.deepEqual(sent, ["POST"]);
    assert.ok(free.held);

    const held = await client.lock(name);
    const waiting = counting.lock(name, { wait: 60 });
    await eventually("the waiter in the queue", () => events.length > 0);
    await held.release();
    await using lock = await within(BOUND_MS, "the lock", waiting);
    assert.equal(sent.at(-1), "PUT");
    assert.ok(lock.held);
  });

  test("that is gone when it is renewed is claimed again", async () => {
    let left = 1;
    const keys: (string | null)[] = [];
    const [unlucky, events] = meddled(async (method, url, headers) => {
      if (method === "POST") {
        keys.push(headers.get("Idempotency-Key"));
      }
      if (method === "PUT" && left-- > 0) {
        await client.deleteLock(url.slice(url.lastIndexOf("/") + 1));
      }
    });
    const name = aName();
    const held = await client.lock(name);
    const waiting = unlucky.lock(name, { wait: 60 });
    await eventually("the waiter in the queue", () => events.length > 0);
    await held.release();
    await using lock = await within(BOUND_MS, "the lock", waiting);
    assert.equal((await client.getLock(lock.id)).state, "held");
    assert.ok(events.some((event) => event.type === "place_lost"));
    assert.equal(new Set(keys).size, 2, "a new claim has a new key");
  });

  test("that is told too late is not handed over, and left to nobody", async () => {
    const [late] = meddled(() => {}, () => new Promise((resolve) => setTimeout(resolve, LEAST_TTL * 1000)));
    const name = aName();
    await assert.rejects(late.lock(name, { ttl: LEAST_TTL }), LockUncertainError);
    await using next = await client.lock(name, { wait: 1 });
    assert.ok(next.held);
  });
});
