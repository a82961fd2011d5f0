import { StaleTokenError } from "./errors.js";

/**
 * Keeps the highest token of each lock name, in memory: for a resource that is one process. It grows with the number of
 * names. When the process starts anew it knows nothing: what must outlive that belongs into {@link SqlFenceGuard}.
 */
export class FenceGuard {
  readonly #highest = new Map<string, number>();

  /**
   * Accepts a token that is not below the highest for `name`, and remembers it. Throws {@link StaleTokenError} for a lower one,
   * `RangeError` for what is no token.
   */
  accept(name: string, token: number): void {
    const highest = this.#highest.get(name) ?? 0;
    if (checked(token) < highest) {
      throw new StaleTokenError(name, token, highest);
    }
    this.#highest.set(name, token);
  }
}

/** A row of an answer. */
export type Row = Readonly<Record<string, unknown>>;

/** Runs one statement inside the caller's own transaction, and returns its rows. */
export type Query = (sql: string, parameters: readonly (string | number)[]) => readonly Row[] | Promise<readonly Row[]>;

const PLACEHOLDERS = { sqlite: ["?1", "?2"], postgresql: ["$1", "$2"] } as const;

/** Keeps the highest token of each lock name in a table, beside what it guards. SQLite from 3.35 on, PostgreSQL from 9.5 on. */
export class SqlFenceGuard {
  /** The statement that makes the table if it is not there. */
  readonly schema: string;
  readonly #accept: string;
  readonly #look: string;

  /** `table` is an SQL name, with its schema if need be; `fences` by default. Throws `TypeError` for another. */
  constructor(dialect: keyof typeof PLACEHOLDERS, table = "fences") {
    if (!/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$/.test(table)) {
      throw new TypeError("table must be a plain SQL name");
    }
    const [name, token] = PLACEHOLDERS[dialect];
    this.schema = `CREATE TABLE IF NOT EXISTS ${table} (name text PRIMARY KEY, token bigint NOT NULL)`;
    this.#accept =
      `INSERT INTO ${table} AS fence (name, token) VALUES (${name}, ${token}) ` +
      "ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token RETURNING token";
    this.#look = `SELECT token FROM ${table} WHERE name = ${name}`;
  }

  /**
   * As {@link FenceGuard.accept}, in the database. Call it first in the transaction that the lock protects, and roll that back
   * when it throws. `query` must run inside that transaction; what it throws passes through.
   */
  async accept(query: Query, name: string, token: number): Promise<void> {
    const accepted = await query(this.#accept, [name, checked(token)]);
    if (accepted.length === 0) {
      const [row] = await query(this.#look, [name]);
      throw new StaleTokenError(name, token, Number(row?.["token"]));
    }
  }
}

/** Tokens are whole and below 2^53: what is neither was broken on its way. */
function checked(token: number): number {
  if (!Number.isSafeInteger(token) || token < 1) {
    throw new RangeError("a fencing token is a whole number from 1 to 2^53 - 1");
  }
  return token;
}
