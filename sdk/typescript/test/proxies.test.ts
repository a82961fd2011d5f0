import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, test } from "node:test";
import { Client, NotAcquiredError, ProblemError, UnexpectedAnswerError, UnreachableError, UnavailableError } from "@latchkey/client";
import { aName, eventually, replicas } from "./service.js";

const [replica] = await replicas(1, "--max-queue=1");

/** A server that stands where the service should, and answers for itself. */
async function standIn(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const problem = (status: number, code: string) => JSON.stringify({ type: "/", title: "t", status, detail: "d", code });

describe("what is not the service", { concurrency: true }, () => {
  test("a claim that stands on after its wait is given back", async () => {
    const asked: string[] = [];
    const queued = { id: "an-id", name: "n", state: "queued", position: 1, lease_id: "an-id", ttl_seconds: 30, renew_after_seconds: 10 };
    const server = await standIn((request, response) => {
      asked.push(request.method ?? "");
      request.resume().on("end", () => {
        if (request.method === "DELETE") {
          response.writeHead(204).end();
        } else {
          response.writeHead(202, { "Content-Type": "application/json" }).end(JSON.stringify(queued));
        }
      });
    });
    await assert.rejects(new Client(server).lock("n"), NotAcquiredError);
    assert.deepEqual(asked, ["POST", "DELETE"]);
  });

  test("a redirect is not followed to another host", async () => {
    let followed = 0;
    const elsewhere = await standIn((_, response) => {
      followed++;
      response.writeHead(201).end();
    });
    const moved = await standIn((request, response) => response.writeHead(307, { Location: elsewhere + request.url }).end());
    const error = await new Client(moved, { requestTimeout: 2 }).lock("secret").catch((error: unknown) => error);
    assert.ok(error instanceof UnreachableError && error.cause instanceof UnexpectedAnswerError);
    assert.equal(error.cause.status, 307);
    assert.equal(followed, 0);
  });

  test("a page of a network that says 200 or 404 is no answer", async () => {
    for (const status of [200, 201, 404, 502]) {
      const page = await standIn((_, response) => response.writeHead(status, { "Content-Type": "text/html" }).end("<h1>Sign in</h1>"));
      await using lock = await new Client([page, replica!.url]).lock(aName());
      assert.ok(lock.held, `status ${status}`);
    }
  });

  test("a proxy that refuses is told at once", async () => {
    let asked = 0;
    const proxy = await standIn((_, response) => {
      asked++;
      response.writeHead(401).end("who are you?");
    });
    await assert.rejects(new Client(proxy).lock("a"), (error: unknown) => error instanceof UnexpectedAnswerError && error.status === 401);
    assert.equal(asked, 1);
  });

  test("its headers are sent with each request", async () => {
    const seen: (string | undefined)[] = [];
    const proxy = await standIn((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(403).end();
    });
    await assert.rejects(new Client(proxy, { headers: { Authorization: "Bearer t" } }).getLock("a"), UnexpectedAnswerError);
    assert.deepEqual(seen, ["Bearer t"]);
  });
});

describe("what is refused for now", { concurrency: true }, () => {
  test("is tried again after the time it asks for", async () => {
    const asked: number[] = [];
    const busy = await standIn((_, response) => {
      asked.push(performance.now());
      response.writeHead(503, { "Retry-After": "1", "Content-Type": "application/problem+json" }).end(problem(503, "unavailable"));
    });
    const error = await new Client(busy, { requestTimeout: 1.5 }).lock("a").catch((error: unknown) => error);
    assert.ok(error instanceof UnavailableError);
    assert.equal(error.retryAfter, 1);
    assert.ok(asked[1]! - asked[0]! >= 950, `it was asked again after ${asked[1]! - asked[0]!} ms`);
  });

  test("is tried at another server at once", async () => {
    const busy = await standIn((_, response) => {
      response.writeHead(503, { "Retry-After": "30", "Content-Type": "application/problem+json" }).end(problem(503, "draining"));
    });
    const began = performance.now();
    await using lock = await new Client([busy, replica!.url]).lock(aName());
    assert.ok(lock.held && performance.now() - began < 10_000);
  });

  test("a refusal of a code that is not known is final", async () => {
    const strange = await standIn((_, response) => response.writeHead(418).end(problem(418, "teapot")));
    const error = await new Client(strange).lock("a").catch((error: unknown) => error);
    assert.ok(error instanceof ProblemError && error.code === "teapot" && error.status === 418);
  });

  test("a full queue is tried until there is room", async () => {
    const name = aName();
    const client = new Client(replica!.url);
    const first = await client.lock(name);
    const stop = new AbortController();
    const second = client.lock(name, { wait: 60, signal: stop.signal });
    await eventually("a full queue", async () => (await client.listLocks({ name })).locks.length === 2);
    let refused = 0;
    const patient = new Client(replica!.url, { onEvent: (event) => (refused += event.type === "retry" ? 1 : 0) });
    const third = patient.lock(name, { wait: 60 });
    await eventually("a refusal", () => refused > 0);
    stop.abort();
    await assert.rejects(second, { name: "AbortError" });
    await first.release();
    await using lock = await third;
    assert.ok(lock.held);
  });
});

test("a signal that many calls share warns of no leak, and ends them all", async () => {
  const warnings: Error[] = [];
  process.on("warning", (warning) => warnings.push(warning));
  const [roomy] = await replicas(1);
  const client = new Client(roomy!.url);
  const name = aName();
  await using held = await client.lock(name);
  const stop = new AbortController();
  const waits = Array.from({ length: 30 }, () => client.lock(name, { wait: 60, signal: stop.signal }));
  await eventually("thirty in the queue", async () => (await client.listLocks({ name })).locks.length === 31);
  stop.abort();
  const ends = await Promise.allSettled(waits);
  assert.ok(ends.every((end) => end.status === "rejected" && (end.reason as Error).name === "AbortError"));
  assert.deepEqual((await client.listLocks({ name })).locks.map(({ id }) => id), [held.id]);
  assert.deepEqual(warnings, []);
});
