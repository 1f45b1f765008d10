// Takes locks by the client. Prints `held` and waits until that lock is lost.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [url, client] = process.argv.slice(2);
const { LockBusy, LockLost, LockRefused, withLock } = await import(pathToFileURL(client));
const wrong = () => assert.fail("it was not to be held");

let token;
await withLock(url, "a/ü ?", async (lock) => {
  token = lock.token;
  const first = lock.held;
  await assert.rejects(withLock(url, "a/ü ?", wrong, { wait: 0 }), LockBusy);
  await assert.rejects(withLock(url, "a/ü ?", wrong, { wait: 100, shared: true }), LockBusy);
  while (lock.held === first) await new Promise((then) => setTimeout(then, 10)); // it is renewed
  lock.check();
}, { ttl: 9_000, note: "a note" });
await withLock(url, "a/ü ?", (lock) => assert(lock.token > token, "the token grows"));
await withLock(url, "r", async (one) => {
  assert.equal(one.token, null);
  await withLock(url, "r", (two) => assert(two.remaining() > 0), { shared: true });
}, { shared: true });
await withLock(url, "s", async () => {
  const permits = { take: 2, of: 3 };
  await assert.rejects(withLock(url, "s", wrong, { permits, wait: 0 }), LockBusy);
}, { permits: { take: 2, of: 3 } });
await assert.rejects(withLock(url, "a", wrong, { ttl: 500 }), LockRefused);
await assert.rejects(withLock(url, "..", wrong), TypeError);
await assert.rejects(withLock("127.0.0.1:7400", "a", wrong), TypeError);
await assert.rejects(withLock("http://127.0.0.1:9", "a", wrong, { wait: 0 }), LockRefused);
const pages = createServer((request, answer) => {
  answer.writeHead(Number(request.url.slice(1, 4)), { Location: "/200" }).end("<p/>");
}).listen(0, "127.0.0.1");
await once(pages, "listening");
for (const status of [200, 301, 401, 404, 409]) {
  const page = `http://127.0.0.1:${pages.address().port}/${status}`;
  await assert.rejects(withLock(page, "a", wrong), new RegExp(`answers ${status}:`));
}
pages.close();
const frozen = createServer((request, answer) => {
  // it answers no renewal
  const held = { token: 1, number: 1, expires_in_ms: 1_000 };
  if (request.method !== "PUT") answer.end(JSON.stringify(held));
}).listen(0, "127.0.0.1");
await once(frozen, "listening");
const silent = withLock(`http://127.0.0.1:${frozen.address().port}`, "k", async (lock) => {
  await once(lock.signal, "abort", { signal: AbortSignal.timeout(60_000) });
}, { ttl: 3_600_000 });
await assert.rejects(silent, LockLost);
frozen.close();
let refusals = 0;
const full = createServer((request, answer) => {
  // its store refuses each renewal
  const held = { token: 1, number: 1, expires_in_ms: 60_000 };
  if (request.method !== "PUT") return answer.end(JSON.stringify(held));
  refusals += 1;
  answer.writeHead(409).end(JSON.stringify({ error: "the disk is full", cure: "make room" }));
}).listen(0, "127.0.0.1");
await once(full, "listening");
await withLock(`http://127.0.0.1:${full.address().port}`, "k", async (lock) => {
  while (refusals < 2) await new Promise((then) => setTimeout(then, 10)); // it is renewed again
  lock.check();
}, { ttl: 300 });
full.close();
const lost = withLock(url, "k", async (lock) => {
  console.log("held");
  await once(lock.signal, "abort");
}, { ttl: 6_000 });
await assert.rejects(lost, LockLost);
console.log(await lost.catch((error) => error.message));
