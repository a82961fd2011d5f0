import type { Clock } from "./clock.js";
import { LockLostError, LockReleasedError, LockUncertainError, type LockNotHeldError } from "./errors.js";
import { lossBy } from "./loss.js";
import { Part } from "./part.js";
import { alarm } from "./timers.js";

const LEAST_MARGIN_MS = 250;
const MOST_MARGIN_MS = 2_000;

/** How long before the deadline a hold that was not renewed is told to be uncertain, in milliseconds. */
export function marginOf(ttl: number): number {
  return Math.min(Math.max(ttl * 100, LEAST_MARGIN_MS), MOST_MARGIN_MS);
}

/**
 * What is known here of a lock or a lease. It is held until it is told to be lost or released, or until the margin before
 * its deadline. Every question compares the clock itself: a timer that comes late, because the process was stopped or the
 * machine slept, is not waited for.
 */
export class Hold {
  readonly #what: string;
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  readonly #parts = new Set<Part>();
  #deadline: number;
  #uncertainAt: number;
  #end: LockNotHeldError | undefined;
  #lastFailure: Error | undefined;
  #stopAlarm: () => void = () => {};

  /** `sent` is the clock's time when the request was sent that got it or renewed it last; `ttl` is in seconds. */
  constructor(what: string, clock: Clock, sent: number, ttl: number) {
    this.#what = what;
    this.#clock = clock;
    this.#deadline = sent + ttl * 1000;
    this.#uncertainAt = this.#deadline - marginOf(ttl);
    this.#watch();
  }

  /** Why it is not held, or undefined while it is. */
  get end(): LockNotHeldError | undefined {
    if (!this.#end && this.#clock.now() >= this.#uncertainAt) {
      const cause = this.#lastFailure && { cause: this.#lastFailure };
      this.#lose(new LockUncertainError(`${this.#what} may be lost: no renewal was answered in time`, cause));
    }
    return this.#end;
  }

  get signal(): AbortSignal {
    void this.end;
    return this.#controller.signal;
  }

  /** Milliseconds until the hold is uncertain; 0 when it is not held. */
  get left(): number {
    return this.end ? 0 : this.#uncertainAt - this.#clock.now();
  }

  /** Seconds until the deadline; 0 when it is not held. */
  remaining(): number {
    return this.end ? 0 : (this.#deadline - this.#clock.now()) / 1000;
  }

  /** Counts a renewal that was answered. One that comes too late changes nothing. */
  renewed(sent: number, ttl: number): void {
    if (this.end || sent + ttl * 1000 <= this.#deadline) {
      return;
    }
    this.#deadline = sent + ttl * 1000;
    this.#uncertainAt = this.#deadline - marginOf(ttl);
    this.#lastFailure = undefined;
    this.#watch();
  }

  /** Notes why a renewal failed, for the error that says it is uncertain. */
  failed(why: Error): void {
    this.#lastFailure = why;
  }

  /** Ends it because the service said that it is gone. */
  lost(cause: Error): void {
    if (!this.end) {
      this.#lose(lossBy(cause, this.#what));
    }
  }

  /** Ends it without a word: `signal` does not fire. The locks on a lease are lost by its release. */
  release(): void {
    if (this.end) {
      return;
    }
    this.#finish(new LockReleasedError(`${this.#what} was released`));
  }

  /** What is held on the same lease, and has not ended. */
  get parts(): readonly Part[] {
    return [...this.#parts];
  }

  /** A hold on the same lease, of the lock with this id: it ends with this one, or before. */
  part(id: string, name: string, what: string): Part {
    const part = new Part(id, name, what, this, () => this.#parts.delete(part));
    this.#parts.add(part);
    if (this.end) {
      this.#loseParts(this.end);
    }
    return part;
  }

  #lose(why: LockNotHeldError): void {
    this.#finish(why);
    this.#controller.abort(why);
  }

  #finish(why: LockNotHeldError): void {
    this.#end = why;
    this.#stopAlarm();
    this.#loseParts(why);
  }

  /** What is released here is lost to those who still use what was held on it. */
  #loseParts(why: LockNotHeldError): void {
    const released = why instanceof LockReleasedError;
    const loss = released ? new LockLostError(`${why.message}, and with it all that was held on it`) : why;
    for (const part of this.parts) {
      part.lose(loss);
    }
  }

  #watch(): void {
    this.#stopAlarm();
    this.#stopAlarm = alarm(this.#uncertainAt - this.#clock.now(), () => {
      if (!this.end) {
        this.#watch();
      }
    });
  }
}
