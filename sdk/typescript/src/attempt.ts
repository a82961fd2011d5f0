import { textOf } from "./body.js";
import type { Credentials } from "./credentials.js";
import { NoTokenError, UnexpectedAnswerError, UnreachableError } from "./errors.js";
import { ProblemError, problemError } from "./problems.js";
import { bounded } from "./timers.js";
import { isProblem } from "./wire.js";

/** One request of the API. */
export interface Call<T> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whole seconds that the service may hold the request open. */
  readonly waitSeconds?: number;
  /** What is asked instead when a try has failed. */
  readonly again?: Call<T>;
  /** Turns a 2xx answer into what it says, or throws {@link UnexpectedAnswerError}. */
  readonly read: (status: number, body: unknown) => T;
}

/** Where a request goes, and how. */
export interface Way {
  readonly server: string;
  readonly headers: Headers;
  readonly credentials: Credentials;
  readonly fetch: typeof fetch;
}

const UNAUTHORIZED = 401;
/** What a proxy answers for itself, and would again. */
const REFUSALS = new Set([UNAUTHORIZED, 403, 407]);
/** Statuses after which another try may do better: not done, or safe to repeat as every request of a client is. */
const PASSING = new Set([408, 429, 502, 503, 504]);

/** Says whether asking again, perhaps elsewhere, may help. */
export function passes(error: unknown): error is UnreachableError | ProblemError | NoTokenError {
  if (error instanceof ProblemError) {
    return PASSING.has(error.status) && error.code !== "place_lost";
  }
  return error instanceof UnreachableError || (error instanceof NoTokenError && error.late);
}

/**
 * Sends a request once and reads its answer to the end, within `ms`. Throws a {@link ProblemError}, {@link UnreachableError},
 * {@link UnexpectedAnswerError}, {@link NoTokenError}, or the reason of `signal`.
 */
export async function attempt<T>(way: Way, call: Call<T>, ms: number, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await bounded(ms, signal, async (cut) => {
      const answer = await send(way, call, cut);
      return call.read(answer.status, parsed(await textOf(answer)));
    });
  } catch (error) {
    throw failure(error, way, signal);
  }
}

type Sent = Omit<Call<unknown>, "read" | "again">;

/**
 * Sends a request, once more with a fresh token if it was refused, and returns its answer if that is 2xx, its body still to be
 * read; else throws what it is.
 */
export async function send(way: Way, call: Sent, cut: AbortSignal): Promise<Response> {
  const token = await way.credentials.get(undefined, cut);
  let answer = await sendWith(token, way, call, cut);
  if (answer.status === UNAUTHORIZED && token !== undefined) {
    const fresh = await way.credentials.get(token, cut).catch(() => token); // the refusal says more
    if (fresh !== token) {
      await answer.body?.cancel();
      answer = await sendWith(fresh, way, call, cut);
    }
  }
  if (answer.ok) {
    return answer;
  }
  const body = parsed(await textOf(answer));
  if (isProblem(body)) {
    throw problemError(answer.status, body, retryAfter(answer.headers));
  }
  throw new UnexpectedAnswerError(answer.status, "it is no problem document");
}

function sendWith(token: string | undefined, way: Way, call: Sent, cut: AbortSignal): Promise<Response> {
  const headers = new Headers(way.headers);
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    headers.set(name, value);
  }
  if (call.body) {
    headers.set("Content-Type", "application/json");
  }
  if (token !== undefined) {
    headers.set("Authorization", `Bearer ${token}`);
  }
  return way.fetch(way.server + call.path, {
    method: call.method,
    headers,
    body: call.body ? JSON.stringify(call.body) : null,
    signal: cut,
    redirect: "manual",
  });
}

/** What to throw for an error of a request. */
export function failure(error: unknown, way: Way, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) {
    return signal.reason;
  }
  const refusal = error instanceof UnexpectedAnswerError && REFUSALS.has(error.status);
  return error instanceof ProblemError || error instanceof NoTokenError || refusal ? error : new UnreachableError(way.server, rootOf(error));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // what is no JSON is no answer of the service
  }
}

function retryAfter(headers: Headers): number | undefined {
  const value = headers.get("Retry-After");
  return value && /^\d{1,9}$/.test(value) ? Number(value) : undefined;
}

/** Node's fetch says "fetch failed" and hides why in the cause. */
function rootOf(error: unknown): unknown {
  return error instanceof TypeError && error.cause instanceof Error ? error.cause : error;
}
