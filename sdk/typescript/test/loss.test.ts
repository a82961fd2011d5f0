import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import { Client, LockLostError, LockNotHeldError, LockUncertainError, type ClientEvent } from "@latchkey/client";
import { aName, BOUND_MS, eventually, fired, LEAST_TTL, replicas, SHORT_TTL, within } from "./service.js";
import { Line } from "./line.js";

const [replica] = await replicas(1);
const client = new Client(replica!.url);

describe("a lock that is lost", { concurrency: true }, () => {
  for (const [how, break_] of [["cut", (line: Line) => line.cut()], ["silent", (line: Line) => line.hang()]] as const) {
    test(`is uncertain before its deadline when its line is ${how}`, async () => {
      const line = await Line.to(replica!.url);
      const events: ClientEvent[] = [];
      const far = new Client(line.url, { onEvent: (event) => events.push(event) });
      const name = aName();
      const lock = await far.lock(name, { ttl: SHORT_TTL });
      break_(line);
      const broken = performance.now();
      const { signal } = lock;
      const reason = await fired(signal);
      assert.ok(reason instanceof LockUncertainError, String(reason));
      assert.ok(performance.now() - broken < SHORT_TTL * 1000, "the deadline had passed");
      assert.ok(events.some((event) => event.type === "renewal_failed" && event.name === name));
      assert.ok(reason.cause instanceof Error, "it does not say why no renewal succeeded");
      assert.deepEqual(events.at(-1), { type: "lost", name, error: reason });
      assert.ok(!inspect([reason, events], { depth: 20 }).includes(lock.id), "an id is a capability, and was told");
      assert.equal(lock.held, false);
      assert.equal(lock.remaining(), 0);
      assert.equal((await client.getLock(lock.id)).state, "held", "nobody else could be granted it yet");
      line.heal();
      await assert.rejects(lock.close(), reason);
      assert.deepEqual((await client.listLocks({ name })).locks, [], "leaving released it all the same");
    });
  }

  test("is lost when the service says so", async () => {
    const lock = await client.lock(aName(), { ttl: SHORT_TTL });
    await client.deleteLock(lock.id);
    const reason = await fired(lock.signal);
    assert.ok(reason instanceof LockLostError, String(reason));
    assert.equal(lock.held, false);
    assert.throws(() => lock.check(), reason);
    assert.equal(await lock.release(), false);
    await lock.close();
  });

  test("makes leaving its block throw", async () => {
    let loss: unknown;
    const left = (async () => {
      await using lock = await client.lock(aName(), { ttl: SHORT_TTL });
      await client.deleteLock(lock.id);
      loss = await fired(lock.signal);
    })();
    await assert.rejects(left, (error: unknown) => error === loss && error instanceof LockLostError);
  });

  test("is found in what a block throws, whoever threw first", async () => {
    const thrown = async (work: (signal: AbortSignal, check: () => void) => Promise<void>): Promise<unknown> => {
      try {
        await using lock = await client.lock(aName(), { ttl: SHORT_TTL });
        await client.deleteLock(lock.id);
        await fired(lock.signal);
        await work(lock.signal, () => lock.check());
      } catch (error) {
        return error;
      }
    };
    const mine = new Error("mine");
    const both = await thrown(() => Promise.reject(mine));
    assert.ok(LockNotHeldError.find(both) instanceof LockLostError);
    assert.equal((both as { suppressed?: unknown }).suppressed, mine);
    const checked = await thrown(async (_, check) => check());
    assert.ok(checked instanceof LockLostError, "what check() threw is thrown as it is");
    assert.equal(LockNotHeldError.find(mine), undefined);
  });

  test("is seen as lost by a process that was stopped past its deadline, before it can do anything", async () => {
    const name = aName();
    const holder = spawn(process.execPath, [new URL("./holder.js", import.meta.url).pathname, replica!.url, name, String(LEAST_TTL)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const lines: string[] = [];
      createInterface({ input: holder.stdout }).on("line", (line) => lines.push(line));
      await eventually("a holder at work", () => lines.some((line) => line.startsWith("held")));
      holder.kill("SIGSTOP");
      const next = await within(BOUND_MS, "the next holder", client.lock(name, { wait: 15 }));
      const granted = Date.now();
      holder.kill("SIGCONT");
      await eventually("the end of the holder", () => lines.some((line) => line.startsWith("signal")));
      const wrong = lines.filter((line) => line.startsWith("held") && Number(line.slice("held ".length)) >= granted);
      assert.deepEqual(wrong, [], "it believed to hold the lock after it woke");
      assert.match(lines.join("\n"), /^signal (LockUncertainError|LockLostError)$/m);
      assert.ok(next.held);
      await next.release();
    } finally {
      holder.kill("SIGKILL");
    }
  });
});

describe("a lock that is held", { concurrency: true }, () => {
  test("is renewed every third of its TTL, more or less, until it is released", async () => {
    const sent: number[] = [];
    const counting: typeof fetch = (url, init) => {
      if (init?.method === "PUT") {
        sent.push(performance.now());
      }
      return fetch(url, init);
    };
    const lock = await new Client(replica!.url, { fetch: counting }).lock(aName(), { ttl: SHORT_TTL });
    const began = performance.now();
    await eventually("five renewals", () => sent.length >= 5);
    assert.ok(sent[4]! - began > SHORT_TTL * 1000, "it was renewed in a hurry");
    assert.ok(lock.held);
    const gaps = sent.slice(1).map((time, i) => Math.round(time - sent[i]!));
    assert.ok(new Set(gaps).size > 1, `no jitter: ${gaps}`);
    await lock.release();
    const renewals = sent.length;
    await new Promise((resolve) => setTimeout(resolve, SHORT_TTL * 500));
    assert.equal(sent.length, renewals, "it was renewed after its release");
  });

  test("keeps no process alive, and runs out by itself", async () => {
    const name = aName();
    const code = `import { Client } from "@latchkey/client"; await new Client(${JSON.stringify(replica!.url)}).lock(${JSON.stringify(name)}, { ttl: 3600 });`;
    const forgetful = spawn(process.execPath, ["--input-type=module", "--eval", code], { stdio: "inherit" });
    const exit = new Promise<number | null>((resolve) => forgetful.once("exit", resolve));
    assert.equal(await within(BOUND_MS, "the end of a process that forgot its lock", exit), 0);
    assert.equal((await client.listLocks({ name })).locks.length, 1);
  });

  test("answers that are not about it do not lose it", async () => {
    const wrongPath = JSON.stringify({ type: "/", title: "t", status: 404, detail: "d", code: "not_found" });
    const answers = [new Response(wrongPath, { status: 404 }), ...[404, 302, 200].map((status) => new Response("<h1>Sign in</h1>", { status }))];
    const captive: typeof fetch = async (url, init) => (init?.method === "PUT" && answers.pop()) || fetch(url, init);
    await using lock = await new Client(replica!.url, { fetch: captive }).lock(aName(), { ttl: SHORT_TTL });
    await eventually("the strange answers", () => answers.length === 0);
    const woken = lock.remaining();
    await eventually("a renewal", () => lock.remaining() > woken);
    assert.ok(lock.held);
  });
});
