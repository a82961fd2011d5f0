import { NoTokenError } from "./errors.js";
import { unless } from "./signals.js";

/** An API token or a JWT, or a function that has it. */
export type Token = string | (() => string | Promise<string>);

/** The token that requests carry, and where a fresh one is had. */
export class Credentials {
  readonly #source: (() => string | Promise<string>) | undefined;
  #token: string | undefined;
  #asking: Promise<string> | undefined;

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
    this.#asking ??= this.#ask(this.#source).finally(() => (this.#asking = undefined));
    return unless(signal, this.#asking);
  }

  async #ask(source: () => string | Promise<string>): Promise<string> {
    try {
      this.#token = sound(await source());
    } catch (error) {
      throw new NoTokenError(error);
    }
    return this.#token;
  }
}

function sound(token: string): string {
  if (typeof token !== "string" || !/^[!-~]+$/.test(token)) {
    throw new TypeError("a token is a text of printable ASCII without spaces"); // it may be secret: not shown
  }
  return token;
}
