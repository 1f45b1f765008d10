//! `tenure mcp`, driven by a client of the protocol: its claims, and what it says without them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::process::Stdio;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::bad_input::is_refused;
use crate::kit::{Store, code, end, eventually, is_alive};

/// The name of the client, which is the note of its claims.
pub(crate) const CLIENT: &str = "test-agent";

/// A client with a server of its own.
pub(crate) struct Agent {
    client: Arc<RunningService<RoleClient, ClientConfig>>,
    pub(crate) pid: i32,
}

impl Agent {
    pub(crate) async fn start(store: &Store) -> Self {
        let mut command = store.tenure(&["mcp"]);
        command.stderr(Stdio::inherit());
        let server = TokioChildProcess::new(tokio::process::Command::from(command)).unwrap();
        let pid = server.id().unwrap().try_into().unwrap();
        let config =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new(CLIENT, "1"));
        Self { client: Arc::new(config.serve(server).await.unwrap()), pid }
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Answer {
        let Value::Object(arguments) = arguments else { panic!("an object: {arguments}") };
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        Answer::of(self.client.call_tool(params).await.unwrap())
    }

    /// The same, in a task of its own.
    pub(crate) fn begin(&self, tool: &'static str, arguments: Value) -> JoinHandle<Answer> {
        let agent = Self { client: self.client.clone(), pid: self.pid };
        tokio::spawn(async move { agent.call(tool, arguments).await })
    }

    /// Takes one key, which must be free.
    async fn take(&self, key: &str) -> String {
        let taken = self.call("take", json!({ "keys": [key] })).await;
        taken.is(true, false);
        taken["claim"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid).unwrap(), signal).unwrap();
    }

    /// Ends the session as clients do: by closing the server's standard input.
    pub(crate) async fn leave(self) {
        let client = Arc::into_inner(self.client).unwrap();
        client.cancel().await.unwrap();
    }
}

/// An answer of a tool: its data.
#[derive(Debug)]
pub(crate) struct Answer {
    data: Value,
    is_error: bool,
}

impl Deref for Answer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.data
    }
}

impl Answer {
    fn of(result: CallToolResult) -> Self {
        let data = result.structured_content.unwrap();
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(data["message"], text.as_str());
        Self { data, is_error: result.is_error.unwrap() }
    }

    pub(crate) fn message(&self) -> &str {
        self["message"].as_str().unwrap()
    }

    /// Checks whether it says that the lock is held, and that the model must stop.
    pub(crate) fn is(&self, held: bool, is_error: bool) {
        assert_eq!((&self["held"], self.is_error), (&json!(held), is_error), "{self:?}");
        assert_eq!(self.message().starts_with("HELD"), held, "{self:?}");
    }

    /// Checks that the model must stop, for this reason.
    pub(crate) fn stops(&self, reason: &str) {
        self.is(false, true);
        assert_eq!(self["reason"], reason, "{self:?}");
        assert!(self.message().contains("NOT held") || reason == "lost", "{self:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_excludes_other_sessions_until_it_is_dropped() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let taken = one.call("take", json!({ "keys": ["k"], "note": "edits k" })).await;
    taken.is(true, false);
    assert_eq!(taken["keys"][0]["mode"], "exclusive");
    let busy = two.call("take", json!({ "keys": ["k"] })).await;
    busy.is(false, false);
    assert_eq!((&busy["reason"], &busy["busy"][0]["key"]), (&json!("busy"), &json!("k")));
    let holder = &busy["busy"][0]["entries"][0];
    assert_eq!((&holder["note"], &holder["claim"]), (&json!("edits k"), &Value::Null), "{busy:?}");
    assert!(holder["since_ms"].is_u64() && busy.message().contains("edits k"), "{busy:?}");
    let seen = one.call("who", json!({ "key": "k" })).await;
    assert_eq!(seen["lines"][0]["entries"][0]["claim"], taken["claim"]);
    one.call("renew", json!({ "claim": taken["claim"] })).await.is(true, false);

    let waiting = two.begin("wait", json!({ "key": "k", "timeout_ms": 600_000 }));
    let dropped = one.call("drop", json!({ "claim": taken["claim"] })).await;
    dropped.is(false, false);
    let free = waiting.await.unwrap();
    assert_eq!((&free["free"], free.get("held"), free.is_error), (&json!(true), None, false));
    one.call("renew", json!({ "claim": taken["claim"] })).await.stops("unknown_claim");
    let next = two.call("take", json!({ "keys": ["k"] })).await;
    next.is(true, false);
    assert!(next["keys"][0]["token"].as_u64() > taken["keys"][0]["token"].as_u64());
    let seen = one.call("who", json!({ "prefix": "" })).await;
    assert_eq!(seen["lines"][0]["entries"][0]["note"], CLIENT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_waits_is_served_in_its_turn() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let claim = one.take("k").await;
    let waiting = two.begin("take", json!({ "keys": ["k"], "wait_ms": 600_000 }));
    store.line_has("k", 2);
    one.call("drop", json!({ "claim": claim })).await.is(false, false);
    waiting.await.unwrap().is(true, false);
    // A cancelled call leaves its line.
    let waiting = one.begin("take", json!({ "keys": ["k"], "wait_ms": 600_000 }));
    store.line_has("k", 2);
    waiting.abort();
    store.line_has("k", 1);
    // A wait that times out gives nothing.
    let late = one.call("wait", json!({ "key": "k", "timeout_ms": 1 })).await;
    assert_eq!((&late["free"], late.get("held"), late.is_error), (&json!(false), None, false));
    let late = one.call("take", json!({ "keys": ["k"], "wait_ms": 1 })).await;
    late.is(false, false);
    assert_eq!(late["reason"], "busy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_are_taken_all_or_none() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let claim = one.take("b").await;
    let keys = json!({ "keys": ["c", "b", "a", "c"] });
    let busy = two.call("take", keys.clone()).await;
    busy.is(false, false);
    let named: Vec<_> = busy["busy"].as_array().unwrap().iter().map(|line| &line["key"]).collect();
    assert_eq!(named, ["b"]);
    assert_eq!(store.line("a").len() + store.line("c").len(), 0);
    one.call("drop", json!({ "claim": claim })).await.is(false, false);
    let all = two.call("take", keys).await;
    all.is(true, false);
    let taken: Vec<_> = all["keys"].as_array().unwrap().iter().map(|key| &key["key"]).collect();
    assert_eq!(taken, ["a", "b", "c"]);
    // The session itself is refused, and does not wait for itself.
    let own = two.call("take", json!({ "keys": ["c", "d"], "wait_ms": 600_000 })).await;
    own.stops("own_claim");
    assert_eq!(own["claim"], all["claim"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_and_exclude_a_writer() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    for agent in [&one, &two, &one] {
        let taken = agent.call("take", json!({ "keys": ["k"], "shared": true })).await;
        taken.is(true, false);
        assert_eq!(taken["keys"][0]["mode"], "shared");
    }
    let busy = Agent::start(&store).await.call("take", json!({ "keys": ["k"] })).await;
    busy.is(false, false);
    assert_eq!(busy["busy"][0]["holding"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_end_with_the_session() {
    let store = Store::new();
    let waiter = Agent::start(&store).await;
    for how in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::KILL)] {
        let agent = Agent::start(&store).await;
        agent.take("a").await;
        agent.take("b").await;
        let next = waiter.begin("take", json!({ "keys": ["a", "b"], "wait_ms": 600_000 }));
        store.line_has("a", 2);
        let pid = agent.pid;
        if let Some(signal) = how {
            // A call that waits does not hold the end up.
            drop(agent.begin("wait", json!({ "key": "a", "timeout_ms": 600_000 })));
            agent.signal(signal);
        } else {
            agent.leave().await;
        }
        let taken = next.await.unwrap();
        taken.is(true, false);
        eventually("the end of the server", || !is_alive(pid));
        waiter.call("drop", json!({ "claim": taken["claim"] })).await.is(false, false);
    }
}

#[test]
fn a_session_ends_with_exit_code_0_and_writes_only_the_protocol() {
    let store = Store::unmade();
    let mut server = store.tenure(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": CLIENT, "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": "take", "arguments": { "keys": ["k"] } } }),
        // A call that waits does not hold the end up.
        json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {
            "name": "wait", "arguments": { "key": "k", "timeout_ms": 600_000 } } }),
    ];
    let mut input = server.stdin.take().unwrap();
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut out: Vec<_> = lines.by_ref().take(3).map(Result::unwrap).collect();
    drop(input);
    out.extend(lines.map(Result::unwrap));
    let output = server.wait_with_output().unwrap();
    assert_eq!(code(output.status), 0);
    let answers: Vec<Value> = out.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[2]["result"]["structuredContent"]["held"], true, "{out:?}");
    assert_eq!(answers.len(), 4, "{out:?}");
    assert_eq!(answers[3]["result"]["isError"], true, "{out:?}");
    let names = answers[1]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.eq(["take", "renew", "drop", "who", "wait", "run"]), "{out:?}");
    // Warnings go to standard error.
    assert!(String::from_utf8(output.stderr).unwrap().contains("made a new store"));
    assert_eq!(store.line("k").len(), 0);
    // A client that leaves at once.
    let end = store.end(&["mcp"]);
    assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (0, "", ""));
}

#[test]
fn wrong_parameters_and_an_unknown_method_have_different_codes() {
    let store = Store::new();
    let mut server = store.tenure(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": CLIENT, "version": "1" } });
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    for (method, params, code) in [
        ("initialize", client, Value::Null),
        ("tools/call", json!({ "name": 7 }), json!(-32602)),
        ("tools/call", json!({ "name": "take", "arguments": ["k"] }), json!(-32602)),
        ("tools/cal", json!({ "name": "take" }), json!(-32601)),
        ("tools/list", json!({}), Value::Null),
    ] {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["error"]["code"], code, "{request}: {answer}");
        if method == "initialize" {
            let begin = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            writeln!(input, "{begin}").unwrap();
        }
    }
    drop(input);
    assert_eq!(code(server.wait().unwrap()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_claim_is_lost_and_goes_to_the_next_once_the_model_knows() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let claim = one.take("k").await;
    store.output(&["break", "k"]);
    // The model does not know yet, and may still work: the next in line waits for it.
    let next = two.begin("take", json!({ "keys": ["k"], "wait_ms": 600_000 }));
    store.line_has("k", 2);
    one.call("renew", json!({ "claim": claim })).await.stops("lost");
    let next = next.await.unwrap();
    next.is(true, false);
    one.call("renew", json!({ "claim": claim })).await.stops("unknown_claim");
    two.call("drop", json!({ "claim": next["claim"] })).await.is(false, false);
    // A claim that was taken away by force may have overlapped: the drop says so.
    let claim = one.take("k").await;
    store.output(&["break", "k", "--force"]);
    two.take("k").await;
    one.call("drop", json!({ "claim": claim })).await.stops("lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_store_nothing_is_held() {
    let store = Store::at("redis://:hidden@127.0.0.1:1");
    let agent = Agent::start(&store).await;
    for (tool, arguments) in [
        ("take", json!({ "keys": ["k"] })),
        ("take", json!({ "keys": ["k"], "wait_ms": 1 })),
        ("who", json!({ "key": "k" })),
        ("who", json!({})),
        ("wait", json!({ "key": "k" })),
        ("run", json!({ "key": "k", "command": ["sh", "-c", "echo ran >>$LOG"] })),
    ] {
        let answer = agent.call(tool, arguments).await;
        answer.stops("unreachable");
        assert!(!answer.data.to_string().contains("hidden"), "{answer:?}");
    }
    agent.call("renew", json!({ "claim": "0" })).await.stops("unknown_claim");
    assert_eq!(store.log(), "");
    // A URL that can never work ends the server at once.
    is_refused(&end(store.tenure(&["mcp"]).env("TENURE_ON", "memory:")), 77, "one process only");
    is_refused(&end(store.tenure(&["mcp"]).env("TENURE_ON", "what:")), 64, "TENURE_ON");
    is_refused(&store.end(&["mcp", "--json"]), 64, "leave out `--json`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_arguments_hold_nothing() {
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let many: Vec<_> = (0..33).map(|n| n.to_string()).collect();
    for (tool, arguments) in [
        ("take", json!({})),
        ("take", json!({ "keys": [] })),
        ("take", json!({ "keys": "k" })),
        ("take", json!({ "keys": many })),
        ("take", json!({ "keys": ["k", ""] })),
        ("take", json!({ "keys": ["k"], "wait_ms": 600_001 })),
        ("take", json!({ "keys": ["k"], "wait_ms": -1 })),
        ("take", json!({ "keys": ["k"], "lease": 1 })),
        ("take", json!({ "keys": ["k"], "note": "n".repeat(5_000) })),
        ("renew", json!({})),
        ("drop", json!({ "claim": 7 })),
        ("who", json!({ "key": "k", "prefix": "" })),
        ("wait", json!({ "key": "" })),
        ("run", json!({ "key": "k", "command": [] })),
        ("run", json!({ "key": "k", "command": ["true"], "timeout_ms": 3_600_001 })),
        ("lock", json!({ "key": "k" })),
    ] {
        agent.call(tool, arguments).await.stops("invalid");
    }
    agent.call("drop", json!({ "claim": "0" })).await.stops("unknown_claim");
    assert_eq!(store.end(&["keys"]).out, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_exclude_each_other_and_have_a_limit() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let takes: Vec<_> = (0..30)
        .map(|n| if n % 2 == 0 { &one } else { &two }.begin("take", json!({ "keys": ["k"] })))
        .collect();
    let mut held = 0;
    for take in takes {
        held += usize::from(take.await.unwrap()["held"] == true);
    }
    assert_eq!(held, 1);
    let waits: Vec<_> =
        (0..40).map(|_| one.begin("wait", json!({ "key": "k", "timeout_ms": 600_000 }))).collect();
    eventually("32 calls that wait", || {
        waits.iter().filter(|wait| wait.is_finished()).count() == 8
    });
    one.call("who", json!({ "key": "k" })).await.stops("limit");
    for wait in &waits {
        wait.abort();
    }
    // Claims have a limit as well. A call after the cancelled ones finds its place again.
    let agent = Agent::start(&store).await;
    for n in 0..100 {
        agent.take(&format!("many/{n}")).await;
    }
    agent.call("take", json!({ "keys": ["one more"] })).await.stops("limit");
    let seen = agent.call("who", json!({ "prefix": "many/" })).await;
    assert_eq!((&seen["more_keys"], seen["lines"].as_array().unwrap().len()), (&json!(50), 50));
}
