import type { LockHolder } from "./wire.js";

/** The base of every error of this package. What the caller asked for with an `AbortSignal` rejects with its reason instead. */
export class LatchkeyError extends Error {
  override get name(): string {
    return "LatchkeyError";
  }
}

/** No server answered, or what did was not latchkey; `cause` says why the last one did not. It may have been done all the same. */
export class UnreachableError extends LatchkeyError {
  /** The base URL that was asked last. */
  readonly server: string;

  constructor(server: string, cause: unknown) {
    const { message, code } = Object(cause) as { message?: string; code?: string };
    super(`${server}: ${message || code || "no answer"}`, { cause });
    this.server = server;
  }

  override get name() {
    return "UnreachableError" as const;
  }
}

/** Something answered as latchkey never does: a proxy that wants a login, a page of a network, a wrong address. */
export class UnexpectedAnswerError extends LatchkeyError {
  /** The HTTP status; 0 for a redirect that a browser hides. Redirects are not followed. */
  readonly status: number;

  constructor(status: number, what: string) {
    super(`status ${status} is no answer of latchkey: ${what}`);
    this.status = status;
  }

  override get name() {
    return "UnexpectedAnswerError" as const;
  }
}

/** There is no token to send: the function that was to give it failed, or gave what is none; `cause` says why. */
export class NoTokenError extends LatchkeyError {
  constructor(cause: unknown) {
    super(`no token: ${(Object(cause) as { message?: string }).message ?? "its function failed"}`, { cause });
  }

  /** Says that it was not given in time: the function may do better when it is asked again. */
  get late(): boolean {
    return (Object(this.cause) as { name?: unknown }).name === "TimeoutError";
  }

  override get name() {
    return "NoTokenError" as const;
  }
}

/** Another holds the lock, and went on holding it for as long as was to be waited. The claim has left the queue. */
export class NotAcquiredError extends LatchkeyError {
  readonly lockName: string;
  /** Who holds it; absent while the first in line is not yet granted. */
  readonly holder: LockHolder | undefined;
  /** The claims that wait, the holder's not among them. */
  readonly queueLength: number;

  constructor(lockName: string, holder: LockHolder | undefined, queueLength: number, cause: unknown) {
    const by = holder?.holder ? ` by ${JSON.stringify(holder.holder)}` : "";
    super(`lock ${JSON.stringify(lockName)} is held${by}, ${queueLength} waiting`, { cause });
    this.lockName = lockName;
    this.holder = holder;
    this.queueLength = queueLength;
  }

  override get name() {
    return "NotAcquiredError" as const;
  }
}

/** The base of what says that a lock or a lease is not held any more: stop the work that it protects. */
export abstract class LockNotHeldError extends LatchkeyError {
  /**
   * The loss in whatever a block threw: `error` itself, or inside the `SuppressedError` that `await using` makes of two,
   * or a cause.
   */
  static find(error: unknown): LockNotHeldError | undefined {
    const seen = new Set<unknown>();
    const rest = [error];
    for (let next = rest.pop(); next instanceof Error && !seen.has(next); next = rest.pop()) {
      if (next instanceof LockNotHeldError) {
        return next;
      }
      seen.add(next);
      const { error, suppressed } = next as { error?: unknown; suppressed?: unknown };
      rest.push(...[next.cause, suppressed, error].filter((inner) => inner !== undefined));
    }
    return undefined;
  }
}

/**
 * The service said that it is gone, and another may hold the lock. `cause` is the answer: {@link LockBrokenError} if an
 * administrator took it away, {@link MaxHoldReachedError} if it is renewed no more; then it stands until one TTL after its last
 * renewal.
 */
export class LockLostError extends LockNotHeldError {
  override get name() {
    return "LockLostError" as const;
  }
}

/** No renewal was done in time, as no server answered or the token was refused: whether it is held cannot be told. Treat it as lost. */
export class LockUncertainError extends LockNotHeldError {
  override get name() {
    return "LockUncertainError" as const;
  }
}

/** It was released here. */
export class LockReleasedError extends LockNotHeldError {
  override get name() {
    return "LockReleasedError" as const;
  }
}

/** The resource has accepted a higher token: whoever brings this one holds the lock no more. */
export class StaleTokenError extends LatchkeyError {
  readonly lockName: string;
  readonly token: number;
  /** The highest token accepted for that name. */
  readonly highest: number;

  constructor(lockName: string, token: number, highest: number) {
    super(`token ${token} of lock ${JSON.stringify(lockName)} is stale: ${highest} was accepted`);
    this.lockName = lockName;
    this.token = token;
    this.highest = highest;
  }

  override get name() {
    return "StaleTokenError" as const;
  }
}
