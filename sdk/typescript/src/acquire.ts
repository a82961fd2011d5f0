import { passes } from "./attempt.js";
import type { Calls } from "./calls.js";
import { NotAcquiredError, NoTokenError, UnexpectedAnswerError } from "./errors.js";
import type { EventHook } from "./events.js";
import { isOver } from "./heartbeat.js";
import {
  InvalidRequestError,
  LeaseNotFoundError,
  LockBrokenError,
  LockHeldError,
  PlaceLostError,
  ProblemError,
} from "./problems.js";
import { KEEPING_PAUSE_MS, type Effort, type Reply } from "./servers.js";
import { bounded, sleep } from "./timers.js";
import { isHeld, type HeldLock, type LockBody, type LockRequest } from "./wire.js";

/** A place is kept for 15 s after it was asked for. In this time, in milliseconds, every server but one may be silent. */
const KEPT_MS = 14_000;
/** How long one poll is held open, in seconds, and how long a server may be silent beyond that: less where there are many. */
const LONGEST_SLICE_SECONDS = 10;
const LONGEST_PATIENCE_MS = 4_000;
const SHARED_PATIENCE_MS = 12_000;
/** How long the last try may take that ends a wait, in milliseconds. */
const LAST_TRY_MS = 2_000;
/** How long a claim that is given up may take to be taken back, in milliseconds. */
const LEAVING_MS = 2_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** A lock that is held, and the clock's time and the TTL (seconds) to count from. */
export interface Grant {
  readonly lock: HeldLock;
  readonly sent: number;
  readonly ttl: number;
}

/** What to acquire. */
export interface Want {
  readonly request: LockRequest;
  /** The caller's own key; without it each claim has a random one. */
  readonly key: string | undefined;
  /** Milliseconds to wait; 0 to try once. */
  readonly wait: number;
  readonly signal: AbortSignal | undefined;
}

/** A fresh key. Not `randomUUID`: browsers have that for secure pages only. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One acquisition, from the first request to the grant. Whatever else it ends with, it leaves no claim behind if it can. */
export class Acquisition {
  readonly #calls: Calls;
  readonly #tell: EventHook;
  readonly #want: Want;
  readonly #until: number;
  readonly #effort: Effort;
  readonly #slice: number;
  #key: string;
  #id: string | undefined;
  #position: number | undefined;
  #mayStand = false;

  constructor(calls: Calls, want: Want, tell: EventHook) {
    this.#calls = calls;
    this.#tell = tell;
    this.#want = want;
    this.#key = want.key ?? randomKey();
    this.#until = this.#now() + want.wait;
    const { count } = calls.servers;
    const patience = Math.min(LONGEST_PATIENCE_MS, SHARED_PATIENCE_MS / (count + 1));
    this.#slice = Math.min(LONGEST_SLICE_SECONDS, Math.floor((KEPT_MS - patience * (count - 1)) / 1000));
    this.#effort = { signal: want.signal, until: this.#until, patience, longestPause: KEEPING_PAUSE_MS };
  }

  async run(): Promise<Grant> {
    try {
      const grant = (this.#want.wait > 0 && (await this.#wait())) || (await this.#try());
      this.#want.signal?.throwIfAborted();
      return grant;
    } catch (error) {
      await this.#leave();
      throw error;
    }
  }

  /** Queues and asks until granted; undefined when the time is over. */
  async #wait(): Promise<Grant | undefined> {
    while (this.#now() < this.#until) {
      try {
        const claim = await this.#claim(true, this.#effort);
        return isHeld(claim.body) ? counted(claim, claim.body) : await this.#poll(claim.body);
      } catch (error) {
        if (this.#isPlaceLost(error)) {
          this.#startAnew(error);
          await sleep(Math.random() * FIRST_PAUSE_MS, this.#want.signal);
        } else if (!passes(error) || this.#now() < this.#until) {
          throw error;
        }
      }
    }
    return undefined;
  }

  /**
   * Tries without waiting. For a claim that stands in the queue this is also the way out of it: the same key without
   * `queue` takes the grant if its turn has come, else leaves, and the answer says who holds the lock.
   */
  async #try(): Promise<Grant> {
    const last = this.#want.wait > 0;
    const until = last ? this.#now() + LAST_TRY_MS : undefined;
    const effort: Effort = { signal: this.#want.signal, until, patience: last ? LAST_TRY_MS : undefined };
    for (let again = true; ; again = false) {
      try {
        const claim = await this.#claim(false, effort);
        if (!isHeld(claim.body)) {
          // It stands on, as another request of ours may wait for it at another server: one whose line broke, say.
          const { name, position } = claim.body;
          throw new NotAcquiredError(name, undefined, position - 1, undefined);
        }
        return counted(claim, claim.body);
      } catch (error) {
        if (error instanceof LockHeldError) {
          throw new NotAcquiredError(this.#want.request.name, error.holder, error.queueLength, error);
        }
        if (!(error instanceof PlaceLostError) || !again) {
          throw error;
        }
        this.#startAnew(error);
      }
    }
  }

  async #claim(queue: boolean, effort: Effort): Promise<Reply<LockBody>> {
    const failed = (error: unknown) => (this.#mayStand = standsAfter(error, this.#mayStand));
    const claim = await this.#calls.createLock({ ...this.#want.request, queue }, this.#key, { ...effort, failed });
    this.#id = claim.body.id;
    this.#mayStand = true;
    return claim;
  }

  /** Asks for a queued claim until it is granted; undefined when the time is over. */
  async #poll(claim: LockBody): Promise<Grant | undefined> {
    let slice = this.#slice;
    let pause = FIRST_PAUSE_MS;
    this.#queued(claim);
    for (let left = this.#left(); left > 0; left = this.#left()) {
      const seconds = Math.min(slice, Math.ceil(left / 1000));
      try {
        const polled = await this.#calls.pollLock(claim.id, seconds, this.#effort);
        if (isHeld(polled.body)) {
          return await this.#confirm(polled, polled.body);
        }
        this.#queued(polled.body);
        pause = await this.#pauseIfSentAway(polled, seconds, pause);
      } catch (error) {
        if (!isTooLong(error) || slice === 1) {
          throw error;
        }
        slice = Math.floor(slice / 2);
      }
    }
    return undefined;
  }

  /** A replica that goes away answers at once: ask another, and not in a hurry. */
  async #pauseIfSentAway(polled: Reply<LockBody>, seconds: number, pause: number): Promise<number> {
    if (polled.tries > 1 || this.#now() - polled.sent >= seconds * 500) {
      return FIRST_PAUSE_MS;
    }
    this.#calls.servers.leave(polled.server);
    await sleep(Math.min(pause, this.#left()), this.#want.signal);
    return Math.min(pause * 2, LONGEST_PAUSE_MS);
  }

  /** After a wait the TTL is counted from a renewal. One on a lease of many is counted by that lease. */
  async #confirm(polled: Reply<LockBody>, lock: HeldLock): Promise<Grant> {
    if (this.#want.request.lease_id !== undefined) {
      return counted(polled, lock);
    }
    const until = this.#now() + lock.ttl_seconds * 1000;
    const longestPause = Math.min(KEEPING_PAUSE_MS, (lock.ttl_seconds * 1000) / 3);
    const renewed = await this.#calls.renewLease(lock.lease_id, { ...this.#effort, until, longestPause });
    return { lock, sent: renewed.sent, ttl: renewed.body.ttl_seconds };
  }

  /** Not so when the lease of many is over: there is no claiming on that again. */
  #isPlaceLost(error: unknown): error is ProblemError {
    if (error instanceof LockBrokenError) {
      return false; // an administrator does not want it there
    }
    const onLease = this.#want.request.lease_id !== undefined;
    return error instanceof PlaceLostError || (isOver(error) && !(onLease && error instanceof LeaseNotFoundError));
  }

  /** Under the caller's own key, if there is one: by that the claim is found by others who know it. */
  #startAnew(error: ProblemError): void {
    this.#tell({ type: "place_lost", name: this.#want.request.name, error });
    this.#key = this.#want.key ?? randomKey();
    this.#id = undefined;
    this.#position = undefined;
    this.#mayStand = false;
  }

  #queued({ name, position }: LockBody): void {
    if (position !== this.#position) {
      this.#position = position;
      this.#tell({ type: "queued", name, position });
    }
  }

  async #leave(): Promise<void> {
    if (!this.#mayStand) {
      return;
    }
    try {
      const until = this.#now() + LEAVING_MS;
      await bounded(LEAVING_MS, undefined, (signal) => this.#takeBack({ signal, until, patience: LEAVING_MS }));
    } catch (error) {
      if (!(error instanceof LockHeldError || isOver(error))) {
        this.#tell({ type: "left_behind", name: this.#want.request.name, error });
      }
    }
  }

  async #takeBack(effort: Effort): Promise<void> {
    const id = this.#id ?? (await this.#calls.createLock(this.#want.request, this.#key, effort)).body.id;
    await this.#calls.deleteLock(id, effort);
  }

  #left(): number {
    return this.#until - this.#now();
  }

  #now(): number {
    return this.#calls.servers.clock.now();
  }
}

function counted({ sent }: Reply<LockBody>, lock: HeldLock): Grant {
  return { lock, sent, ttl: lock.ttl_seconds };
}

/**
 * Says whether the claim may stand when a try to make it failed, if it might have before. One that was refused was not done,
 * which tells nothing of the tries before it: their answers may have been lost.
 */
function standsAfter(error: unknown, before: boolean): boolean {
  if (error instanceof LockHeldError || error instanceof PlaceLostError) {
    return false;
  }
  const refused = error instanceof ProblemError && error.status < 500;
  return refused || error instanceof UnexpectedAnswerError || error instanceof NoTokenError ? before : true;
}

/** The service's longest wait can be set below ours. */
function isTooLong(error: unknown): boolean {
  return error instanceof InvalidRequestError && error.faults.some((fault) => fault.parameter === "wait_seconds");
}
