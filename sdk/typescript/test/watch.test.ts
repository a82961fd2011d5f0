import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, LockNotFoundError, ProblemError, type LockBody } from "@latchkey/client";
import { aName, BOUND_MS, eventually, replicas, within, type Replica } from "./service.js";
import { Line } from "./line.js";

const [doomed, other] = (await replicas(2)) as [Replica, Replica];
const client = new Client(other.url);

/** A lock that is held, and a claim that waits for it. */
async function queue(): Promise<[held: LockBody, queued: LockBody]> {
  const name = aName();
  return [await client.createLock({ name, ttl_seconds: 60 }), await client.createLock({ name, ttl_seconds: 60, queue: true })];
}

/** Notes each state of a claim until it is held. */
async function noted(seen: string[], claim: LockBody, by: Client, signal?: AbortSignal): Promise<LockBody> {
  for await (const lock of by.lockEvents(claim.id, signal ? { signal } : {})) {
    seen.push(`${lock.state} ${lock.position}`);
    if (lock.state === "held") {
      return lock;
    }
  }
  throw new Error("the events ended without the lock");
}

describe("the events of a claim", { concurrency: true }, () => {
  test("tell when it waits and when it is held, through the death of the replica", async () => {
    const [held, queued] = await queue();
    const seen: string[] = [];
    const watching = noted(seen, queued, new Client([doomed.url, other.url]));
    await eventually("an event", () => seen.length > 0);
    await doomed.kill();
    await client.deleteLock(held.id);
    const lock = await within(BOUND_MS, "the lock", watching);
    assert.deepEqual([seen[0], seen.at(-1)], ["queued 1", "held 0"]);
    assert.equal(lock.id, queued.id);
    assert.ok(lock.fencing_token! > held.fencing_token!);
  });

  test("throw when it is gone", async () => {
    const [, queued] = await queue();
    const seen: string[] = [];
    const watching = noted(seen, queued, client);
    await eventually("an event", () => seen.length > 0);
    const lost = assert.rejects(within(BOUND_MS, "the loss", watching), ProblemError);
    await client.deleteLock(queued.id);
    await lost;
    await assert.rejects(noted([], queued, client), LockNotFoundError);
  });

  test("end when they are no longer listened to", async () => {
    const [, queued] = await queue();
    for await (const lock of client.lockEvents(queued.id)) {
      assert.equal(lock.state, "queued");
      break;
    }
    const stop = new AbortController();
    const seen: string[] = [];
    const watching = noted(seen, queued, client, stop.signal);
    await eventually("an event", () => seen.length > 0);
    stop.abort();
    await assert.rejects(within(BOUND_MS, "the end of the events", watching), { name: "AbortError" });
  });

  test("go on when a line that hung is open again", async () => {
    const [held, queued] = await queue();
    const line = await Line.to(other.url);
    const seen: string[] = [];
    line.hang();
    const watching = noted(seen, queued, new Client(line.url));
    await client.deleteLock(held.id);
    line.heal();
    assert.equal((await within(BOUND_MS, "the lock", watching)).state, "held");
  });
});
