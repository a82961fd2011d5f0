import type { Way } from "./attempt.js";
import { Credentials, type Token } from "./credentials.js";
import type { EventHook } from "./events.js";
import type { Lease } from "./lease.js";

const DEFAULT_SERVER = "http://127.0.0.1:8080";
const DEFAULT_TIMEOUT_SECONDS = 10;
const LONGEST_TIMEOUT_SECONDS = 3_600;

/** How a client talks to the service. */
export interface ClientOptions {
  /** Headers of every request: what a proxy on the way wants, for instance. */
  readonly headers?: HeadersInit;
  /**
   * Says who calls: an API token or a JWT, sent as `Authorization: Bearer`; or a function that has it. That is called before
   * the first request, and again when one is answered 401, which is then sent once more if there is another token.
   * One that has not given it after 5 s is called again.
   */
  readonly token?: Token;
  /**
   * Seconds that one request may take beyond what it asks to wait, up to 3600; 10 by default. A call is tried again at the
   * other servers, and with back-off, until these seconds have passed and each server has been tried once.
   */
  readonly requestTimeout?: number;
  /** Used in place of the global `fetch`: for proxies, and for certificates. It must heed `signal` and `redirect`. */
  readonly fetch?: typeof fetch;
  /** Is told what the client lives through: for logs and counters. */
  readonly onEvent?: EventHook;
}

/** How to take a lock. */
export interface LockOptions {
  /** Whole seconds that the lock outlives its last renewal; 30 by default. The service has its bounds. Not with `lease`. */
  readonly ttl?: number;
  /**
   * Seconds to wait in line for it, rounded up to whole ones; `Infinity` for as long as it takes. 0, the default, tries once.
   * When servers are silent the call ends about 5 s later at most.
   */
  readonly wait?: number;
  /** Who claims it: shown to others, up to 255 bytes. */
  readonly holder?: string;
  /** Shown to others: up to 16 pairs of strings, 2048 bytes in all. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Put it on this lease, and on its heartbeat. */
  readonly lease?: Lease;
  /**
   * The idempotency key, 16 to 128 printable ASCII characters, fresh for each acquisition; random by default. One that is given
   * is kept when the place is lost and taken anew.
   */
  readonly key?: string;
  /** Ends the wait: the claim is taken back (for up to 2 s) and the call rejects with the reason. Nothing once it is held. */
  readonly signal?: AbortSignal;
}

/** How to make a lease. */
export interface LeaseOptions {
  /** Whole seconds that the lease outlives its last renewal; 30 by default. The service has its bounds. */
  readonly ttl?: number;
  readonly holder?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** What holds for one plain call. */
export interface CallOptions {
  /** Ends the call, which rejects with the reason. What was asked may have been done. */
  readonly signal?: AbortSignal;
}

/** The base URLs: those given, else those of `LATCHKEY_SERVER` where there is an environment, else this machine's. */
export function waysTo(servers: string | readonly string[] | undefined, options: ClientOptions): readonly Way[] {
  const given = typeof servers === "string" ? servers.split(",") : (servers ?? environment()?.split(",") ?? [DEFAULT_SERVER]);
  const urls = given.map((server) => server.trim()).filter((server) => server !== "");
  if (urls.length === 0) {
    throw new TypeError("no server is given");
  }
  const headers = new Headers(options.headers);
  const credentials = new Credentials(options.token);
  if (options.token !== undefined && headers.has("Authorization")) {
    throw new TypeError("the headers have an Authorization, and so would the token");
  }
  const ask = options.fetch ?? globalThis.fetch.bind(globalThis);
  return urls.map((url) => ({ server: baseOf(url), headers, credentials, fetch: ask }));
}

/** The request time-out in milliseconds. */
export function timeoutOf({ requestTimeout = DEFAULT_TIMEOUT_SECONDS }: ClientOptions): number {
  if (!(requestTimeout > 0 && requestTimeout <= LONGEST_TIMEOUT_SECONDS)) {
    throw new RangeError(`requestTimeout must be above 0 and up to ${LONGEST_TIMEOUT_SECONDS} seconds`);
  }
  return requestTimeout * 1000;
}

/** The wait in milliseconds. */
export function waitOf({ wait = 0 }: LockOptions): number {
  if (!(wait >= 0)) {
    throw new RangeError("wait must be 0 or more seconds");
  }
  return wait * 1000;
}

/** Leaves out what was not given: the service takes no `null`. */
export function given<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

function baseOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new TypeError("a server must be an http or https URL, without credentials, query and fragment");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

function environment(): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.["LATCHKEY_SERVER"] || undefined;
}
