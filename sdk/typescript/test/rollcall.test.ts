import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LockLostError } from "@latchkey/client";
import { Calls } from "../dist/calls.js";
import { Clock } from "../dist/clock.js";
import { Hold } from "../dist/hold.js";
import { waysTo } from "../dist/options.js";
import { RollCall } from "../dist/rollcall.js";
import { Servers } from "../dist/servers.js";
import { held, ID, played, refusal, type Answer } from "./played.js";

const MANY = 101;
const going = new AbortController().signal;

/** A lease with `count` locks, of which the look shows none, and each of which is asked for with this answer. */
function lease(count: number, lock: Answer) {
  const status = { id: ID, ttl_seconds: 30, ttl_left_seconds: 20, renew_after_seconds: 10, locks: [] };
  const [fetch, heard] = played({ GET: (request) => (request.url.includes("/leases/") ? Response.json(status) : lock(request)) });
  const clock = new Clock();
  const calls = new Calls(new Servers(waysTo("http://played", { fetch }), 1_000, clock, () => {}));
  const hold = new Hold("the lease", clock, clock.now(), 30);
  const parts = Array.from({ length: count }, (_, i) => hold.part(`id-${i}`, `name-${i}`, `lock "name-${i}"`));
  const lost: string[] = [];
  const rollCall = new RollCall(calls, ID, hold, (name) => lost.push(name));
  const looks = () => heard.filter(({ url }) => url.includes("/leases/")).length;
  return { rollCall, parts, lost, looks, hold };
}

describe("a lease that was renewed", { concurrency: true }, () => {
  for (const { count, looks } of [{ count: 0, looks: 0 }, { count: 1, looks: 20 }, { count: MANY, looks: 2 }]) {
    test(`twenty times with ${count} locks is looked at ${looks} times`, async () => {
      const seen = lease(count, () => held());
      for (let renewals = 0; renewals < 20; renewals++) {
        await seen.rollCall.afterRenewal(going);
      }
      assert.equal(seen.looks(), looks);
      assert.deepEqual(seen.lost, [], "they were lost, though they answer that they are held");
      assert.ok(seen.parts.every(({ end }) => end === undefined));
      seen.hold.release();
    });
  }

  for (const { what, answer, gone } of [
    { what: "is not there", answer: () => refusal(404, "lock_not_found"), gone: true },
    { what: "was broken", answer: () => refusal(410, "lock_broken"), gone: true },
    { what: "has a wrong path", answer: () => refusal(404, "not_found"), gone: false },
    { what: "may not be seen", answer: () => refusal(403, "forbidden"), gone: false },
    { what: "is a page of a network", answer: () => new Response("<h1>Sign in</h1>", { status: 404 }), gone: false },
  ]) {
    test(`${gone ? "loses" : "keeps"} a lock that ${what}`, async () => {
      const seen = lease(1, answer);
      await seen.rollCall.afterRenewal(AbortSignal.timeout(1_000));
      assert.equal(seen.parts[0]!.end instanceof LockLostError, gone);
      assert.deepEqual(seen.lost, gone ? ["name-0"] : []);
      seen.hold.release();
    });
  }
});
