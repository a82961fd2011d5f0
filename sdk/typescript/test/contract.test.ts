import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import * as exported from "@latchkey/client";
import { problemClasses, problemError } from "../dist/problems.js";

const home = new URL("..", import.meta.url);
const contract = await readFile(new URL("../../openapi.yaml", home), "utf8");

/** The codes of the contract's table, and those it reserves, with their statuses. */
function codes(): Map<string, number> {
  const table = [...contract.matchAll(/^ +\| `(\w+)` \| (\d{3}) \|/gm)];
  const reserved = /^ +Reserved: (.+)$/m.exec(contract)?.[1] ?? "";
  return new Map([...table, ...reserved.matchAll(/`(\w+)` \((\d{3})\)/g)].map(([, code, status]) => [code!, Number(status)]));
}

test("each code of the contract has a class, and no other has", () => {
  const known = codes();
  assert.ok(known.size >= 20, `only ${known.size} codes were found in the contract`);
  assert.deepEqual(Object.keys(problemClasses).sort(), [...known.keys()].sort());
  for (const [code, status] of known) {
    const error = problemError(status, { type: "/", title: "t", status, detail: "d", code }, 7);
    const name = `${code.replace(/(^|_)(\w)/g, (_, __, letter: string) => letter.toUpperCase())}Error`;
    assert.equal(error.constructor, (exported as Record<string, unknown>)[name], `${name} is not exported`);
    assert.deepEqual([error.name, error.code, error.status, error.title, error.detail, error.retryAfter], [name, code, status, "t", "d", 7]);
  }
});

test("a code that is not known is the base of them", () => {
  for (const code of ["of_tomorrow", "constructor"]) {
    const error = problemError(409, { type: "/", title: "", status: 409, detail: "", code });
    assert.equal(error.constructor, exported.ProblemError);
    assert.deepEqual([error.name, error.message, error.code], ["ProblemError", code, code]);
  }
});

test("the wire types are those of the contract", async () => {
  await promisify(execFile)("npm", ["run", "--silent", "generate", "--", "--check"], { cwd: home });
});
