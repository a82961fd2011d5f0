import { follow, link } from "./signals.js";

/** Above this a runtime's timers overflow and fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Calls `ring` after `ms`, or earlier where that is more than a timer can do: whoever is called looks at the clock. Does not
 * keep a Node process alive.
 */
export function alarm(ms: number, ring: () => void): () => void {
  const timer: unknown = setTimeout(ring, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
  (timer as { unref?: () => void }).unref?.();
  return () => clearTimeout(timer as number);
}

/** Waits, keeping a Node process alive. Rejects with the reason of `signal`. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      unfollow?.();
      resolve();
    }, Math.min(ms, LONGEST_TIMER_MS));
    const unfollow = signal && follow(signal, (reason) => {
      clearTimeout(timer);
      reject(reason);
    });
  });
}

/**
 * Gives `work` a signal that aborts after `ms` with a `TimeoutError`, or with `signal`. Not `AbortSignal.any` and
 * `AbortSignal.timeout`: what they hang on a signal that lives long stays there.
 */
export async function bounded<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (cut: AbortSignal) => Promise<T>,
): Promise<T> {
  const [controller, unlink] = link([signal]);
  const tooLong = () => controller.abort(new DOMException(`no answer within ${Math.ceil(ms)} ms`, "TimeoutError"));
  const timer = setTimeout(tooLong, Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    unlink();
  }
}
