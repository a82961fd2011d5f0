import { renewal } from "./calls.js";
import type { Hold } from "./hold.js";
import { MaxHoldReachedError, ProblemError } from "./problems.js";
import type { Servers } from "./servers.js";
import { alarm } from "./timers.js";

const JITTER = 0.1;
const LONGEST_TRY_MS = 5_000;
/** The least that a try is given, in milliseconds, however many servers are not asked yet. */
const LEAST_TRY_MS = 250;
const FIRST_PAUSE_MS = 100;

/** Says whether an answer to a renewal means that the lease is over. A wrong path does not. */
export function isOver(error: unknown): error is ProblemError {
  return error instanceof ProblemError && (error.status === 404 || error.status === 410) && error.code !== "not_found";
}

/**
 * Renews a lease every third of its TTL until its hold ends. It keeps no Node process alive: a program that has nothing else
 * to do ends, and its locks run out.
 */
export class Heartbeat {
  readonly #servers: Servers;
  readonly #id: string;
  readonly #hold: Hold;
  readonly #failed: (error: Error) => void;
  readonly #renewed: (stopped: AbortSignal) => void;
  readonly #stopped = new AbortController();
  #ttl: number;
  #sent: number;
  #failures = 0;
  #stopAlarm: () => void = () => {};

  /**
   * `id` is the lease's; the hold begins with `sent` and `ttl`, as here. `failed` is told of each renewal that failed, `renewed`
   * of each that succeeded, with a signal that fires when the heartbeat is stopped.
   */
  constructor(
    servers: Servers,
    id: string,
    hold: Hold,
    sent: number,
    ttl: number,
    failed: (error: Error) => void,
    renewed: (stopped: AbortSignal) => void,
  ) {
    this.#servers = servers;
    this.#id = id;
    this.#hold = hold;
    this.#sent = sent;
    this.#ttl = ttl;
    this.#failed = failed;
    this.#renewed = renewed;
    this.#next();
  }

  /** Ends it, with a renewal that is under way. */
  stop(): void {
    this.#stopAlarm();
    this.#stopped.abort();
  }

  #next(): void {
    const third = (this.#ttl * 1000) / 3;
    this.#ringAt(this.#sent + third * (1 + JITTER * (2 * Math.random() - 1)));
  }

  #ringAt(time: number): void {
    const ms = time - this.#servers.clock.now();
    this.#stopAlarm = alarm(ms, () => {
      if (this.#servers.clock.now() < time) {
        this.#ringAt(time);
      } else {
        void this.#renew();
      }
    });
  }

  async #renew(): Promise<void> {
    const left = this.#hold.left;
    if (left <= 0 || this.#stopped.signal.aborted) {
      return;
    }
    try {
      const { body, sent } = await this.#servers.attempt(renewal(this.#id), this.#timeFor(left), this.#stopped.signal);
      this.#sent = sent;
      this.#ttl = body.ttl_seconds;
      this.#failures = 0;
      this.#hold.renewed(sent, body.ttl_seconds);
      this.#next();
      this.#renewed(this.#stopped.signal);
    } catch (error) {
      this.#retry(error as Error);
    }
  }

  /** Milliseconds for a try: of those left, the share of one server of those that have not failed yet. */
  #timeFor(left: number): number {
    const unasked = Math.max(this.#servers.count - this.#failures, 1);
    const share = Math.max(left / unasked, LEAST_TRY_MS);
    return Math.min((this.#ttl * 1000) / 3, LONGEST_TRY_MS, share, left);
  }

  #retry(error: Error): void {
    if (this.#stopped.signal.aborted || this.#hold.end) {
      return;
    }
    if (isOver(error) || error instanceof MaxHoldReachedError) {
      this.#hold.lost(error);
      return;
    }
    this.#failures++;
    this.#hold.failed(error);
    this.#failed(error);
    this.#ringAt(this.#servers.clock.now() + Math.max(this.#pause(), this.#askedPause(error)));
  }

  /** How long the service wants to be left alone, if it got too many requests; not so long that it would be too late. */
  #askedPause(error: Error): number {
    const asked = error instanceof ProblemError && error.status === 429 ? (error.retryAfter ?? 0) * 1000 : 0;
    return Math.min(asked, this.#hold.left / 2);
  }

  /** None until every server has failed, and one was asked twice; then back-off up to a tenth of the TTL. */
  #pause(): number {
    const extra = this.#failures - Math.max(2, this.#servers.count);
    if (extra < 0) {
      return 0;
    }
    const longest = this.#ttl * 100;
    return Math.min(FIRST_PAUSE_MS * 2 ** Math.min(extra, 20), longest) * (0.5 + Math.random() / 2);
  }
}
