import { LockReleasedError, type LockNotHeldError } from "./errors.js";
import type { Hold } from "./hold.js";

/** The hold of one lock on a lease of many. */
export class Part {
  readonly #what: string;
  readonly #whole: Hold;
  readonly #parted: () => void;
  readonly #controller = new AbortController();
  #end: LockNotHeldError | undefined;

  constructor(what: string, whole: Hold, parted: () => void) {
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
