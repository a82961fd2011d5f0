/** A service that a test plays, where only what the client sends, and does with an answer, matters. */
export interface Heard {
  readonly method: string;
  readonly url: string;
  readonly token: string | null;
}

export type Answer = (heard: Heard) => Response | Promise<Response>;

export const ID = "k7Qm2vXc9TtZ0aYdW3uN5h";

/** A lock that is held, with a TTL in seconds, or its lease. */
export function held(ttl = 30, more: object = {}): Response {
  const lock = { id: ID, name: "n", state: "held", fencing_token: 7, position: 0, lease_id: ID, ttl_seconds: ttl, renew_after_seconds: 1 };
  return Response.json({ ...lock, ...more });
}

/** A problem, which may have members more and headers. */
export function refusal(status: number, code: string, more: object = {}, headers: HeadersInit = {}): Response {
  const body = { type: "/", title: "t", status, detail: "the detail", code, ...more };
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/problem+json", ...headers } });
}

/** A `fetch` that asks nobody but `others`, by method; whoever asks else holds the lock. */
export function played(others: Readonly<Record<string, Answer>> = {}): [typeof fetch, Heard[]] {
  const heard: Heard[] = [];
  const ask: typeof fetch = async (url, init) => {
    const method = init?.method ?? "GET";
    const request = { method, url: String(url), token: new Headers(init?.headers).get("Authorization") };
    heard.push(request);
    const answer = others[method] ?? others["*"];
    return answer ? await answer(request) : method === "DELETE" ? new Response(null, { status: 204 }) : held();
  };
  return [ask, heard];
}
