/// <reference lib="esnext.disposable" preserve="true" />
import type { Holding, Leaving } from "./leaving.js";
import type { HeldLock } from "./wire.js";

/** A lock that is held, and renewed in the background until it is released or lost. Made by {@link Client.lock}. */
export class Lock implements AsyncDisposable {
  /** What is locked. */
  readonly name: string;
  /** The claim's id, a capability: whoever knows it can renew and release the lock. Keep it out of logs. */
  readonly id: string;
  /** Grows with every grant of the name. Send it to the resource, which refuses one lower than it has accepted. */
  readonly fencingToken: number;
  /** Seconds that the lock outlives its last renewal. */
  readonly ttl: number;
  /** The lease it is on: of its own, or shared. */
  readonly leaseId: string;
  readonly #hold: Holding;
  readonly #leaving: Leaving;

  /** @internal */
  constructor(lock: HeldLock, ttl: number, hold: Holding, leaving: Leaving) {
    this.name = lock.name;
    this.id = lock.id;
    this.fencingToken = lock.fencing_token;
    this.ttl = ttl;
    this.leaseId = lock.lease_id;
    this.#hold = hold;
    this.#leaving = leaving;
  }

  /** Says whether it is held, by the clock: false from shortly before the deadline on, whatever timers do. */
  get held(): boolean {
    return this.#hold.end === undefined;
  }

  /**
   * Fires when the lock is lost, with the {@link LockLostError} or {@link LockUncertainError} as its reason. It does not fire
   * when the lock is released. After a pause of the process, what was kept of it may be told a moment late: ask `check()`.
   */
  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  /** Seconds until the deadline, at which another may be granted the lock; 0 when it is not held. */
  remaining(): number {
    return this.#hold.remaining();
  }

  /** Throws why it is not held, if it is not. What it throws, leaving does not throw again. */
  check(): void {
    this.#leaving.check();
  }

  /**
   * Gives the lock back. True if this call did, false if it was gone already (or an earlier try of this call did it, whose
   * answer was lost). Calling it again gives the same answer; after it failed it tries again. Throws
   * {@link UnreachableError} or a {@link ProblemError}: then the lock runs out within its TTL. Throws {@link LockLostError} when
   * an administrator had broken it, unnoticed.
   */
  release(): Promise<boolean> {
    return this.#leaving.release();
  }

  /**
   * Releases the lock, and throws how it was lost if it was. A release that fails is told to `onEvent` and not thrown.
   * Leaving a block of `await using` does this.
   */
  close(): Promise<void> {
    return this.#leaving.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
