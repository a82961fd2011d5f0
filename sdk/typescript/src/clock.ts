/** How far the wall clock may drift from the monotonic one before the difference is taken for a sleep, in milliseconds. */
const DRIFT_MS = 150;

/** Two sources of time in milliseconds: one that never goes back, and the wall clock. */
export interface TimeSource {
  monotonic(): number;
  wall(): number;
}

const platform: TimeSource = { monotonic: () => performance.now(), wall: () => Date.now() };

/**
 * Milliseconds that only go forward, and go on while the machine sleeps. `performance.now()` stands still in sleep on some
 * platforms, so the wall clock is watched beside it: where that gains on it, time has passed. A wall clock that is set
 * forward thus makes a lock look lost early; one that is set back changes nothing.
 */
export class Clock {
  readonly #source: TimeSource;
  #ahead: number;
  #slept = 0;

  constructor(source: TimeSource = platform) {
    this.#source = source;
    this.#ahead = source.wall() - source.monotonic();
  }

  now(): number {
    const monotonic = this.#source.monotonic();
    const ahead = this.#source.wall() - monotonic;
    if (ahead > this.#ahead + DRIFT_MS) {
      this.#slept += ahead - this.#ahead;
      this.#ahead = ahead;
    } else if (ahead < this.#ahead) {
      this.#ahead = ahead;
    }
    return monotonic + this.#slept;
  }
}
