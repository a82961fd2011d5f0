import type { Calls } from "./calls.js";
import type { LockNotHeldError } from "./errors.js";
import { isOver } from "./heartbeat.js";
import type { Hold } from "./hold.js";
import type { Part } from "./part.js";
import type { Effort } from "./servers.js";

/** Up to so many locks on a lease are looked for after each renewal, and more after one renewal in so many: the list is long. */
const FEW_LOCKS = 100;
const SELDOM = 10;
/** How long one look may take, in milliseconds: the next renewal brings the next. */
const LOOK_MS = 5_000;

/**
 * Looks which locks still stand on a lease of many. Its renewal does not tell: the lease goes on when an administrator breaks
 * one of its locks, or when somebody who knows the id releases it.
 */
export class RollCall {
  readonly #calls: Calls;
  readonly #leaseId: string;
  readonly #hold: Hold;
  readonly #lost: (name: string, why: LockNotHeldError) => void;
  #renewals = 0;
  #looking = false;

  constructor(calls: Calls, leaseId: string, hold: Hold, lost: (name: string, why: LockNotHeldError) => void) {
    this.#calls = calls;
    this.#leaseId = leaseId;
    this.#hold = hold;
    this.#lost = lost;
  }

  /** To be called after each renewal. Never fails: what cannot be seen now is looked for after the next. */
  async afterRenewal(stopped: AbortSignal): Promise<void> {
    const granted = this.#hold.parts; // those granted later may be missing from what the look sees
    const due = granted.length <= FEW_LOCKS || this.#renewals % SELDOM === 0;
    this.#renewals++;
    if (granted.length === 0 || !due || this.#looking) {
      return;
    }
    this.#looking = true;
    try {
      const { locks } = (await this.#calls.getLease(this.#leaseId, this.#effort(stopped))).body;
      const standing = new Set(locks.map(({ id }) => id));
      for (const part of granted) {
        if (!standing.has(part.id) && !part.end) {
          await this.#ask(part, stopped);
        }
      }
    } catch {
      // a lease that is over is told by its renewal, and anything else says nothing of the locks
    } finally {
      this.#looking = false;
    }
  }

  async #ask(part: Part, stopped: AbortSignal): Promise<void> {
    try {
      await this.#calls.getLock(part.id, undefined, this.#effort(stopped));
    } catch (error) {
      const loss = isOver(error) ? part.lost(error) : undefined;
      if (loss) {
        this.#lost(part.name, loss);
      }
    }
  }

  #effort(stopped: AbortSignal): Effort {
    return { signal: stopped, until: this.#calls.servers.clock.now() + LOOK_MS, patience: LOOK_MS };
  }
}
