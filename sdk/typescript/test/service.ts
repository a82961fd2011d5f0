import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { after } from "node:test";
import { createInterface } from "node:readline";

/** How long anything may take that is waited for, in milliseconds. */
export const BOUND_MS = 20_000;
/** A TTL in seconds, for what is soon lost, and yet kept on a slow machine. */
export const SHORT_TTL = 4;
/** The least that the service grants, for what nobody renews. */
export const LEAST_TTL = 2;

const LOGGED = 4_000;

function environment(name: string): string {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set: run these tests with "go test ./sdk/typescript"`);
  }
  return value;
}

/** A replica of the service: the real binary. */
export class Replica {
  url = "";
  #log = "";
  readonly #args: readonly string[];
  #process: ChildProcess | undefined;

  constructor(args: readonly string[]) {
    this.#args = args;
  }

  async start(listen = "127.0.0.1:0"): Promise<void> {
    const child = spawn(environment("LATCHKEY_TEST_BINARY"), ["serve", `--listen=${listen}`, ...this.#args], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    const listens = new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stderr! }).on("line", (line) => {
        this.#log = (this.#log + line + "\n").slice(-LOGGED);
        const url = / listens on (http:\/\/[^ ,"]+)/.exec(line)?.[1];
        if (url) {
          resolve(url);
        }
      });
      child.once("exit", (code) => reject(new Error(`the replica ended with ${code}:\n${this.#log}`)));
    });
    this.url = await within(BOUND_MS, "a replica that listens", listens);
  }

  /** Ends it as a power cut would, and waits until it is gone. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    if (child && child.exitCode === null && child.signalCode === null) {
      const gone = once(child, "exit");
      child.kill(signal);
      await within(BOUND_MS, "the end of a replica", gone);
    }
  }
}

/** Replicas that share a store of their own, until the file's tests are over. */
export async function replicas(count: number, ...args: string[]): Promise<Replica[]> {
  const store = [`--etcd-endpoints=http://${environment("LATCHKEY_TEST_ETCD")}`, `--etcd-prefix=/sdk-typescript/${randomUUID()}/`];
  const started = Array.from({ length: count }, () => new Replica([...store, ...args]));
  after(() => Promise.all(started.map((replica) => replica.kill())));
  await Promise.all(started.map((replica) => replica.start()));
  return started;
}

/** A name that no other test locks. */
export function aName(): string {
  return `test/${randomUUID()}`;
}

/** The value of `promise`, or an error that says what was waited for. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits until `holds` is true. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>, ms = BOUND_MS): Promise<void> {
  const end = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > end) {
      throw new Error(`not within ${ms} ms: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The reason with which `signal` fires. */
export function fired(signal: AbortSignal, ms = BOUND_MS): Promise<unknown> {
  const told = new Promise<unknown>((resolve) => {
    if (signal.aborted) {
      resolve(signal.reason);
    }
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
  return within(ms, "a signal that fires", told);
}
