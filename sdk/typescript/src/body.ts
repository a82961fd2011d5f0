import { UnexpectedAnswerError } from "./errors.js";

/** The longest answer that is read, in bytes: more than a lease of ten thousand locks with all their metadata. */
const MOST_BYTES = 64 * 2 ** 20;

/** The text of an answer. Throws {@link UnexpectedAnswerError} for one that does not end within what the service sends. */
export async function textOf(answer: Response): Promise<string> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (let chunk = await reader?.read(); chunk && !chunk.done; chunk = await reader?.read()) {
    bytes += chunk.value.byteLength;
    if (bytes > MOST_BYTES) {
      void reader?.cancel().catch(() => {}); // it may wait for a line that is cut
      throw new UnexpectedAnswerError(answer.status, `it is longer than ${MOST_BYTES} bytes`);
    }
    text += decoder.decode(chunk.value, { stream: true });
  }
  return text + decoder.decode();
}
