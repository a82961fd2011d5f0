import { LatchkeyError } from "./errors.js";
import type { InputFault, LockHolder, Problem } from "./wire.js";

/** What the service answered instead of doing what was asked: one class for each `code`, this one for codes not known here. */
export class ProblemError extends LatchkeyError {
  /** The HTTP status. */
  readonly status: number;
  /** This kind of problem, for a program. Stable. */
  readonly code: string;
  /** This kind of problem, in a few words for a person. */
  readonly title: string;
  /** What happened this time, for a person. */
  readonly detail: string;
  /** Seconds to let pass before asking again, where the answer said so. */
  readonly retryAfter: number | undefined;
  /** The whole document. */
  readonly problem: Problem;

  constructor(status: number, problem: Problem, retryAfter?: number) {
    super((problem.detail || problem.title || problem.code) + (problem.reason ? `: ${problem.reason}` : ""));
    this.status = status;
    this.code = problem.code;
    this.title = problem.title;
    this.detail = problem.detail;
    this.retryAfter = retryAfter;
    this.problem = problem;
  }

  override get name(): string {
    return "ProblemError";
  }
}

/** The input is at fault. */
export class InvalidRequestError extends ProblemError {
  override get name() { return "InvalidRequestError" as const; }

  /** Each place that is at fault. */
  get faults(): readonly InputFault[] {
    return this.problem.errors ?? [];
  }
}

/** There was no token or certificate that the service knows. */
export class UnauthorizedError extends ProblemError {
  override get name() { return "UnauthorizedError" as const; }
}

/** The principal is known, and may not do this with this name. */
export class ForbiddenError extends ProblemError {
  override get name() { return "ForbiddenError" as const; }
}

/** No such path: the base URL is wrong. */
export class NotFoundError extends ProblemError {
  override get name() { return "NotFoundError" as const; }
}

/** No such claim stands: released, run out, lapsed, or never was. */
export class LockNotFoundError extends ProblemError {
  override get name() { return "LockNotFoundError" as const; }
}

/** No such lease stands. */
export class LeaseNotFoundError extends ProblemError {
  override get name() { return "LeaseNotFoundError" as const; }
}

/** The path has other methods. */
export class MethodNotAllowedError extends ProblemError {
  override get name() { return "MethodNotAllowedError" as const; }
}

/** The request took too long to arrive. Not done. */
export class RequestTimeoutError extends ProblemError {
  override get name() { return "RequestTimeoutError" as const; }
}

/** Another has the name. */
export class LockHeldError extends ProblemError {
  override get name() { return "LockHeldError" as const; }

  /** Who holds it; absent while the first in line is not yet granted. */
  get holder(): LockHolder | undefined {
    return this.problem.holder;
  }

  /** The claims that wait, the holder's not among them. */
  get queueLength(): number {
    return this.problem.queue_length ?? 0;
  }
}

/** The lock is still queued, and has no lease to renew. */
export class LockQueuedError extends ProblemError {
  override get name() { return "LockQueuedError" as const; }
}

/** The request is over 64 KiB. */
export class PayloadTooLargeError extends ProblemError {
  override get name() { return "PayloadTooLargeError" as const; }
}

/** The body is not JSON. */
export class UnsupportedMediaTypeError extends ProblemError {
  override get name() { return "UnsupportedMediaTypeError" as const; }
}

/** The key stands for a claim that asked for something else. */
export class IdempotencyKeyReusedError extends ProblemError {
  override get name() { return "IdempotencyKeyReusedError" as const; }
}

/** The queue of this name is full, or the principal waits for as many locks as it may. Not done. */
export class TooManyWaitersError extends ProblemError {
  override get name() { return "TooManyWaitersError" as const; }
}

/** The principal has as many claims as it may. Not done. */
export class TooManyClaimsError extends ProblemError {
  override get name() { return "TooManyClaimsError" as const; }
}

/** The principal has as many leases as it may. Not done. */
export class TooManyLeasesError extends ProblemError {
  override get name() { return "TooManyLeasesError" as const; }
}

/** As many streams are open as may be. Not done. */
export class TooManyStreamsError extends ProblemError {
  override get name() { return "TooManyStreamsError" as const; }
}

/** The principal or the address sends more requests than it may. Not done. */
export class TooManyRequestsError extends ProblemError {
  override get name() { return "TooManyRequestsError" as const; }
}

/** A fault of the service. It may or may not have been done. */
export class InternalError extends ProblemError {
  override get name() { return "InternalError" as const; }
}

/** The replica serves as many waiters as it may. Not done. */
export class OverloadedError extends ProblemError {
  override get name() { return "OverloadedError" as const; }
}

/** The store cannot be used now. Not done. */
export class UnavailableError extends ProblemError {
  override get name() { return "UnavailableError" as const; }
}

/** The store did not answer in time: it may or may not have been done. */
export class OutcomeUnknownError extends ProblemError {
  override get name() { return "OutcomeUnknownError" as const; }
}

/** The replica is going away. Not granted; a claim keeps its place. */
export class DrainingError extends ProblemError {
  override get name() { return "DrainingError" as const; }
}

/** The claim vanished while it was waited on: nothing of it stands. */
export class PlaceLostError extends ProblemError {
  override get name() { return "PlaceLostError" as const; }
}

/** An administrator took the lock away. Whatever was held may be another's by now. */
export class LockBrokenError extends ProblemError {
  override get name() { return "LockBrokenError" as const; }

  /** What the administrator gave as the reason. */
  get reason(): string | undefined {
    return this.problem.reason;
  }
}

/** It was held for as long as the service allows: it is renewed no more, and runs out one TTL after its last renewal. */
export class MaxHoldReachedError extends ProblemError {
  override get name() { return "MaxHoldReachedError" as const; }
}

/** The class of each code. */
export const problemClasses: Readonly<Record<string, typeof ProblemError>> = {
  invalid_request: InvalidRequestError,
  unauthorized: UnauthorizedError,
  forbidden: ForbiddenError,
  not_found: NotFoundError,
  lock_not_found: LockNotFoundError,
  lease_not_found: LeaseNotFoundError,
  method_not_allowed: MethodNotAllowedError,
  request_timeout: RequestTimeoutError,
  lock_held: LockHeldError,
  lock_queued: LockQueuedError,
  payload_too_large: PayloadTooLargeError,
  unsupported_media_type: UnsupportedMediaTypeError,
  idempotency_key_reused: IdempotencyKeyReusedError,
  too_many_waiters: TooManyWaitersError,
  too_many_claims: TooManyClaimsError,
  too_many_leases: TooManyLeasesError,
  too_many_streams: TooManyStreamsError,
  too_many_requests: TooManyRequestsError,
  internal: InternalError,
  overloaded: OverloadedError,
  unavailable: UnavailableError,
  outcome_unknown: OutcomeUnknownError,
  draining: DrainingError,
  place_lost: PlaceLostError,
  lock_broken: LockBrokenError,
  max_hold_reached: MaxHoldReachedError,
};

/** The error that a problem document is. */
export function problemError(status: number, problem: Problem, retryAfter?: number): ProblemError {
  const known = Object.hasOwn(problemClasses, problem.code) ? problemClasses[problem.code] : undefined;
  return new (known ?? ProblemError)(status, problem, retryAfter);
}
