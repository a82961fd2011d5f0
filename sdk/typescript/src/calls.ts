import type { Call } from "./attempt.js";
import type { Effort, Reply, Servers } from "./servers.js";
import {
  readLease,
  readLeaseStatus,
  readLock,
  readLockList,
  readNothing,
  type LeaseBody,
  type LeaseRequest,
  type LeaseStatus,
  type LockBody,
  type LockList,
  type LockRequest,
  type LockState,
} from "./wire.js";

/** Which claims to list. Not both `name` and `prefix`. */
export interface LockFilter {
  readonly name?: string;
  readonly prefix?: string;
  readonly state?: LockState;
  /** Claims in a page, 1 to 1000. */
  readonly limit?: number;
  /** The `next_cursor` of the page before. */
  readonly cursor?: string;
}

/** The operations of the contract. All of them may be repeated: a claim has its key; a lease made twice guards nothing. */
export class Calls {
  readonly servers: Servers;

  constructor(servers: Servers) {
    this.servers = servers;
  }

  createLock(request: LockRequest, key: string, effort?: Effort): Promise<Reply<LockBody>> {
    const headers = { "Idempotency-Key": key };
    const waitSeconds = request.wait_seconds ?? 0;
    const call = { method: "POST", path: "/locks", body: request, headers, waitSeconds, read: readLock } as const;
    return this.servers.request(call, effort);
  }

  getLock(id: string, waitSeconds: number | undefined, effort?: Effort): Promise<Reply<LockBody>> {
    return this.servers.request(look(id, waitSeconds), effort);
  }

  /** Asks one server for the grant and waits there; the others, should it fail, are only asked, so that the place is kept. */
  pollLock(id: string, waitSeconds: number, effort: Effort): Promise<Reply<LockBody>> {
    return this.servers.request({ ...look(id, waitSeconds), again: look(id, 0) }, effort);
  }

  deleteLock(id: string, effort?: Effort, reason?: string): Promise<Reply<void>> {
    const path = reason === undefined ? lockPath(id) : `${lockPath(id)}?${new URLSearchParams({ reason })}`;
    return this.servers.request({ method: "DELETE", path, read: readNothing }, effort);
  }

  listLocks(filter: LockFilter, effort?: Effort): Promise<Reply<LockList>> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(filter)) {
      if (value !== undefined) {
        query.set(name, String(value));
      }
    }
    const path = `/locks?${query}`.replace(/\?$/, "");
    return this.servers.request({ method: "GET", path, read: readLockList }, effort);
  }

  createLease(request: LeaseRequest, effort?: Effort): Promise<Reply<LeaseBody>> {
    return this.servers.request({ method: "POST", path: "/leases", body: request, read: readLease }, effort);
  }

  getLease(id: string, effort?: Effort): Promise<Reply<LeaseStatus>> {
    return this.servers.request({ method: "GET", path: leasePath(id), read: readLeaseStatus }, effort);
  }

  renewLease(id: string, effort?: Effort): Promise<Reply<LeaseBody>> {
    return this.servers.request(renewal(id), effort);
  }

  deleteLease(id: string, effort?: Effort): Promise<Reply<void>> {
    return this.servers.request({ method: "DELETE", path: leasePath(id), read: readNothing }, effort);
  }
}

function look(id: string, waitSeconds: number | undefined): Call<LockBody> {
  const path = waitSeconds === undefined ? lockPath(id) : `${lockPath(id)}?wait_seconds=${waitSeconds}`;
  return { method: "GET", path, waitSeconds: waitSeconds ?? 0, read: readLock };
}

/** The request that renews a lease, or a lock by its id. */
export function renewal(id: string): Call<LeaseBody> {
  return { method: "PUT", path: leasePath(id), read: readLease };
}

/** Where a claim is. */
export function lockPath(id: string): string {
  return `/locks/${encodeURIComponent(id)}`;
}

function leasePath(id: string): string {
  return `/leases/${encodeURIComponent(id)}`;
}
