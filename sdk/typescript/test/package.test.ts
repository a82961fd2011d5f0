import assert from "node:assert/strict";
import { execFile, type ExecFileException } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { replicas } from "./service.js";

const home = fileURLToPath(new URL("..", import.meta.url));
const [replica] = await replicas(1);
const project = await mkdtemp(join(tmpdir(), "latchkey-consumer-"));
after(() => rm(project, { recursive: true, force: true }));

/** Runs a program in a folder and returns what it printed; what it printed before it failed is in the error. */
async function run(cwd: string, program: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, LATCHKEY_SERVER: replica!.url };
  try {
    return (await promisify(execFile)(program, args, { cwd, env, timeout: 60_000 })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as ExecFileException & { stdout: string; stderr: string };
    throw new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`, { cause: error });
  }
}

/** A project that has installed the package as users do, without types of Node.js. */
async function install(): Promise<readonly string[]> {
  const packed = JSON.parse(await run(home, "npm", "pack", "--ignore-scripts", "--json", "--pack-destination", project)) as [
    { filename: string; files: { path: string }[] },
  ];
  await writeFile(join(project, "package.json"), JSON.stringify({ type: "module" }));
  await run(project, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", `./${packed[0].filename}`);
  return packed[0].files.map(({ path }) => path);
}

const files = await install();
const readme = await readFile(join(home, "README.md"), "utf8");

test("the package holds what is built and nothing else", async () => {
  assert.deepEqual(
    files.filter((path) => !/^dist\/[\w.]+\.(js|d\.ts)$/.test(path)).sort(),
    ["LICENSE", "README.md", "package.json"],
  );
  const manifest = JSON.parse(await readFile(join(home, "package.json"), "utf8")) as { dependencies?: object };
  assert.equal(manifest.dependencies, undefined);
  assert.match(await run(project, "node", "--eval", 'import("@latchkey/client").then((all) => console.log(typeof all.Client))'), /function/);
});

test("the lock file names no place that packages come from", async () => {
  assert.doesNotMatch(await readFile(join(home, "package-lock.json"), "utf8"), /"resolved"|https?:\/\/(?!github\.com|opencollective\.com)/);
});

test("the README's examples compile strictly and run", async () => {
  const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code!);
  assert.ok(blocks.length >= 5, `${blocks.length} examples`);
  const source = join(project, "source");
  await mkdir(source);
  await Promise.all(blocks.map((code, i) => writeFile(join(source, `${i}.ts`), code.replaceAll("http://127.0.0.1:8080", replica!.url))));
  const compilerOptions = {
    strict: true,
    target: "ES2022",
    module: "NodeNext",
    lib: ["ES2022", "DOM"],
    types: [],
    rootDir: "source",
    outDir: "built",
  };
  await writeFile(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["source"] }));
  await run(project, process.execPath, join(home, "node_modules/typescript/bin/tsc"));

  const printed: string[] = [];
  for (const i of blocks.keys()) {
    printed.push(await run(project, process.execPath, `built/${i}.js`));
  }
  assert.match(printed.join(""), /^held, token \d+\nstill held: 200\nqueued\nbusy: web-3 0\n(shard\/\d \d+\n){3}token \d+ of lock "orders\/42" is stale: \d+ was accepted\n$/);
});
