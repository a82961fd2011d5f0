import { LockLostError, LockReleasedError, type LockNotHeldError } from "./errors.js";
import { lossBy } from "./loss.js";
import { LeaseNotFoundError, LockBrokenError, LockNotFoundError } from "./problems.js";

/** What is given back: a {@link Hold}, or the part of one lock in it. */
export interface Holding {
  /** Why it is not held, or undefined while it is. */
  readonly end: LockNotHeldError | undefined;
  /** Fires when it is lost, with the end as its reason. */
  readonly signal: AbortSignal;
  /** Seconds until the deadline. */
  remaining(): number;
  /** Ends it without the signal. */
  release(): void;
}

/** How a lock or a lease is given back: the same for both. */
export class Leaving {
  readonly #what: string;
  readonly #hold: Holding;
  readonly #stop: () => void;
  readonly #remove: (lost: boolean) => Promise<unknown>;
  readonly #failed: (error: unknown) => void;
  #released: Promise<boolean> | undefined;
  #told = false;

  /**
   * `stop` ends the renewals; `remove` is the call that gives it back, which need not try hard for what is lost already;
   * `failed` is told why that was not done.
   */
  constructor(
    what: string,
    hold: Holding,
    stop: () => void,
    remove: (lost: boolean) => Promise<unknown>,
    failed: (error: unknown) => void,
  ) {
    this.#what = what;
    this.#hold = hold;
    this.#stop = stop;
    this.#remove = remove;
    this.#failed = failed;
  }

  check(): void {
    const end = this.#hold.end;
    if (end) {
      this.#told = true;
      throw end;
    }
  }

  release(): Promise<boolean> {
    this.#released ??= this.#release().catch((error: unknown) => {
      this.#released = undefined;
      throw error;
    });
    return this.#released;
  }

  async close(): Promise<void> {
    const end = this.#hold.end;
    try {
      await this.release();
    } catch (error) {
      if (error instanceof LockLostError) {
        throw error;
      }
      this.#failed(error);
    }
    if (end && !(end instanceof LockReleasedError) && !this.#told) {
      throw end;
    }
  }

  async #release(): Promise<boolean> {
    const lost = this.#hold.end !== undefined;
    this.#stop();
    this.#hold.release();
    try {
      await this.#remove(lost);
      return true;
    } catch (error) {
      if (error instanceof LockNotFoundError || error instanceof LeaseNotFoundError) {
        return false;
      }
      if (error instanceof LockBrokenError) {
        if (lost) {
          return false;
        }
        throw lossBy(error, this.#what);
      }
      throw error;
    }
  }
}
