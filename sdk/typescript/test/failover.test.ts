import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, type ClientEvent } from "@latchkey/client";
import { aName, BOUND_MS, eventually, replicas, SHORT_TTL, within, type Replica } from "./service.js";
import { Line } from "./line.js";

/** Where nothing listens. */
const DEAD = "http://127.0.0.1:1";

const [lasting] = await replicas(1);

describe("several servers", { concurrency: true }, () => {
  test("a dead first one is passed over", async () => {
    const events: ClientEvent[] = [];
    const client = new Client(`${DEAD}, ${lasting!.url}/`, { onEvent: (event) => events.push(event) });
    const name = aName();
    await using lock = await client.lock(name);
    assert.ok(lock.held);
    assert.deepEqual(events.map((event) => event.type === "retry" && event.server), [DEAD]);
    await client.listLocks({ name });
    assert.equal(events.length, 1, "the one that answered last is asked first");
  });

  test("one that hangs is passed over in time to keep a lock", async () => {
    const line = await Line.to(lasting!.url);
    const client = new Client([line.url, lasting!.url]);
    await using lock = await client.lock(aName(), { ttl: SHORT_TTL });
    line.hang();
    const end = performance.now() + 2 * SHORT_TTL * 1000;
    await eventually("two TTLs, or a loss", () => !lock.held || performance.now() > end);
    assert.ok(lock.held, "it was lost, though the other server would have renewed it");
  });
});

describe("a replica that is killed", { concurrency: true }, () => {
  /** Two replicas, and who holds and waits through the first. */
  async function served(signal: NodeJS.Signals): Promise<void> {
    const [doomed, other] = (await replicas(2, "--waiting-ttl=5s")) as [Replica, Replica];
    const servers = [doomed.url, other.url];
    const name = aName();
    const kept = aName();
    await using keeps = await new Client(servers).lock(kept, { ttl: SHORT_TTL });
    const first = await new Client(other.url).lock(name);
    const events: ClientEvent[] = [];
    const waiter = new Client(servers, { onEvent: (event) => events.push(event) });
    const waiting = waiter.lock(name, { wait: 60, holder: "waiter" });
    await eventually("the waiter in the queue", () => events.some((event) => event.type === "queued"));
    const [place] = (await waiter.listLocks({ name, state: "queued" })).locks;
    const behind = new AbortController();
    const later = new Client(other.url).lock(name, { wait: 60, holder: "later", signal: behind.signal });

    await doomed.kill(signal);
    const end = performance.now() + 2 * SHORT_TTL * 1000;
    await eventually("two TTLs, or a loss", () => !keeps.held || performance.now() > end);
    assert.ok(keeps.held, "the holder lost its lock");

    await first.release();
    await using lock = await within(BOUND_MS, "the waiter's lock", waiting);
    assert.equal(lock.id, place!.id, "the place was not kept");
    assert.ok(!events.some((event) => event.type === "place_lost"), "the place was lost");
    behind.abort();
    await assert.rejects(later, { name: "AbortError" });
  }

  test("by force loses nobody's lock or place", () => served("SIGKILL"));
  test("softly loses nobody's lock or place", () => served("SIGTERM"));
});
