// Locks of `tenure serve --role lock`, for Node 20 or newer. One file, no dependencies.
//     await withLock("http://127.0.0.1:7400", "invoices/42", async (lock) => {
//       await ledger.write(entry, lock.token);     // the token is a fencing token
//       lock.check();                              // throws LockLost if the lock is lost
//     });
//
// A timer renews the lock until `release()`, and keeps Node running. A loss aborts `lock.signal`.
// `check()` reads the clock: a program that was stopped for longer than `ttl` has lost the lock. A
// server that has never answered is tried for about 10 s.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
export class LockLost extends Error {}
export class LockBusy extends Error {}
export class LockRefused extends Error {}
// performance.now() stands still while the machine sleeps, and Date.now() may be set.
const now = () => [performance.now(), Date.now()];
const since = (start) => Math.max(...now().map((time, at) => time - start[at]));
/** Runs `work` under a lock. Options: ttl and wait in ms, shared, permits, note, token. */
export async function withLock(url, key, work, options = {}) {
  const lock = await Lock.take(url, key, options);
  try {
    const result = await work(lock);
    lock.check();
    return result;
  } finally {
    await lock.release();
  }
}
export class Lock {
  #lost = new AbortController(); #cause = null; #ended = false;

  static async take(url, key, options = {}) {
    const lock = new Lock(url, key, options);
    await lock.#acquire(options.wait ?? Infinity).catch(async (error) => {
      await lock.#send("DELETE"); // the ticket may wait; without an answer it expires
      throw error;
    });
    return lock;
  }

  constructor(url, key, { ttl = 30_000, shared = false, permits, note = "", token } = {}) {
    if (!/^https?:\/\/[^/]/.test(url)) throw new TypeError(`no http(s)://HOST: ${url}`);
    if (/^\.{0,2}$/.test(key)) throw new TypeError("a URL cannot have an empty key, . or ..");
    this.url = `${url.replace(/\/$/, "")}/v1/locks/${encodeURIComponent(key)}`;
    this.headers = { "Content-Type": "application/json", "Tenure-Request": "1" };
    if (token) this.headers.Authorization = `Bearer ${token}`;
    const mode = shared ? "shared" : permits ? undefined : "exclusive";
    const owner = `${hostname()} pid ${process.pid}`;
    this.body = { id: randomUUID(), ttl_ms: ttl, owner, note, mode, permits };
    Object.assign(this, { ttl, signal: this.#lost.signal });
  }

  async #acquire(wait) {
    for (let began = now(), silent = null; ; ) {
      const wait_ms = Math.floor(Math.max(0, Math.min(20_000, wait - since(began))));
      const { held, status, answer } = await this.#send("POST", { wait_ms }, wait_ms + 10_000);
      silent = status ? [Infinity, Infinity] : (silent ?? now());
      if (held) {
        Object.assign(this, { token: answer.token, number: answer.number, held });
        if (this.remaining() > 0) return this.#renew(this.ttl / 3);
      } else if (!answer.cause && status !== 202 && status !== 423) {
        if (wait_ms === 0 || since(silent) > 10_000 || ![0, 429, 502, 503, 504].includes(status))
          throw new LockRefused(`${answer.error}: ${answer.cure ?? "check the address"}`);
      } else if (wait_ms === 0) throw new LockBusy(answer.error ?? "the lock is busy");
      if (answer.cause) {
        await this.#send("DELETE"); // the ticket was removed: take another
        this.body.id = randomUUID();
      }
      if (status !== 202) await sleep(200);
    }
  }

  /** The time in ms for which the lock is held without another renewal. */
  remaining() {
    return this.#cause ? 0 : Math.max(0, this.held.time - since(this.held.sent));
  }

  /** Throws LockLost if the lock is not held any more. */
  check() {
    if (this.remaining()) return;
    this.#cause ??= "the lock is lost: it was not renewed in time";
    if (!this.#ended) this.#lost.abort(new LockLost(this.#cause));
    throw new LockLost(this.#cause);
  }

  async release() {
    this.#ended = true; clearTimeout(this.timer);
    await this.#send("DELETE"); // without an answer the lock expires
  }

  #renew(pause) {
    this.timer = setTimeout(async () => {
      const patience = Math.min(this.ttl / 3, this.remaining());
      const { held, answer } = await this.#send("PUT", { number: this.number }, patience);
      if (held && this.remaining()) this.held = held;
      else if (answer.cause) this.#cause ??= answer.error; // else the store refuses, and keeps it
      if (this.#ended) return;
      try { this.check(); } catch { return; } // the signal has said it
      this.#renew(this.ttl / (held ? 3 : 10));
    }, Math.min(pause, this.remaining()));
  }

  async #send(method, more = {}, patience = 2_000) {
    const [sent, body] = [now(), JSON.stringify({ ...this.body, ...more })];
    const signal = AbortSignal.timeout(Math.max(10, Math.ceil(patience)));
    const options = { method, headers: this.headers, body, signal, redirect: "manual" };
    let [status, answer] = [0, {}];
    try {
      const response = await fetch(this.url, options);
      status = response.status;
      answer = { ...await response.json() };
    } catch (error) {
      answer = { error: `${this.url} answers ${status || "nothing"}: ${error.cause ?? error}` };
    }
    const time = answer.expires_in_ms;
    return { status, answer, held: time >= 0 ? { sent, time } : null };
  }
}
