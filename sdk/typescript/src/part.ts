import { LockReleasedError, type LockNotHeldError } from "./errors.js";
import type { Hold } from "./hold.js";
import { lossBy } from "./loss.js";

/** The hold of one lock on a lease of many. */
export class Part {
  /** The lock's. */
  readonly id: string;
  readonly name: string;
  readonly #what: string;
  readonly #whole: Hold;
  readonly #parted: () => void;
  readonly #controller = new AbortController();
  #end: LockNotHeldError | undefined;

  constructor(id: string, name: string, what: string, whole: Hold, parted: () => void) {
    this.id = id;
    this.name = name;
    this.#what = what;
    this.#whole = whole;
    this.#parted = parted;
  }

  get end(): LockNotHeldError | undefined {
    void this.#whole.end;
    return this.#end;
  }

  get signal(): AbortSignal {
    void this.end;
    return this.#controller.signal;
  }

  remaining(): number {
    return this.end ? 0 : this.#whole.remaining();
  }

  /** Ends it because the service said that it is gone, and returns how; undefined if it had ended. */
  lost(cause: Error): LockNotHeldError | undefined {
    if (this.end) {
      return undefined;
    }
    const loss = lossBy(cause, this.#what);
    this.lose(loss);
    return loss;
  }

  lose(why: LockNotHeldError): void {
    if (!this.#end) {
      this.#finish(why);
      this.#controller.abort(why);
    }
  }

  release(): void {
    if (!this.end) {
      this.#finish(new LockReleasedError(`${this.#what} was released`));
    }
  }

  #finish(why: LockNotHeldError): void {
    this.#end = why;
    this.#parted();
  }
}
