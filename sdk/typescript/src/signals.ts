type Stop = (reason: unknown) => void;

const followers = new WeakMap<AbortSignal, Set<Stop>>();

/**
 * Calls `stop` once, when `signal` aborts or because it has, unless the function it returns is called before. However many
 * follow a signal it gets one listener: runtimes warn of a leak at eleven.
 */
export function follow(signal: AbortSignal, stop: Stop): () => void {
  if (signal.aborted) {
    stop(signal.reason);
    return () => {};
  }
  const all = followers.get(signal) ?? new Set<Stop>();
  if (all.size === 0) {
    followers.set(signal, all);
    signal.addEventListener("abort", release);
  }
  all.add(stop);
  return () => {
    if (all.delete(stop) && all.size === 0) {
      signal.removeEventListener("abort", release);
    }
  };
}

function release(this: AbortSignal): void {
  const all = followers.get(this);
  followers.delete(this);
  for (const stop of all ?? []) {
    stop(this.reason);
  }
}

/** A signal that aborts with the first of `signals`, and a function that parts them again. */
export function link(signals: readonly (AbortSignal | undefined)[]): [AbortController, unlink: () => void] {
  const controller = new AbortController();
  const unlinks = signals.map((signal) => signal && follow(signal, (reason) => controller.abort(reason)));
  return [controller, () => unlinks.forEach((unlink) => unlink?.())];
}

/** What comes of `promise`, unless `signal` aborts first: then this rejects with its reason. */
export function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const unfollow = follow(signal, reject);
    promise.then(resolve, reject).finally(unfollow);
  });
}
