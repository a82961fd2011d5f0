import { failure, send, type Way } from "./attempt.js";
import { UnexpectedAnswerError } from "./errors.js";
import { link } from "./signals.js";
import { alarm } from "./timers.js";

/** How long a stream may take to begin, in milliseconds. */
const OPENING_MS = 5_000;
/** The service sends a comment after every 10 silent seconds: a line that is silent for longer than this is dead. */
const SILENCE_MS = 14_000;
/** The longest event, in characters: the service sends a claim, with its metadata. */
const LONGEST_EVENT = 2 ** 20;

/** An event that the service sent. */
export interface StreamEvent {
  readonly type: string;
  readonly data: unknown;
}

/** Opens one stream of server-sent events and reads it to its end. Throws as a request does. */
export async function* listen(way: Way, path: string, signal: AbortSignal | undefined): AsyncGenerator<StreamEvent> {
  const [line, unlink] = link([signal]);
  const tooQuiet = () => line.abort(new DOMException("nothing was heard in time", "TimeoutError"));
  let stopAlarm = alarm(OPENING_MS, tooQuiet);
  try {
    const answer = await send(way, { method: "GET", path, headers: { Accept: "text/event-stream" } }, line.signal);
    for await (const text of texts(answer)) {
      stopAlarm();
      stopAlarm = alarm(SILENCE_MS, tooQuiet);
      yield* eventsIn(text);
    }
  } catch (error) {
    throw failure(error, way, signal);
  } finally {
    stopAlarm();
    unlink();
    line.abort();
  }
}

/** What arrived, cut after whole events. Not by iterating the body: not every browser can. */
async function* texts(answer: Response): AsyncGenerator<string> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (let chunk = await reader?.read(); chunk && !chunk.done; chunk = await reader?.read()) {
    rest += decoder.decode(chunk.value, { stream: true });
    const end = rest.lastIndexOf("\n\n") + 1;
    yield rest.slice(0, end);
    rest = rest.slice(end);
    if (rest.length > LONGEST_EVENT) {
      throw new UnexpectedAnswerError(answer.status, `an event is longer than ${LONGEST_EVENT} characters`);
    }
  }
}

function* eventsIn(text: string): Generator<StreamEvent> {
  for (const block of text.split("\n\n")) {
    const type = /^event: (.*)$/m.exec(block)?.[1];
    const data = /^data: (.*)$/m.exec(block)?.[1];
    if (type !== undefined && data !== undefined) {
      yield { type, data: JSON.parse(data) as unknown };
    }
  }
}
