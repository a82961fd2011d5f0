/** Holds a lock and says over and over whether it does, and when it asked, for a test that stops it: holder.js URL NAME TTL. */
import { Client } from "@latchkey/client";

const [url, name, ttl] = process.argv.slice(2) as [string, string, string];
const lock = await new Client(url).lock(name, { ttl: Number(ttl) });
const saying = setInterval(() => {
  const asked = Date.now();
  console.log(`${lock.held ? "held" : "lost"} ${asked}`);
}, 5);
lock.signal.addEventListener("abort", () => {
  clearInterval(saying);
  console.log(`signal ${(lock.signal.reason as Error).name}`);
});
