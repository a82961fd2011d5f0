export { Client } from "./client.js";
export { Lock } from "./lock.js";
export { Lease } from "./lease.js";
export { FenceGuard, SqlFenceGuard, type Query, type Row } from "./fence.js";
export type { CallOptions, ClientOptions, LeaseOptions, LockOptions } from "./options.js";
export type { ClientEvent, EventHook } from "./events.js";
export type { LockFilter } from "./calls.js";
export type { Token } from "./credentials.js";
export type {
  InputFault,
  LeaseBody,
  LeaseRequest,
  LeaseStatus,
  ListedLock,
  LockBody,
  LockHolder,
  LockList,
  LockRequest,
  LockState,
  Problem,
} from "./wire.js";
export {
  LatchkeyError,
  LockLostError,
  LockNotHeldError,
  LockReleasedError,
  LockUncertainError,
  NoTokenError,
  NotAcquiredError,
  StaleTokenError,
  UnexpectedAnswerError,
  UnreachableError,
} from "./errors.js";
export {
  DrainingError,
  ForbiddenError,
  IdempotencyKeyReusedError,
  InternalError,
  InvalidRequestError,
  LeaseNotFoundError,
  LockBrokenError,
  LockHeldError,
  LockNotFoundError,
  LockQueuedError,
  MaxHoldReachedError,
  MethodNotAllowedError,
  NotFoundError,
  OutcomeUnknownError,
  OverloadedError,
  PayloadTooLargeError,
  PlaceLostError,
  ProblemError,
  RequestTimeoutError,
  TooManyClaimsError,
  TooManyLeasesError,
  TooManyRequestsError,
  TooManyStreamsError,
  TooManyWaitersError,
  UnauthorizedError,
  UnavailableError,
  UnsupportedMediaTypeError,
} from "./problems.js";
