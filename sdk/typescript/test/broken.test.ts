import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client, LockBrokenError, LockLostError, MaxHoldReachedError, ProblemError, type ClientEvent } from "@latchkey/client";
import { fired } from "./service.js";
import { held, ID, played, refusal } from "./played.js";

const broken = () => refusal(410, "lock_broken", { reason: "host web-3 is gone" });
const tooLong = () => refusal(409, "max_hold_reached");
const TTL = 9; // long enough that it is not the deadline that ends it

describe("a lock that was broken, or held for too long", { concurrency: true }, () => {
  for (const { answer, kind, says } of [
    { answer: broken, kind: LockBrokenError, says: 'lock "n" was broken by an administrator: host web-3 is gone' },
    { answer: tooLong, kind: MaxHoldReachedError, says: 'lock "n" is lost: the detail' },
  ]) {
    test(`is lost at the renewal that says ${kind.name}`, async () => {
      const [fetch, heard] = played({ POST: () => held(TTL), PUT: answer });
      const lock = await new Client("http://played", { fetch }).lock("n");
      const began = performance.now();
      const reason = await fired(lock.signal);
      assert.ok(reason instanceof LockLostError, String(reason));
      assert.ok(reason.cause instanceof kind);
      assert.equal(reason.message, says);
      assert.ok(performance.now() - began < (TTL * 1000 * 2) / 3, "it was told late");
      await assert.rejects(lock.close(), reason);
      assert.equal(heard.filter(({ method }) => method === "PUT").length, 1, "it was renewed all the same");
    });
  }

  test("is lost at its release when nobody knew before", async () => {
    const events: ClientEvent[] = [];
    const [fetch] = played({ DELETE: broken });
    const client = new Client("http://played", { fetch, onEvent: (event) => events.push(event) });
    await assert.rejects((await client.lock("n")).close(), LockLostError);
    const lock = await client.lock("n");
    await assert.rejects(lock.release(), (error) => error instanceof LockLostError && error.cause instanceof LockBrokenError);
    assert.equal(await lock.release(), false);
    assert.deepEqual(events, []);
  });

  test("is not waited for again", async () => {
    const queued = () => held(TTL, { state: "queued", position: 1, fencing_token: undefined });
    const [fetch, heard] = played({ POST: queued, GET: broken, DELETE: broken });
    const error: unknown = await new Client("http://played", { fetch }).lock("n", { wait: Infinity }).catch((error: unknown) => error);
    assert.ok(error instanceof LockBrokenError, String(error));
    assert.equal(error.reason, "host web-3 is gone");
    assert.equal(heard.filter(({ method }) => method === "POST").length, 1);
  });

  test("was broken with a reason", async () => {
    const [fetch, heard] = played();
    await new Client("http://played", { fetch }).deleteLock(ID, { reason: "host web-3 & co." });
    assert.equal(heard[0]!.url, `http://played/locks/${ID}?reason=host+web-3+%26+co.`);
  });
});

describe("too much of something", { concurrency: true }, () => {
  for (const code of ["too_many_requests", "too_many_claims", "too_many_leases", "too_many_streams"]) {
    test(`is tried again when the service asks to: ${code}`, async () => {
      let full = 1;
      const [fetch] = played({ POST: () => (full-- > 0 ? refusal(429, code, {}, { "Retry-After": "1" }) : held()) });
      const client = new Client("http://played", { fetch, requestTimeout: 5 });
      const began = performance.now();
      await using lock = await client.lock("n");
      assert.ok(lock.held && performance.now() - began >= 990, "it was tried again too soon");

      const [always] = played({ POST: () => refusal(429, code, {}, { "Retry-After": "60" }) });
      const call = new Client("http://played", { fetch: always, requestTimeout: 0.3 }).createLease();
      await assert.rejects(call, (error) => error instanceof ProblemError && error.code === code);
    });
  }

  test("a list may keep ids to itself", async () => {
    const { id, lease_id, ...shown } = (await held().json()) as Record<string, unknown>;
    const [fetch] = played({ GET: () => Response.json({ locks: [{ ...shown, principal: "billing", hold_left_seconds: 0 }] }) });
    const { locks } = await new Client("http://played", { fetch }).listLocks();
    assert.deepEqual([locks[0]!.principal, locks[0]!.hold_left_seconds, id, lease_id], ["billing", 0, ID, ID]);
  });
});
