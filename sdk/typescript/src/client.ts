import { Acquisition, randomKey, type Grant } from "./acquire.js";
import { Calls, type LockFilter } from "./calls.js";
import { Clock } from "./clock.js";
import type { LockNotHeldError } from "./errors.js";
import { guarded, type EventHook } from "./events.js";
import { Heartbeat } from "./heartbeat.js";
import { Hold } from "./hold.js";
import { Lease } from "./lease.js";
import { Leaving, type Holding } from "./leaving.js";
import { Lock } from "./lock.js";
import { given, timeoutOf, waitOf, waysTo } from "./options.js";
import type { CallOptions, ClientOptions, LeaseOptions, LockOptions } from "./options.js";
import { LeaseNotFoundError } from "./problems.js";
import { RollCall } from "./rollcall.js";
import { Servers, type Effort } from "./servers.js";
import { follow, link } from "./signals.js";
import { eventsOf } from "./watch.js";
import type { LeaseBody, LeaseRequest, LeaseStatus, LockBody, LockList, LockRequest } from "./wire.js";

/** How long one server may be asked to release what is lost already, in milliseconds. */
const LOST_MS = 2_000;

/**
 * A client of latchkey. It keeps no connection of its own and needs no closing.
 *
 * Every call throws a {@link ProblemError} for what the service refused, {@link UnreachableError} when no server answered,
 * {@link UnexpectedAnswerError} when a proxy refused, {@link NoTokenError} when the token could not be had, and the reason of a
 * `signal` that was given and aborted.
 */
export class Client {
  readonly #calls: Calls;
  readonly #clock = new Clock();
  readonly #tell: EventHook;

  /**
   * `servers` is a base URL, several with commas between, or a list; without it `LATCHKEY_SERVER` of the environment, else
   * `http://127.0.0.1:8080`. Throws `TypeError` or `RangeError` for what cannot be meant.
   */
  constructor(servers?: string | readonly string[], options: ClientOptions = {}) {
    this.#tell = guarded(options.onEvent);
    this.#calls = new Calls(new Servers(waysTo(servers, options), timeoutOf(options), this.#clock, this.#tell));
  }

  /**
   * Takes the lock `name` and keeps it renewed until it is released. Throws {@link NotAcquiredError} when another holds it,
   * with `wait` until the end of the wait. When the call fails it leaves no claim behind, or says so to `onEvent`.
   */
  async lock(name: string, options: LockOptions = {}): Promise<Lock> {
    const { lease, ttl, holder, metadata, key, signal } = options;
    const wait = waitOf(options);
    signal?.throwIfAborted();
    lease?.check();
    const request = given<LockRequest>({ name, ttl_seconds: ttl, lease_id: lease?.id, holder, metadata });
    const [waiting, unlink] = link([signal, lease?.signal]);
    try {
      const want = { request, key, wait, signal: waiting.signal };
      const grant = await new Acquisition(this.#calls, want, this.#tell).run();
      return await this.#handOver(lease ? this.#onLease(grant, lease) : this.#held(grant));
    } catch (error) {
      if (lease && error instanceof LeaseNotFoundError) {
        lease.hold.lost(error);
        lease.check();
      }
      throw error;
    } finally {
      unlink();
    }
  }

  /** Makes a lease and keeps it renewed until it is released: for many locks on one heartbeat. */
  async lease(options: LeaseOptions = {}): Promise<Lease> {
    const { ttl, holder, metadata, signal } = options;
    const request = given<LeaseRequest>({ ttl_seconds: ttl, holder, metadata });
    const { body, sent } = await this.#calls.createLease(request, { signal });
    const what = "the lease";
    const hold = new Hold(what, this.#clock, sent, body.ttl_seconds);
    const rollCall = new RollCall(this.#calls, body.id, hold, (name, error) => this.#tell({ type: "lost", name, error }));
    const renewed = (stopped: AbortSignal) => void rollCall.afterRenewal(stopped);
    const heartbeat = this.#heartbeat(body.id, hold, sent, body.ttl_seconds, undefined, renewed);
    const leaving = new Leaving(
      what,
      hold,
      () => heartbeat.stop(),
      (lost) => this.#calls.deleteLease(body.id, this.#effort(lost)),
      (error) => this.#tell({ type: "release_failed", error }),
    );
    return new Lease(body, hold, leaving, (name, lockOptions) => this.lock(name, lockOptions));
  }

  /** `POST /locks`, with a random key unless one is given. Nothing renews or releases what it claims. */
  async createLock(request: LockRequest, options: CallOptions & { readonly key?: string } = {}): Promise<LockBody> {
    return (await this.#calls.createLock(request, options.key ?? randomKey(), { signal: options.signal })).body;
  }

  /** `GET /locks/{id}`: looks, or with `waitSeconds`, 0 included, asks for the grant and keeps the place. */
  async getLock(id: string, options: CallOptions & { readonly waitSeconds?: number } = {}): Promise<LockBody> {
    return (await this.#calls.getLock(id, options.waitSeconds, { signal: options.signal })).body;
  }

  /**
   * `GET /locks/{id}/events`: the claim as it is, and again when it moves in the queue, until it is held. Keeps its place
   * meanwhile, and takes the grant: renew at once then, and count from that. A line that breaks is opened again, through
   * whatever server there is, for as long as it takes: leave the loop, or abort the signal, to end it. Throws
   * {@link LockNotFoundError} or another {@link ProblemError} when the claim is gone.
   */
  lockEvents(id: string, options: CallOptions = {}): AsyncGenerator<LockBody> {
    return eventsOf(this.#calls.servers, id, options.signal);
  }

  /**
   * `DELETE /locks/{id}`: releases, or leaves the queue. Throws {@link LockNotFoundError} when there was nothing to remove.
   * `reason` breaks another's lock, for administrators: 1 to 255 bytes without control characters, which its holder is told.
   */
  async deleteLock(id: string, options: CallOptions & { readonly reason?: string } = {}): Promise<void> {
    await this.#calls.deleteLock(id, { signal: options.signal }, options.reason);
  }

  /** `GET /locks`: a page of who holds and who waits. */
  async listLocks(filter: LockFilter = {}, options: CallOptions = {}): Promise<LockList> {
    return (await this.#calls.listLocks(filter, { signal: options.signal })).body;
  }

  /** `POST /leases`. Nothing renews what it makes. */
  async createLease(request: LeaseRequest = {}, options: CallOptions = {}): Promise<LeaseBody> {
    return (await this.#calls.createLease(request, { signal: options.signal })).body;
  }

  /** `GET /leases/{id}`: looks, and renews nothing. */
  async getLease(id: string, options: CallOptions = {}): Promise<LeaseStatus> {
    return (await this.#calls.getLease(id, { signal: options.signal })).body;
  }

  /** `PUT /leases/{id}`: the TTL starts again. Count it from when you called. The id may be that of a held lock. */
  async renewLease(id: string, options: CallOptions = {}): Promise<LeaseBody> {
    return (await this.#calls.renewLease(id, { signal: options.signal })).body;
  }

  /** `DELETE /leases/{id}`: ends it and frees every lock on it. */
  async deleteLease(id: string, options: CallOptions = {}): Promise<void> {
    await this.#calls.deleteLease(id, { signal: options.signal });
  }

  /** An answer can come so late that the lock is not to be used any more. */
  async #handOver(lock: Lock): Promise<Lock> {
    if (!lock.held) {
      await lock.close();
    }
    return lock;
  }

  #held({ lock, sent, ttl }: Grant): Lock {
    const { name } = lock;
    const hold = new Hold(lockText(name), this.#clock, sent, ttl);
    const heartbeat = this.#heartbeat(lock.lease_id, hold, sent, ttl, name);
    return this.#lock(lock, ttl, hold, () => heartbeat.stop());
  }

  #onLease({ lock, ttl }: Grant, lease: Lease): Lock {
    return this.#lock(lock, ttl, lease.hold.part(lock.id, lock.name, lockText(lock.name)), () => {});
  }

  #lock(lock: Grant["lock"], ttl: number, hold: Holding, stop: () => void): Lock {
    const { id, name } = lock;
    const remove = (lost: boolean) => this.#calls.deleteLock(id, this.#effort(lost));
    const failed = (error: unknown) => this.#tell({ type: "release_failed", name, error });
    return new Lock(lock, ttl, hold, new Leaving(lockText(name), hold, stop, remove, failed));
  }

  #effort(lost: boolean): Effort {
    return lost ? { until: this.#clock.now() + LOST_MS, patience: LOST_MS } : {};
  }

  #heartbeat(
    id: string,
    hold: Hold,
    sent: number,
    ttl: number,
    name?: string,
    renewed: (stopped: AbortSignal) => void = () => {},
  ): Heartbeat {
    const what = given<{ name?: string }>({ name });
    const failed = (error: Error) => this.#tell({ type: "renewal_failed", ...what, error });
    follow(hold.signal, (error) => this.#tell({ type: "lost", ...what, error: error as LockNotHeldError }));
    return new Heartbeat(this.#calls.servers, id, hold, sent, ttl, failed, renewed);
  }
}

function lockText(name: string): string {
  return `lock ${JSON.stringify(name)}`;
}
