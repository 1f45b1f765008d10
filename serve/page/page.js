// Keeps the page up to date: keys and lines by the API, events by a stream. It pauses while the
// tab is hidden.
"use strict";

const EVENTS_SHOWN = 100;
const REFRESH_MS = 1000; // minimum interval between two reads of the keys
const HEALTH_MS = 10000;
const ROUNDS_MS = 30000; // reads the keys even without an event
const STALE_LOW = 3; // life left below a third of the ttl is low

const role = document.body.dataset.role;
const mayBreak = role === "ask" || role === "force";
const state = {
  prefix: document.body.dataset.prefix,
  afters: [document.body.dataset.after],
  key: document.body.dataset.key,
  current: document.body.dataset.key,
  page: null,
  line: null,
  lineError: "",
  readAt: 0, // of the last try
  keysAt: 0,
  lineAt: 0,
};
let stream = null;
let hiddenAt = 0; // 0: the tab has not been hidden
let refreshing = false;
let wanted = false;
let refreshTimer = 0;
let detail = null;
const timers = [];
// It moves into the table, and is not found in the page while its row is replaced.
const lineSection = document.getElementById("line");

const find = (id) => document.getElementById(id);

function node(name, content, className) {
  const made = document.createElement(name);
  if (className) made.className = className;
  for (const part of [content ?? []].flat()) made.append(part);
  return made;
}

// Characters that could hide or reverse a part of a text, or end a line, are replaced.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const shown = (text) => text.replace(HIDDEN, "\ufffd");

function brief(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (large, name, small, rest) => {
    const more = Math.floor((seconds % large) / small);
    return Math.floor(seconds / large) + name + (more ? more + rest : "");
  };
  if (seconds < 1) return Math.max(0, Math.round(ms)) + "ms";
  if (seconds < 60) return seconds + "s";
  if (seconds < 3600) return two(60, "m", 1, "s");
  if (seconds < 86400) return two(3600, "h", 60, "m");
  return two(86400, "d", 3600, "h");
}

function notice(text) {
  find("notice").textContent = text;
}

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  const body = await answer.json();
  if (!answer.ok && body.error) throw new Error(body.error);
  return body;
}

// The address of a key in the API. A browser removes the segments `.` and `..` from a path.
function pathOf(key, rest = "") {
  const encoded = encodeURIComponent(key);
  return /^\.\.?$/.test(key) ? `v1/lines/-${rest}?key=${encoded}` : `v1/lines/${encoded}${rest}`;
}

const passed = (at) => performance.now() - at;
const passedOf = (cell) => passed(lineSection.contains(cell) ? state.lineAt : state.keysAt);

function since(ticket) {
  const cell = node("td", "", "number since");
  cell.dataset.ms = ticket.since_ms ?? "";
  return cell;
}

function life(ticket) {
  const cell = node("td", "", "life");
  if (ticket.expires_in_ms === null) {
    cell.textContent = "as its process";
    return cell;
  }
  const meter = node("meter");
  const ttl = Math.max(ticket.ttl_ms, ticket.expires_in_ms, 1);
  Object.assign(meter, { min: 0, max: ttl, low: ticket.ttl_ms / STALE_LOW, optimum: ttl });
  meter.setAttribute("aria-label", "life left");
  cell.append(meter, " ", node("span"));
  cell.dataset.ms = ticket.expires_in_ms;
  cell.dataset.low = ticket.ttl_ms / STALE_LOW;
  return cell;
}

// Ages and lives follow the clock between two reads.
function tick() {
  for (const cell of document.querySelectorAll("td.since[data-ms]")) {
    cell.textContent = cell.dataset.ms === "" ? "–" : brief(Number(cell.dataset.ms) + passedOf(cell));
  }
  for (const cell of document.querySelectorAll("td.life[data-ms]")) {
    const left = Math.max(0, Number(cell.dataset.ms) - passedOf(cell));
    cell.querySelector("meter").value = left;
    const text = cell.querySelector("span");
    text.textContent = brief(left);
    text.className = left < Number(cell.dataset.low) ? "low" : "";
  }
}

function keyRow(row) {
  const link = node("a", shown(row.key));
  link.href = "./?prefix=" + encodeURIComponent(state.prefix) + "&key=" + encodeURIComponent(row.key);
  const head = node("th", link);
  head.scope = "row";
  const made = node("tr", head);
  made.dataset.key = row.key;
  const first = row.holders[0];
  if (first) {
    const more = row.holding > 1 ? ` and ${row.holding - 1} more` : "";
    const leaving = first.state === "leaving" ? " (leaving)" : "";
    const held = node("td", shown(first.owner) + more + leaving);
    if (first.note) held.append(" ", node("span", shown(first.note), "note"));
    made.append(held, since(first), life(first), node("td", String(first.number), "number"));
  } else {
    const cell = node("td", row.error ? shown(row.error) : "no holder yet", row.error ? "bad" : "");
    cell.colSpan = 4;
    made.append(cell);
  }
  made.append(node("td", row.waiting ? String(row.waiting) : "–", "number"));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(row.key === state.key ? "" : row.key);
  });
  return made;
}

function renderKeys() {
  const page = state.page;
  const had = document.activeElement?.closest?.("#keys tr")?.dataset.key;
  find("keys").tBodies[0].replaceChildren(...page.keys.map(keyRow));
  const count = page.keys.length
    ? `${page.before + 1} to ${page.before + page.keys.length} of ${page.total} keys`
    : page.error ? "no key is known" : "no key has a holder or a waiter";
  find("count").textContent = count + (page.error ? `; ${shown(page.error)}` : "");
  const link = (name, act) => {
    const made = node("button", name);
    made.addEventListener("click", act);
    return made;
  };
  const links = [];
  if (page.before > 0) links.push(link("previous page", previous));
  if (page.next !== null) links.push(link("next page", next));
  find("pages").replaceChildren(...links);
  mark();
  place();
  if (had !== undefined) rowOf(had)?.querySelector("a").focus();
}

// The open line stands below the row of its key, or below the table if that is on another page.
function place() {
  const row = state.key && rowOf(state.key);
  detail?.remove();
  detail = null;
  if (!row) return find("pages").after(lineSection);
  const cell = node("td", lineSection);
  cell.colSpan = 6;
  detail = node("tr", cell, "detail");
  row.after(detail);
}

const rows = () => [...find("keys").tBodies[0].rows].filter((row) => row.dataset.key !== undefined);
const rowOf = (key) => rows().find((row) => row.dataset.key === key);

function mark() {
  for (const row of rows()) {
    row.classList.toggle("current", row.dataset.key === state.current);
    row.querySelector("a")?.setAttribute("aria-expanded", String(row.dataset.key === state.key));
  }
}

function renderLine() {
  const section = lineSection;
  const line = state.line;
  if (!state.key || !(line || state.lineError)) return section.replaceChildren();
  const title = node("h2", shown(state.key));
  title.tabIndex = -1; // it gets the focus of a ticket that is gone
  if (!line) return section.replaceChildren(title, node("p", shown(state.lineError), "bad"));
  if (!line.tickets.length) {
    return section.replaceChildren(title, node("p", "It has no holder and no waiter now."));
  }
  const names = ["#", "State", "Owner", "Joined", "Share", "Life left", "Number", "Note", "Ticket"];
  if (mayBreak) names.push("");
  const heads = names.map((name) => node("th", name, name === "Joined" || name === "Number" ? "number" : ""));
  const body = node("tbody", line.tickets.map(ticketRow));
  const table = node("table", [node("thead", node("tr", heads)), body]);
  const button = (text, kind, act) => {
    const made = node("button", text);
    made.type = "button";
    made.dataset.act = kind;
    made.addEventListener("click", act);
    return made;
  };
  const actions = node("p", [
    button("Copy as text", "copy", copyText),
    button("Copy the break command", "command", copyCommand),
    button("Close", "close", () => open("")),
  ], "actions");
  const rest = line.total - line.tickets.length;
  section.replaceChildren(title, node("div", table, "scroll"), actions);
  if (rest) section.append(node("p", `${rest} more tickets wait behind these.`));
}

const share = (ticket) =>
  ticket.permits ? `${ticket.permits.take} of ${ticket.permits.of}` : ticket.kind;

function ticketRow(ticket) {
  const code = node("code", ticket.ticket.slice(0, 8));
  code.title = ticket.ticket;
  const made = node("tr", [
    node("td", String(ticket.position)), node("td", ticket.state), node("td", shown(ticket.owner)),
    since(ticket), node("td", share(ticket)), life(ticket), node("td", String(ticket.number), "number"),
    node("td", shown(ticket.note)), node("td", code),
  ], ticket.state);
  if (!mayBreak) return made;
  const cell = node("td");
  const act = (text, force) => {
    const button = node("button", text, "danger");
    button.type = "button";
    Object.assign(button.dataset, { ticket: ticket.ticket, act: text });
    button.addEventListener("click", () => askToEnd(ticket, force));
    cell.append(button, " ");
  };
  if (ticket.state !== "leaving") act(ticket.state === "waiting" ? "Remove…" : "Ask to end…", false);
  if (role === "force" && ticket.state !== "waiting") act("Force…", true);
  made.append(cell);
  return made;
}

// Reads keys and line. Many wishes within a second are one read, unless a person waits for it.
function refresh(atOnce = false) {
  wanted = true;
  if (refreshing || document.hidden || (refreshTimer && !atOnce)) return;
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(async () => {
    refreshTimer = 0;
    wanted = false;
    refreshing = true;
    await read();
    refreshing = false;
    if (wanted) refresh();
  }, atOnce || !state.readAt ? 0 : Math.max(0, REFRESH_MS - passed(state.readAt)));
}

async function read() {
  const { prefix, key } = state;
  const after = state.afters.at(-1);
  const query = new URLSearchParams({ prefix });
  if (after) query.set("after", after);
  // One of them may fail without the other.
  const [keys, line] = await Promise.allSettled([
    get("v1/keys?" + query),
    key ? get(pathOf(key)) : null,
  ]);
  state.readAt = performance.now();
  if (prefix !== state.prefix || key !== state.key || after !== state.afters.at(-1)) {
    wanted = true;
    return;
  }
  const had = focused();
  if (keys.status === "fulfilled") {
    Object.assign(state, { page: keys.value, keysAt: state.readAt });
    renderKeys();
  } else {
    notice(shown(keys.reason.message));
  }
  Object.assign(state, {
    line: line.value ?? null,
    lineError: line.reason?.message ?? "",
    lineAt: state.readAt,
  });
  renderLine();
  refocus(had);
  tick();
}

// The button of the line that has the focus: its ticket, if it has one, and its kind.
function focused() {
  const button = document.activeElement;
  if (!lineSection.contains(button) || !button.matches("button, h2")) return null;
  return { ticket: button.dataset.ticket, act: button.dataset.act };
}

// Another ticket, or another action, never gets the focus of a button that is gone.
function refocus(had) {
  if (!had) return;
  const isSame = (button) => button.dataset.ticket === had.ticket && button.dataset.act === had.act;
  const same = [...lineSection.querySelectorAll("button")].find(isSame);
  (same ?? lineSection.querySelector("h2"))?.focus();
}

async function health() {
  const health = find("health");
  try {
    const answer = await get("v1/health");
    health.textContent = `healthy, ${answer.answered_in_ms.toFixed(1)} ms`;
    health.className = "good";
  } catch (error) {
    health.textContent = "not healthy: " + error.message;
    health.className = "bad";
  }
}

function log(text, kind, parts) {
  const item = node("li", parts ?? text, kind);
  const list = find("log");
  list.prepend(item);
  while (list.children.length > EVENTS_SHOWN) list.lastChild.remove();
}

function connect() {
  stream?.close();
  stream = new EventSource("v1/watch?" + new URLSearchParams({ prefix: state.prefix }));
  stream.addEventListener("open", () => {
    find("live").textContent = "live";
    refresh();
  });
  stream.addEventListener("error", () => {
    find("live").textContent = "no live events: connecting again";
    // A browser does not try again after a refusal.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || connect(), 5000);
  });
  stream.addEventListener("ticket", (message) => {
    const event = JSON.parse(message.data);
    const time = node("time", event.at.slice(11, 19) + "Z");
    time.dateTime = event.at;
    log("", event.event, [
      time, ` ${event.event} `, node("strong", shown(event.key)), " ", node("span", shown(event.owner), "owner"),
    ]);
    refresh();
  });
  stream.addEventListener("gap", () => {
    log("Some events were missed. The table has the present state.", "gap");
    refresh();
  });
  stream.addEventListener("trouble", (message) => {
    log("The store does not answer: " + JSON.parse(message.data).error, "broken");
    health();
  });
}

function resume() {
  if (hiddenAt) log(`This tab was hidden for ${brief(Date.now() - hiddenAt)}: the events of that time are not listed`, "gap");
  connect();
  health();
  timers.push(setInterval(tick, 1000), setInterval(health, HEALTH_MS), setInterval(() => refresh(), ROUNDS_MS));
  refresh();
}

function pause() {
  hiddenAt = Date.now();
  stream?.close();
  stream = null;
  timers.splice(0).forEach(clearInterval);
  find("live").textContent = "paused";
}

function open(key) {
  state.key = key;
  if (key) state.current = key;
  Object.assign(state, { line: null, lineError: "" });
  renderLine();
  mark();
  place();
  refresh(true);
}

function search(prefix) {
  Object.assign(state, { prefix, afters: [""], key: "", line: null, lineError: "" });
  history.replaceState(null, "", "./?prefix=" + encodeURIComponent(prefix));
  renderLine();
  connect();
  refresh(true);
}

function next() {
  if (!state.page?.next) return;
  state.afters.push(state.page.next);
  refresh(true);
}

function previous() {
  if (state.afters.length > 1) state.afters.pop();
  else state.afters = [""];
  refresh(true);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`Copied ${what}.`);
  } catch {
    // Without TLS, browsers give the clipboard only to pages of this machine.
    notice(text);
  }
}

function copyText() {
  const line = state.line;
  if (!line) return;
  const past = passed(state.lineAt);
  const rowsOfText = line.tickets.map((ticket) => [
    ticket.position, ticket.state, shown(ticket.owner),
    ticket.since_ms === null ? "" : "joined " + brief(ticket.since_ms + past) + " ago", share(ticket),
    ticket.expires_in_ms === null ? "" : brief(Math.max(0, ticket.expires_in_ms - past)) + " left",
    "number " + ticket.number, ticket.ticket, shown(ticket.note),
  ].filter((part) => part !== "").join("  "));
  copy([shown(line.key), ...rowsOfText].join("\n") + "\n", "the line as text");
}

// A key as one word of a shell. A hidden character never reaches the clipboard as itself: a terminal
// could obey it. The form $'…' has octal escapes; its `!` is one, since bash expands it.
function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (text.search(HIDDEN) < 0) return "'" + text.replaceAll("'", "'\\''") + "'";
  const octal = (part) =>
    Array.from(new TextEncoder().encode(part), (byte) => "\\" + byte.toString(8).padStart(3, "0")).join("");
  return "$'" + text.replace(/['\\]/g, "\\$&").replaceAll("!", octal).replace(HIDDEN, octal) + "'";
}

function copyCommand() {
  const first = state.line?.tickets[0];
  if (!first) return;
  copy(`${document.body.dataset.command} break --ticket ${first.ticket} -- ${quoted(state.line.key)}`, "the command");
}

function askToEnd(ticket, force) {
  const key = state.key;
  const opener = focused();
  const waits = ticket.state === "waiting";
  const next = state.line.tickets.find((other) => other.state === "waiting" && other !== ticket);
  const then = next ? `${shown(next.owner)} is served` : "the key is free";
  find("title").textContent = force ? "Remove by force" : waits ? "Remove from the line" : "Ask to end";
  find("who").textContent = `Ticket ${ticket.ticket.slice(0, 8)} of ${shown(ticket.owner)}, number ${ticket.number}.`;
  find("effect").textContent = force
    ? `The ticket is removed at once, and ${then}. If its owner still works, TWO MAY HOLD. Use it only if the owner is gone, or if the resource refuses old tokens.`
    : waits
      ? "The waiter is removed at once. It has held nothing."
      : (/^claim-holder\[\d+\] .+@\S+$/.test(ticket.owner)
          ? "This is a claim of tenure take, so no program is stopped. It leaves when one of its commands has reported the loss, or after 30 seconds."
          : "The holder is asked to stop. A command of tenure run gets TERM, and KILL later.") +
        ` Only when the holder has left, ${then}.` +
        (ticket.expires_in_ms === null ? "" : " If it does not answer, this takes until its lease ends.");
  find("expected").textContent = shown(key);
  find("result").textContent = "";
  find("typed").value = "";
  const confirm = find("confirm");
  confirm.textContent = find("title").textContent;
  confirm.className = "danger";
  confirm.disabled = true;
  find("typed").oninput = () => {
    confirm.disabled = find("typed").value !== shown(key);
  };
  find("dialog").querySelector("form").onsubmit = (event) => {
    event.preventDefault();
    if (!confirm.disabled) end(key, ticket, force);
  };
  find("dialog").onclose = () => refocus(opener);
  find("dialog").showModal();
  find("typed").focus();
}

const RESULTS = {
  requested: "The holder was asked to end. Its ticket leaves the line when it has stopped.",
  leaving: "The holder was asked earlier, and has not left yet.",
  gone: "The ticket is out of the line.",
  "another ticket": "Nothing was changed: this ticket is gone, and another ticket holds the key.",
};

async function end(key, ticket, force) {
  find("confirm").disabled = true;
  try {
    const answer = await fetch(pathOf(key, "/break"), {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tenure-Request": "1" },
      body: JSON.stringify({ ticket: ticket.ticket, number: ticket.number, force }),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error);
    find("dialog").close();
    notice(RESULTS[body.result] ?? body.result);
    refresh(true);
  } catch (error) {
    find("result").textContent = error.message;
    find("confirm").disabled = false;
  }
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.dataset.key === state.current);
  const to = at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step));
  state.current = all[to].dataset.key;
  mark();
  all[to].querySelector("a").focus();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog").open) return;
  const typing = event.target.matches("input");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else open("");
    return;
  }
  if (typing) return;
  const holder = () => state.line?.tickets.find((ticket) => ticket.state === "holding");
  const acts = {
    "/": () => find("prefix").select(),
    j: () => move(1),
    k: () => move(-1),
    n: next,
    p: previous,
    c: copyText,
    b: copyCommand,
    e: () => mayBreak && holder() && askToEnd(holder(), false),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

document.querySelectorAll(".needs-script").forEach((part) => { part.hidden = false; });
document.addEventListener("keydown", press);
document.addEventListener("visibilitychange", () => (document.hidden ? pause() : resume()));
find("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search(find("prefix").value);
});
find("cancel").addEventListener("click", () => find("dialog").close());
if (!document.hidden) resume();
