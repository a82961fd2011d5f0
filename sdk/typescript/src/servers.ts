import { attempt, passes, type Call, type Way } from "./attempt.js";
import type { Clock } from "./clock.js";
import type { EventHook } from "./events.js";
import { ProblemError } from "./problems.js";
import { listen, type StreamEvent } from "./stream.js";
import { sleep } from "./timers.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** The least that a try is given, in milliseconds, however little time is left and however many servers are not asked yet. */
const LEAST_TRY_MS = 250;
/** How much later than asked for the answer to a wait may come, in milliseconds, where that is at the end of the time. */
const LATE_MS = 500;
/** The longest pause while a place in a queue is kept, in milliseconds, whatever is asked for: below a third of the 15 s that it is given. */
export const KEEPING_PAUSE_MS = 4_000;

/** An answer, when the request that got it was sent (by the client's clock), which server gave it, and at which try. */
export interface Reply<T> {
  readonly body: T;
  readonly sent: number;
  readonly server: number;
  readonly tries: number;
}

/** How hard to try. */
export interface Effort {
  /** Ends the call, which rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The clock's time after which nothing is tried again, and which the servers that are not asked yet share; without it the
   * request time-out counts from now, and each server may take that long.
   */
  readonly until?: number | undefined;
  /** Milliseconds that one try may take beyond the wait it asks for; at most the request time-out. */
  readonly patience?: number | undefined;
  /** Milliseconds that a pause may last, whatever the service asks for. */
  readonly longestPause?: number | undefined;
  /** Is told what each try failed with that was made, the last one too. */
  readonly failed?: ((error: unknown) => void) | undefined;
}

/** Base URLs in the order they were given, and which of them answered last. */
export class Servers {
  readonly clock: Clock;
  readonly count: number;
  readonly #ways: readonly Way[];
  readonly #timeout: number;
  readonly #tell: EventHook;
  #current = 0;

  constructor(ways: readonly Way[], timeout: number, clock: Clock, tell: EventHook) {
    this.#ways = ways;
    this.count = ways.length;
    this.#timeout = timeout;
    this.clock = clock;
    this.#tell = tell;
  }

  /**
   * Asks the server that last answered, then the others, then all again with back-off, until one answers what is final.
   * Throws what the last one failed with. Each server is tried at least once.
   */
  async request<T>(call: Call<T>, effort: Effort = {}): Promise<Reply<T>> {
    const until = effort.until ?? this.clock.now() + this.#timeout;
    let server = this.#current;
    let pause = FIRST_PAUSE_MS;
    for (let tries = 1; ; tries++) {
      effort.signal?.throwIfAborted();
      const asked = (tries > 1 && call.again) || call;
      try {
        return { ...(await this.attempt(asked, this.#timeFor(asked, effort, tries), effort.signal, server)), tries };
      } catch (error) {
        effort.failed?.(error);
        const left = until - this.clock.now();
        const all = tries % this.count === 0;
        if (!passes(error) || (all && left <= 0)) {
          throw error;
        }
        this.#tell({ type: "retry", server: this.#at(server).server, error });
        server = this.#after(server);
        if (all) {
          const wanted = error instanceof ProblemError ? (error.retryAfter ?? 0) * 1000 : 0;
          const longest = Math.min(left, effort.longestPause ?? left);
          await sleep(Math.min(Math.max(Math.random() * pause, wanted), longest), effort.signal);
          pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
        }
      }
    }
  }

  /** Milliseconds for a try: of the time left, the share of one server of those that are not asked yet. */
  #timeFor(call: Call<unknown>, { until, patience }: Effort, tries: number): number {
    const most = Math.min(patience ?? this.#timeout, this.#timeout);
    const wait = (call.waitSeconds ?? 0) * 1000;
    if (until === undefined) {
      return wait + most;
    }
    const left = until - this.clock.now();
    if (wait > 0) {
      return Math.min(wait + most, Math.max(left, wait) + LATE_MS); // a wait that is cut short is not had elsewhere
    }
    const unasked = this.count - ((tries - 1) % this.count);
    return Math.min(most, Math.max(left / unasked, LEAST_TRY_MS));
  }

  /** Asks one server once, within `ms`: the one that last answered, if none is named. A failure moves on. */
  async attempt<T>(call: Call<T>, ms: number, signal: AbortSignal | undefined, server = this.#current): Promise<Reply<T>> {
    const sent = this.clock.now();
    try {
      const body = await attempt(this.#at(server), call, ms, signal);
      this.#current = server;
      return { body, sent, server, tries: 1 };
    } catch (error) {
      if (error instanceof ProblemError && error.status < 500 && !passes(error)) {
        this.#current = server;
      } else if (!signal?.aborted) {
        this.leave(server);
      }
      throw error;
    }
  }

  /** The events of one stream of the server that last answered. However it ends, another is asked next. */
  async *listen(path: string, signal: AbortSignal | undefined): AsyncGenerator<StreamEvent> {
    const server = this.#current;
    try {
      yield* listen(this.#at(server), path, signal);
    } catch (error) {
      if (passes(error)) {
        this.#tell({ type: "retry", server: this.#at(server).server, error });
      }
      throw error;
    } finally {
      this.leave(server);
    }
  }

  /** Asks another than `server` next, where there is one. */
  leave(server: number): void {
    if (this.#current === server) {
      this.#current = this.#after(server);
    }
  }

  #after(server: number): number {
    return (server + 1) % this.count;
  }

  #at(server: number): Way {
    return this.#ways[server] as Way;
  }
}
