import { NoTokenError } from "./errors.js";
import { unless } from "./signals.js";
import { bounded } from "./timers.js";

/** How long the function may take that has the token, in milliseconds; then it is asked again. */
const LONGEST_ASKING_MS = 5_000;

/** An API token or a JWT, or a function that has it. */
export type Token = string | (() => string | Promise<string>);

/** The token that requests carry, and where a fresh one is had. */
export class Credentials {
  readonly #source: (() => string | Promise<string>) | undefined;
  #token: string | undefined;
  #asking: Promise<string> | undefined;
  #asked = 0;
  #had = 0;

  constructor(token: Token | undefined) {
    this.#source = typeof token === "function" ? token : undefined;
    if (typeof token === "string") {
      const fixed = sound(token);
      this.#source = () => fixed;
    }
  }

  /** A token that is not `refused`, or that one if there is no other; undefined if requests carry none. */
  async get(refused: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    if (!this.#source) {
      return undefined;
    }
    if (this.#token !== undefined && this.#token !== refused) {
      return this.#token;
    }
    const asking = (this.#asking ??= this.#ask(this.#source));
    try {
      return await unless(signal, asking);
    } finally {
      if (this.#asking === asking) {
        this.#asking = undefined; // had, failed, or not to be waited for: whoever comes next asks again
      }
    }
  }

  async #ask(source: () => string | Promise<string>): Promise<string> {
    try {
      return await bounded(LONGEST_ASKING_MS, undefined, (tooLong) => unless(tooLong, this.#take(source)));
    } catch (error) {
      throw new NoTokenError(error);
    }
  }

  /** Keeps what it gives, unless a later asking was answered before. */
  async #take(source: () => string | Promise<string>): Promise<string> {
    const turn = ++this.#asked;
    const token = sound(await source());
    if (turn > this.#had) {
      this.#had = turn;
      this.#token = token;
    }
    return token;
  }
}

function sound(token: string): string {
  if (typeof token !== "string" || !/^[!-~]+$/.test(token)) {
    throw new TypeError("a token is a text of printable ASCII without spaces and line ends"); // it may be secret: not shown
  }
  return token;
}
