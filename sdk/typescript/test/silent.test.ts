import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, UnreachableError, type ClientEvent } from "@latchkey/client";
import { answered, faulty, silent, type Fault } from "./faults.js";
import { refusal } from "./played.js";
import { aName, BOUND_MS, eventually, replicas, SHORT_TTL, within } from "./service.js";

const [replica] = await replicas(1);
const direct = new Client(replica!.url);

/** Three names of one replica, as fetch sees them: the first two can be made silent. */
function three(): { servers: string[]; line: typeof fetch; hush: () => void } {
  const { port } = new URL(replica!.url);
  const servers = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map((host) => `http://${host}:${port}`);
  let hushed = false;
  const real: typeof fetch = (url, init) => fetch(replica!.url + new URL(String(url)).pathname + new URL(String(url)).search, init);
  const line: typeof fetch = (url, init) =>
    hushed && new URL(String(url)).hostname !== "127.0.0.3" ? silent(() => real(url, init), init!.signal!) : real(url, init);
  return { servers, line, hush: () => (hushed = true) };
}

describe("two of three servers that are silent", { concurrency: true }, () => {
  test("lose no lock, though it is short", async () => {
    const { servers, line, hush } = three();
    await using lock = await new Client(servers, { fetch: line }).lock(aName(), { ttl: SHORT_TTL });
    hush();
    const end = performance.now() + 2 * SHORT_TTL * 1000;
    await eventually("two TTLs, or a loss", () => !lock.held || performance.now() > end);
    assert.ok(lock.held, "it was lost, though the third server would have renewed it");
  });

  test("lose no place", async () => {
    const { servers, line, hush } = three();
    const name = aName();
    const held = await direct.lock(name);
    const events: ClientEvent[] = [];
    const waiting = new Client(servers, { fetch: line, onEvent: (event) => events.push(event) }).lock(name, { wait: 60 });
    await eventually("the waiter in the queue", () => events.some(({ type }) => type === "queued"));
    const [place] = (await direct.listLocks({ name, state: "queued" })).locks;
    hush();
    await eventually("two servers that were passed over", () => events.filter(({ type }) => type === "retry").length >= 2, 2 * BOUND_MS);
    await held.release();
    await using lock = await within(BOUND_MS, "the lock", waiting);
    assert.equal(lock.id, place!.id, "the place was not kept");
    assert.ok(!events.some(({ type }) => type === "place_lost"));
  });

  test("leave time to wait at the third", async () => {
    const { servers, line, hush } = three();
    const client = new Client(servers, { fetch: line });
    hush();
    const name = aName();
    const began = performance.now();
    await using lock = await within(BOUND_MS, "the lock", client.lock(name, { wait: 4 }));
    assert.ok(lock.held && performance.now() - began < 6_000, `it took ${performance.now() - began} ms`);
  });
});

test("a server that is silent ends a wait not long after its time", async () => {
  const frozen = faulty(() => silent);
  const began = performance.now();
  await assert.rejects(new Client(replica!.url, { fetch: frozen }).lock(aName(), { wait: 1 }), UnreachableError);
  assert.ok(performance.now() - began < 7_000, `it took ${performance.now() - began} ms`);
});

describe("a waiter that is asked to come back in an hour", { concurrency: true }, () => {
  /** Waits for a lock that is freed when the first poll met the fault. */
  async function waits(fault: Fault): Promise<number> {
    const name = aName();
    const held = await direct.lock(name);
    let polls = 0;
    const line = faulty((method, url) => {
      if (method !== "GET" || !url.searchParams.has("wait_seconds") || polls++ > 0) {
        return undefined;
      }
      void held.release();
      return fault;
    });
    const began = performance.now();
    await using lock = await within(2 * BOUND_MS, "the lock", new Client(replica!.url, { fetch: line }).lock(name, { wait: 30 }));
    assert.ok(lock.held);
    return performance.now() - began;
  }

  for (const [status, code] of [[503, "overloaded"], [429, "too_many_requests"]] as const) {
    test(`keeps its place: ${code}`, async () => {
      const took = await waits(answered(() => refusal(status, code, {}, { "Retry-After": "3600" })));
      assert.ok(took < 12_000, `it slept for ${took} ms`);
    });
  }

  test("keeps its place on a stream too", async () => {
    const name = aName();
    const held = await direct.createLock({ name });
    const claim = await direct.createLock({ name, queue: true });
    let streams = 0;
    const later = answered(() => refusal(503, "overloaded", {}, { "Retry-After": "3600" }));
    const line = faulty((_, url) => (url.pathname.endsWith("/events") && streams++ === 0 ? later : undefined));
    await direct.deleteLock(held.id);
    const states: string[] = [];
    const follow = async () => {
      for await (const { state } of new Client(replica!.url, { fetch: line }).lockEvents(claim.id)) {
        states.push(state);
      }
    };
    await within(BOUND_MS, "the grant", follow());
    assert.equal(states.at(-1), "held");
  });
});

describe("an answer without an end", { concurrency: true }, () => {
  /** Bytes for ever, and how many were taken of them. */
  function endless(status: number, type: string): { fault: Fault; taken: () => number } {
    let taken = 0;
    const chunk = new TextEncoder().encode("x".repeat(2 ** 20));
    const body = () => new ReadableStream({ pull: (into) => (into.enqueue(chunk), void (taken += chunk.length)) });
    return { fault: answered(() => new Response(body(), { status, headers: { "Content-Type": type } })), taken: () => taken };
  }

  for (const { status, path } of [{ status: 200, path: "lock" }, { status: 500, path: "lock" }, { status: 200, path: "events" }]) {
    test(`is not read for ever: ${path} ${status}`, async () => {
      const { fault, taken } = endless(status, path === "events" ? "text/event-stream" : "application/json");
      let asked = 0;
      const stop = new AbortController();
      const line = faulty(() => (asked++ === 0 ? fault : (stop.abort(), silent)));
      const client = new Client(replica!.url, { fetch: line });
      const call: Promise<unknown> = path === "events" ? client.lockEvents("an-id", { signal: stop.signal }).next() : client.getLock("an-id", { signal: stop.signal });
      await assert.rejects(within(BOUND_MS, "the end of it", call), { name: "AbortError" });
      assert.ok(taken() < 200 * 2 ** 20, `${taken()} bytes were read`);
    });
  }
});
