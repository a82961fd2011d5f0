/// <reference lib="esnext.disposable" preserve="true" />
import type { Hold } from "./hold.js";
import type { Leaving } from "./leaving.js";
import type { Lock } from "./lock.js";
import type { LockOptions } from "./options.js";
import type { LeaseBody } from "./wire.js";

/** One heartbeat for many locks: what ends it ends them all. Made by {@link Client.lease}. */
export class Lease implements AsyncDisposable {
  /** A capability: whoever knows it can renew and end the lease. Keep it out of logs. */
  readonly id: string;
  /** Seconds that the lease outlives its last renewal. */
  readonly ttl: number;
  /** @internal */
  readonly hold: Hold;
  readonly #leaving: Leaving;
  readonly #take: (name: string, options: LockOptions) => Promise<Lock>;

  /** @internal */
  constructor(lease: LeaseBody, hold: Hold, leaving: Leaving, take: (name: string, options: LockOptions) => Promise<Lock>) {
    this.id = lease.id;
    this.ttl = lease.ttl_seconds;
    this.hold = hold;
    this.#leaving = leaving;
    this.#take = take;
  }

  /** Says whether the lease stands, by the clock: false from shortly before the deadline on, whatever timers do. */
  get held(): boolean {
    return this.hold.end === undefined;
  }

  /** Fires when the lease is lost, with the {@link LockLostError} or {@link LockUncertainError} as its reason. */
  get signal(): AbortSignal {
    return this.hold.signal;
  }

  /** Seconds until the deadline, at which others may be granted the locks; 0 when the lease is over. */
  remaining(): number {
    return this.hold.remaining();
  }

  /** Throws why it is not held, if it is not. What it throws, leaving does not throw again. */
  check(): void {
    this.#leaving.check();
  }

  /**
   * Takes a lock on this lease, as {@link Client.lock} does; the TTL is the lease's. Also throws how the lease was lost, if it
   * is lost before the lock is granted. The lock can be released by itself.
   */
  lock(name: string, options: Omit<LockOptions, "ttl" | "lease"> = {}): Promise<Lock> {
    return this.#take(name, { ...options, lease: this });
  }

  /** Ends the lease and frees every lock on it, which are lost to those who still use them. Else as {@link Lock.release}. */
  release(): Promise<boolean> {
    return this.#leaving.release();
  }

  /** Releases the lease, and throws how it was lost if it was. Leaving a block of `await using` does this. */
  close(): Promise<void> {
    return this.#leaving.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
