import assert from "node:assert/strict";
import { test } from "node:test";
import { LockUncertainError } from "@latchkey/client";
import { Clock } from "../dist/clock.js";
import { Hold } from "../dist/hold.js";

const uncertain = (hold: Hold) => hold.end instanceof LockUncertainError;

const HOUR_MS = 3_600_000;

/** A clock whose two sources a test sets. */
function settable() {
  const times = { monotonic: 1_000, wall: 1_800_000_000_000 };
  const clock = new Clock({ monotonic: () => times.monotonic, wall: () => times.wall });
  const pass = (ms: number, asleep = false) => {
    times.monotonic += asleep ? 0 : ms;
    times.wall += ms;
  };
  return { times, clock, pass };
}

test("time passes in a sleep in which the monotonic clock stands still", () => {
  const { clock, pass } = settable();
  const begin = clock.now();
  pass(500);
  assert.equal(clock.now() - begin, 500);
  pass(HOUR_MS, true);
  assert.equal(clock.now() - begin, HOUR_MS + 500);
  pass(500);
  assert.equal(clock.now() - begin, HOUR_MS + 1_000);
});

test("a wall clock that is set back hides neither time nor a later sleep", () => {
  const { clock, times, pass } = settable();
  const begin = clock.now();
  times.wall -= HOUR_MS;
  pass(10);
  assert.equal(clock.now() - begin, 10);
  pass(1_000, true);
  assert.equal(clock.now() - begin, 1_010);
});

test("a wall clock that is coarse does not make time run", () => {
  const { clock, times } = settable();
  const begin = clock.now();
  for (let ms = 1; ms <= 10_000; ms++) {
    times.monotonic = 1_000 + ms;
    times.wall = 1_800_000_000_000 + Math.floor(ms / 100) * 100;
    clock.now();
  }
  assert.equal(clock.now() - begin, 10_000);
});

test("what was held is not held after a sleep, before any timer has run", () => {
  const { clock, pass } = settable();
  const hold = new Hold("lock", clock, clock.now(), 30);
  const { signal } = hold;
  pass(27_999);
  assert.ok(!uncertain(hold));
  assert.equal(hold.remaining(), 2.001);
  pass(10_000, true);
  assert.equal(hold.remaining(), 0);
  assert.ok(uncertain(hold));
  assert.equal(signal.reason, hold.end);
  hold.renewed(clock.now(), 30);
  assert.ok(uncertain(hold), "a renewal that came too late revived it");
});

test("the margin before the deadline is a tenth of the TTL, from 250 ms to 2 s", () => {
  for (const [ttl, margin] of [[2, 250], [10, 1_000], [3_600, 2_000]] as const) {
    const { clock, pass } = settable();
    const hold = new Hold("lock", clock, clock.now(), ttl);
    pass(ttl * 1_000 - margin - 1);
    assert.ok(!uncertain(hold), `TTL ${ttl}`);
    pass(1);
    assert.ok(uncertain(hold), `TTL ${ttl}`);
  }
});
