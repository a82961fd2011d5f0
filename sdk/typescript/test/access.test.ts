import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, test } from "node:test";
import { Client, LockUncertainError, NoTokenError, ProblemError, UnauthorizedError, type Token } from "@latchkey/client";
import { BOUND_MS, eventually, fired, SHORT_TTL, within } from "./service.js";
import { held, ID, played, refusal, type Answer } from "./played.js";

function accepting(token: string): Answer {
  return (heard) => (heard.token === `Bearer ${token}` ? held() : refusal(401, "unauthorized"));
}

/** A function that has one token after another, the last for ever. */
function oneByOne(...tokens: string[]): () => string {
  return () => (tokens.length > 1 ? tokens.shift()! : tokens[0]!);
}

describe("a token", { concurrency: true }, () => {
  test("is sent with every request, and with every stream", async () => {
    const event = `event: held\ndata: ${JSON.stringify(await held().json())}\n\n`;
    const [fetch, heard] = played({ GET: ({ url }) => (url.endsWith("/events") ? new Response(event) : held()) });
    const client = new Client("http://played", { fetch, token: "lk_token" });
    const lock = await client.lock("n");
    for await (const claim of client.lockEvents(ID)) {
      assert.equal(claim.state, "held");
    }
    await client.renewLease(ID);
    await lock.release();
    assert.deepEqual(heard.map(({ token }) => token), Array(4).fill("Bearer lk_token"));
  });

  for (const { name, tokens, sent, works } of [
    { name: "another", tokens: ["old", "new"], sent: ["old", "new", "new"], works: true },
    { name: "the same", tokens: ["old"], sent: ["old", "old"], works: false },
    { name: "another bad one", tokens: ["old", "older", "oldest"], sent: ["old", "older", "older", "oldest"], works: false },
  ]) {
    test(`that is refused is asked for again once, and may be ${name}`, async () => {
      const [fetch, heard] = played({ "*": accepting("new") });
      const client = new Client("http://played", { fetch, token: oneByOne(...tokens) });
      for (let calls = 0; calls < 2; calls++) {
        const call = client.getLock(ID);
        await (works ? call : assert.rejects(call, (error) => error instanceof UnauthorizedError && !String(error).includes("old")));
      }
      assert.deepEqual(heard.map(({ token }) => token), sent.map((token) => `Bearer ${token}`));
    });
  }

  test("that many requests were refused for is asked for once", async () => {
    const asked: string[] = [];
    const source = async () => {
      asked.push(asked.length === 0 ? "old" : "new");
      return asked.at(-1)!;
    };
    const [fetch] = played({ "*": accepting("new") });
    const client = new Client("http://played", { fetch, token: source });
    await Promise.all(Array.from({ length: 20 }, () => client.getLock(ID)));
    assert.deepEqual(asked, ["old", "new"]);
  });

  test("that cannot be had is told, and nothing is sent without it", async () => {
    const [fetch, heard] = played();
    const sources: Token[] = [() => Promise.reject(new Error("the vault is closed")), () => "", () => "hush\r\nX: y", () => "hush hush"];
    for (const token of sources) {
      const error: unknown = await new Client("http://played", { fetch, token }).lock("n").catch((error: unknown) => error);
      assert.ok(error instanceof NoTokenError, String(error));
      assert.ok(!error.message.includes("hush"), error.message);
    }
    assert.deepEqual(heard, []);
    assert.throws(() => new Client("http://played", { token: "hush hush" }), (error: Error) => !error.message.includes("hush"));
    assert.throws(() => new Client("http://played", { token: "a", headers: { authorization: "Basic b" } }), TypeError);
  });

  test("that does not come in time ends the call, and not the next one", async () => {
    const [fetch] = played();
    let slow = true;
    const client = new Client("http://played", {
      fetch,
      requestTimeout: 0.1,
      token: () => (slow ? new Promise<string>((resolve) => setTimeout(() => resolve("late"), 300)) : "soon"),
    });
    await assert.rejects(within(BOUND_MS, "the end of a call", client.getLock(ID)), /no answer within/);
    slow = false;
    await eventually("a call that works", async () => client.getLock(ID).then(() => true, () => false));
  });

  test("that never comes is asked for again, by another call and by the same", async () => {
    const [fetch] = played();
    for (const requestTimeout of [0.2, 30]) {
      let asked = 0;
      const client = new Client("http://played", {
        fetch,
        requestTimeout,
        token: () => (asked++ === 0 ? new Promise<string>(() => {}) : "soon"),
      });
      await eventually("a call that works", async () => client.getLock(ID).then(() => true, () => false));
      assert.ok(asked >= 2);
    }
  });

  test("follows no redirect", async () => {
    let followed = 0;
    const elsewhere = await listening(createServer((_, answer) => answer.end(String(++followed))));
    const server = await listening(createServer((_, answer) => answer.writeHead(307, { Location: elsewhere }).end()));
    const client = new Client(server, { token: "lk_token", requestTimeout: 0.2 });
    await assert.rejects(client.getLock(ID), /307/);
    assert.equal(followed, 0);
  });
});

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  after(() => server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("a renewal", { concurrency: true }, () => {
  for (const [status, code] of [[401, "unauthorized"], [403, "forbidden"]] as const) {
    test(`that is ${code} leaves the lock uncertain, and not lost`, async () => {
      const [fetch, heard] = played({ POST: () => held(SHORT_TTL), PUT: () => refusal(status, code) });
      const lock = await new Client("http://played", { fetch, token: "lk_token" }).lock("n");
      const began = performance.now();
      const reason = await fired(lock.signal);
      assert.ok(reason instanceof LockUncertainError, String(reason));
      assert.equal(reason.cause instanceof ProblemError && reason.cause.code, code);
      assert.ok(performance.now() - began < SHORT_TTL * 1000, "the deadline had passed");
      assert.ok(heard.filter(({ method }) => method === "PUT").length > 1, "it was tried once");
    });
  }

  test("that is refused for an old token is sent again with the new one", async () => {
    let token = "old";
    const renewal = accepting("new");
    const [fetch, heard] = played({ POST: () => held(SHORT_TTL), PUT: (heard) => (token === "old" ? held(SHORT_TTL) : renewal(heard)) });
    await using lock = await new Client("http://played", { fetch, token: () => token }).lock("n");
    token = "new";
    await eventually("a renewal with it", () => heard.some((one) => one.method === "PUT" && one.token === "Bearer new"));
    assert.ok(lock.held);
  });

  test("that came too soon is sent again in time", async () => {
    const late = [() => refusal(429, "too_many_requests", {}, { "Retry-After": "60" })];
    const [fetch, heard] = played({ POST: () => held(SHORT_TTL), PUT: () => (late.pop() ?? (() => held(SHORT_TTL)))() });
    await using lock = await new Client("http://played", { fetch }).lock("n");
    await eventually("another renewal", () => heard.filter(({ method }) => method === "PUT").length >= 2);
    assert.ok(lock.held);
  });
});
