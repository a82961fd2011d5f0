import { UnexpectedAnswerError } from "./errors.js";
import type { components } from "./openapi.gen.js";

type Schemas = components["schemas"];

/** A claim on a name as its owner sees it: the body of an answer. */
export type LockBody = Schemas["Lock"];
/** The claim to make, as `POST /locks` takes it. */
export type LockRequest = Schemas["LockRequest"];
/** A claim as others see it: its ids are only for its owner and for administrators. */
export type ListedLock = Schemas["ListedLock"];
/** A page of claims. */
export type LockList = Schemas["LockList"];
/** Who holds a lock. */
export type LockHolder = Schemas["LockHolder"];
/** Whether a claim is queued or held. */
export type LockState = Schemas["LockState"];
/** A lease, or that of a lock which has its own: the body of an answer. */
export type LeaseBody = Schemas["Lease"];
/** A lease with the TTL left and the locks held on it. */
export type LeaseStatus = Schemas["LeaseStatus"];
/** The lease to make, as `POST /leases` takes it. */
export type LeaseRequest = Schemas["LeaseRequest"];
/** A failure as RFC 9457 writes it. */
export type Problem = Schemas["Problem"];
/** One place of a request that is at fault. */
export type InputFault = Schemas["InputFault"];

/** A lock that is held has a token. */
export type HeldLock = LockBody & { readonly state: "held"; readonly fencing_token: number };

/** Says whether a lock is held, for the compiler too. */
export function isHeld(lock: LockBody): lock is HeldLock {
  return lock.state === "held" && lock.fencing_token !== undefined;
}

/** What a problem document must have for us to know it as the service's. */
export function isProblem(body: unknown): body is Problem {
  return isObject(body) && typeof body["code"] === "string" && typeof body["status"] === "number";
}

type Check = (value: unknown) => boolean;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const text: Check = (value) => typeof value === "string";
const whole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const positive: Check = (value) => Number.isSafeInteger(value) && (value as number) > 0;
const absentOr = (check: Check): Check => (value) => value === undefined || check(value);

const lock: { [field in keyof LockBody]?: Check } = {
  id: text,
  name: text,
  state: (value) => value === "held" || value === "queued",
  fencing_token: absentOr(positive),
  position: whole,
  lease_id: text,
  ttl_seconds: positive,
};
const lease: { [field in keyof LeaseBody]?: Check } = { id: text, ttl_seconds: positive, fencing_token: absentOr(positive) };
const listed: { [field in keyof ListedLock]?: Check } = { ...lock, id: absentOr(text), lease_id: absentOr(text) };
const list: { [field in keyof LockList]?: Check } = { locks: listOf(listed), next_cursor: absentOr(text) };
const status: { [field in keyof LeaseStatus]?: Check } = { ...lease, ttl_left_seconds: whole, locks: listOf(lock) };

const hasToken: Check = (body) => isObject(body) && (body["state"] === "queued" || positive(body["fencing_token"]));

/** Read an answer's body, or throw {@link UnexpectedAnswerError}: a page of a network says 200 too. */
export const readLock = reader<LockBody>("a lock", (body) => fits(body, lock) && hasToken(body));
export const readLockList = reader<LockList>("a list of locks", (body) => fits(body, list));
export const readLease = reader<LeaseBody>("a lease", (body) => fits(body, lease));
export const readLeaseStatus = reader<LeaseStatus>("a lease", (body) => fits(body, status));
export const readNothing = (status: number): void => {
  if (status !== 204) {
    throw new UnexpectedAnswerError(status, "204 was expected");
  }
};

function reader<T>(what: string, check: (body: Record<string, unknown>) => boolean): (status: number, body: unknown) => T {
  return (status, body) => {
    if (!isObject(body) || !check(body)) {
      throw new UnexpectedAnswerError(status, `${what} was expected`);
    }
    return body as unknown as T;
  };
}

function fits(body: Record<string, unknown>, fields: Readonly<Record<string, Check>>): boolean {
  return Object.entries(fields).every(([field, check]) => check(body[field]));
}

function listOf(fields: Readonly<Record<string, Check>>): Check {
  return (value) => Array.isArray(value) && value.every((item) => isObject(item) && fits(item, fields));
}
