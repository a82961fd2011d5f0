import type { LockNotHeldError } from "./errors.js";

/** What a client tells its `onEvent`: for logs and counters. Nothing of it holds an id, a key or a header. */
export type ClientEvent =
  /** A request failed at `server` (a base URL) and is tried again. */
  | { readonly type: "retry"; readonly server: string; readonly error: Error }
  /** The claim on `name` waits with `position` claims ahead: told when that changes. */
  | { readonly type: "queued"; readonly name: string; readonly position: number }
  /** The place in the queue is gone, and a new one taken at its end. */
  | { readonly type: "place_lost"; readonly name: string; readonly error: Error }
  /** A claim that was given up could not be taken back, and is left to lapse. */
  | { readonly type: "left_behind"; readonly name: string; readonly error: unknown }
  /** A renewal failed and is tried again. `name` is absent for a lease of many locks. */
  | { readonly type: "renewal_failed"; readonly name?: string; readonly error: Error }
  /** It is lost: what the `signal` fired with. `name` is absent for a lease of many locks. */
  | { readonly type: "lost"; readonly name?: string; readonly error: LockNotHeldError }
  /** A release failed: the lock or lease runs out by itself, within its TTL. */
  | { readonly type: "release_failed"; readonly name?: string; readonly error: unknown };

/** Is told what happens. What it throws is an uncaught error, as in any event listener; it harms no lock. */
export type EventHook = (event: ClientEvent) => void;

/** Makes of a hook one that never throws into what it is told of. */
export function guarded(hook: EventHook | undefined): EventHook {
  return (event) => {
    try {
      hook?.(event);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
