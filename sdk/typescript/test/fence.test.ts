import assert from "node:assert/strict";
import { test } from "node:test";
import open from "sql.js";
import { Client, FenceGuard, SqlFenceGuard, StaleTokenError, type Query } from "@latchkey/client";
import { aName, LEAST_TTL, replicas } from "./service.js";

const [replica] = await replicas(1);
const client = new Client(replica!.url);
const { Database } = await open();

/** A database in memory with the guard's table and one that it guards, and the query that the guard asks with. */
function database(guard: SqlFenceGuard) {
  const db = new Database();
  const query: Query = (sql, parameters) => {
    const statement = db.prepare(sql);
    try {
      statement.bind(parameters);
      const rows = [];
      while (statement.step()) {
        rows.push(statement.getAsObject());
      }
      return rows;
    } finally {
      statement.free();
    }
  };
  db.run(guard.schema);
  db.run(guard.schema);
  db.run("CREATE TABLE invoices (id integer PRIMARY KEY, status text)");
  return { db, query };
}

test("a token that is lower than the highest is refused, in memory", () => {
  const guard = new FenceGuard();
  guard.accept("a", 5);
  guard.accept("a", 5);
  guard.accept("a", 7);
  guard.accept("b", 1);
  assert.throws(
    () => guard.accept("a", 6),
    (error: unknown) => error instanceof StaleTokenError && error.lockName === "a" && error.token === 6 && error.highest === 7,
  );
  guard.accept("a", Number.MAX_SAFE_INTEGER);
  for (const broken of [0, -1, 1.5, NaN, 2 ** 53, "9" as unknown as number]) {
    assert.throws(() => guard.accept("c", broken), RangeError);
  }
});

test("a token that is lower than the highest is refused, in SQLite", async () => {
  const guard = new SqlFenceGuard("sqlite", "main.fences");
  const { query } = database(guard);
  await guard.accept(query, "a", 5);
  await guard.accept(query, "a", 5);
  await guard.accept(query, "a", Number.MAX_SAFE_INTEGER - 1);
  await guard.accept(query, "b", 1);
  await assert.rejects(
    guard.accept(query, "a", 6),
    (error: unknown) => error instanceof StaleTokenError && error.token === 6 && error.highest === Number.MAX_SAFE_INTEGER - 1,
  );
  await guard.accept(query, "a", Number.MAX_SAFE_INTEGER);
  await assert.rejects(guard.accept(query, "a", 2 ** 53), RangeError);
  assert.throws(() => new SqlFenceGuard("sqlite", "fences; DROP TABLE invoices"), TypeError);
});

test("a holder whose time has passed cannot write", async () => {
  const name = aName();
  const guard = new SqlFenceGuard("sqlite");
  const { db, query } = database(guard);
  const write = async (token: number, status: string): Promise<void> => {
    db.run("BEGIN");
    try {
      await guard.accept(query, name, token);
      db.run(`INSERT OR REPLACE INTO invoices VALUES (1, '${status}')`);
      db.run("COMMIT");
    } catch (error) {
      db.run("ROLLBACK");
      throw error;
    }
  };
  const paused = await client.createLock({ name, ttl_seconds: LEAST_TTL });
  await using next = await client.lock(name, { wait: 15 });
  await write(next.fencingToken, "paid by the next");
  await assert.rejects(write(paused.fencing_token!, "paid by the paused"), StaleTokenError);
  assert.deepEqual(await query("SELECT status FROM invoices", []), [{ status: "paid by the next" }]);
});
