import { LockLostError } from "./errors.js";
import { LockBrokenError } from "./problems.js";

/** The loss that an answer of the service tells. */
export function lossBy(cause: Error, what: string): LockLostError {
  const reason = cause instanceof LockBrokenError && cause.reason ? `: ${cause.reason}` : "";
  const text = cause instanceof LockBrokenError ? `was broken by an administrator${reason}` : `is lost: ${cause.message}`;
  return new LockLostError(`${what} ${text}`, { cause });
}
