import { passes } from "./attempt.js";
import { lockPath } from "./calls.js";
import { ProblemError, problemError } from "./problems.js";
import { KEEPING_PAUSE_MS, type Servers } from "./servers.js";
import { sleep } from "./timers.js";
import { isProblem, readLock, type LockBody } from "./wire.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** Follows a claim until it is held, over as many streams as it takes. */
export async function* eventsOf(servers: Servers, id: string, signal: AbortSignal | undefined): AsyncGenerator<LockBody> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    signal?.throwIfAborted();
    let lost: ProblemError | undefined;
    let asked = 0;
    try {
      for await (const { type, data } of servers.listen(`${lockPath(id)}/events`, signal)) {
        pause = FIRST_PAUSE_MS;
        if (type === "held" || type === "queued") {
          yield readLock(200, data);
        }
        if (type === "held") {
          return;
        }
        if (type === "lost" && isProblem(data)) {
          lost = problemError(data.status, data);
          break;
        }
      }
    } catch (error) {
      if (!passes(error)) {
        throw error;
      }
      asked = error instanceof ProblemError ? (error.retryAfter ?? 0) * 1000 : 0;
    }
    if (lost) {
      throw lost;
    }
    await sleep(Math.min(Math.max(Math.random() * pause, asked), KEEPING_PAUSE_MS), signal);
  }
}
