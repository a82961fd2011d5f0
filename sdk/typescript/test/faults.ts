/** What a faulty line does with one request of the service: `pass` sends it and has the answer. */
export type Fault = (pass: () => Promise<Response>, signal: AbortSignal) => Promise<Response>;

/** Does it, and the answer is lost as the line is cut. */
export const cutAfter: Fault = async (pass) => {
  await (await pass()).arrayBuffer();
  throw new TypeError("fetch failed", { cause: new Error("the line was cut") });
};

/** Sends nothing, and nobody answers. */
export const silent: Fault = (_, signal) =>
  new Promise((_, reject) => {
    signal.throwIfAborted();
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });

/** Sends nothing, and answers this. */
export function answered(answer: () => Response): Fault {
  return () => Promise.resolve(answer());
}

/** A `fetch` whose requests meet the fault that `of` names for them, if any. */
export function faulty(of: (method: string, url: URL, headers: Headers) => Fault | undefined): typeof fetch {
  return (url, init) => {
    const pass = () => fetch(url, init);
    const fault = of(init?.method ?? "GET", new URL(String(url)), new Headers(init?.headers));
    return fault ? fault(pass, init!.signal!) : pass();
  };
}
