//! `tenure serve`: the page and the API of a real process, and a break of a real `tenure run`.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::kit::{Store, eventually, write};

/// A `tenure serve`, which drop kills.
pub(crate) struct Server {
    process: Child,
    /// The address that it has printed, without the scheme.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server on a store that has had a lock.
    pub(crate) fn start(store: &Store, options: &[&str]) -> Self {
        store.output(&["run", "first", "--", "true"]);
        Self::start_early(store, options)
    }

    /// The same, on a store that may have had none.
    fn start_early(store: &Store, options: &[&str]) -> Self {
        Self::of(&mut store.tenure(&[&["serve"], options].concat()))
    }

    fn of(command: &mut Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = line.trim_end();
        let tcp = line.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        let address = tcp.or_else(|| line.strip_prefix("unix:"));
        let Some(address) = address.map(str::to_owned) else {
            panic!("an address: {line:?}, {:?}", process.wait_with_output());
        };
        Self { process, address }
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn break_ticket(&self, key: &str, body: &Value) -> (u16, String) {
        let head = format!("POST /v1/lines/{key}/break HTTP/1.1\r\nTenure-Request: 1\r\n");
        self.send(&head, &body.to_string())
    }

    fn send(&self, head: &str, body: &str) -> (u16, String) {
        if self.address.starts_with('/') {
            exchange(UnixStream::connect(&self.address).unwrap(), "localhost", head, body)
        } else {
            exchange(TcpStream::connect(&self.address).unwrap(), &self.address, head, body)
        }
    }

    /// Ends the server by a signal. Returns its exit code and its messages.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let mut messages = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        (self.process.wait().unwrap().code(), messages)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended
        let _ = self.process.wait();
    }
}

fn exchange(
    mut stream: impl std::io::Read + Write,
    host: &str,
    head: &str,
    body: &str,
) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{head}Host: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub(crate) const FREE_PORT: [&str; 2] = ["--listen", "127.0.0.1:0"];

#[test]
fn a_break_ends_a_real_command_and_the_next_is_served() {
    let store = Store::new();
    let script = "echo $0 pid $$ >>$LOG; exec sleep 600.125";
    let first = store.start(&["run", "jobs/1", "--", "sh", "-c", script, "first"]);
    store.log_has("first");
    let next = store.start(&["run", "jobs/1", "--", "sh", "-c", "echo served >>$LOG"]);
    store.line_has("jobs/1", 2);
    let server = Server::start(&store, &[&FREE_PORT[..], &["--role", "ask"]].concat());

    let line = server.json("/v1/lines/jobs%2F1");
    assert_eq!(line["tickets"][1]["state"], json!("waiting"));
    let ticket = &line["tickets"][0];
    let mut body = json!({ "ticket": ticket["ticket"], "number": ticket["number"], "force": true });
    assert_eq!(server.break_ticket("jobs%2F1", &body).0, 403, "the role is not force");
    body["force"] = json!(false);
    let (status, answer) = server.break_ticket("jobs%2F1", &body);
    assert_eq!((status, answer.as_str()), (200, "{\"result\":\"requested\"}"));
    assert_eq!(first.end().code, 79, "its lock was lost");
    assert_eq!(next.end().code, 0);
    assert!(store.log().contains("served"));
    eventually("a free key", || server.json("/v1/keys")["total"] == json!(0));

    let (code, messages) = server.end(Signal::TERM);
    assert_eq!(code, Some(0), "{messages}");
    let audits: Vec<Value> = messages
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(audits.len(), 2, "{messages}");
    let refused = &audits[0]["record"];
    assert_eq!((&refused["status"], &refused["result"]), (&json!(403), &Value::Null));
    let record = &audits[1]["record"];
    assert_eq!((&record["who"], &record["ticket"]), (&json!("local"), &ticket["ticket"]));
    assert_eq!(record["result"], json!("requested"));
    assert!(record["from"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(!messages.contains("jobs/1"), "{messages}");
}

#[test]
fn visitors_only_look_unless_a_role_is_given() {
    let store = Store::new();
    let run = store.start(&["run", "k", "--", "sleep", "600.125"]);
    store.line_has("k", 1);
    let server = Server::start(&store, &FREE_PORT);
    assert!(server.get("/").1.contains("role: look"));
    let ticket = &server.json("/v1/lines/k")["tickets"][0];
    let body = json!({ "ticket": ticket["ticket"], "number": ticket["number"] });
    assert_eq!(server.break_ticket("k", &body).0, 403);
    assert!(store.line("k")[0].contains("holding"));
    let evil = "GET /v1/keys HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(evil.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    let (code, messages) = server.end(Signal::INT);
    assert_eq!(code, Some(0));
    assert!(messages.contains("with the role `look`; interrupt to end"), "{messages}");
    drop(run);
}

#[test]
fn an_open_stream_shows_a_run_and_does_not_delay_the_end() {
    let store = Store::new();
    let server = Server::start(&store, &FREE_PORT);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!("GET /v1/watch HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("id: ")).unwrap();
    let run = thread::spawn(move || store.output(&["run", "k", "--", "true"]));
    lines.find(|line| line.contains("\"event\":\"served\"")).unwrap();
    run.join().unwrap();
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(lines.all(|line| !line.contains("gap")), "the stream ends");
}

#[test]
fn a_socket_is_the_users_own_and_is_removed_at_the_end() {
    let store = Store::new();
    let path = store.path("serve.sock");
    // The file of a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::start(&store, &["--socket", path.to_str().unwrap()]);
    let file = fs::symlink_metadata(&path).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.mode() & 0o777, 0o600);
    assert_eq!(server.json("/v1/health")["healthy"], json!(true));
    let second = store.end(&["serve", "--socket", path.to_str().unwrap()]);
    assert_eq!(second.code, 77, "{second:?}");
    assert!(second.err.contains("cannot make the socket"), "{second:?}");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(!path.exists());
}

#[test]
fn the_socket_of_another_server_is_not_removed() {
    let store = Store::new();
    let path = store.path("serve.sock");
    let server = Server::start(&store, &["--socket", path.to_str().unwrap()]);
    // The old file stays, so that the new one has another inode.
    fs::rename(&path, store.path("old.sock")).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(path.exists());
    drop(other);
}

#[test]
fn another_address_needs_a_proof_and_tls() {
    let store = Store::new();
    let token = store.path("token");
    write(&token, "0123456789abcdef\n", 0o600);
    let token = token.to_str().unwrap();
    let open = ["serve", "--listen", "0.0.0.0:0"];
    for (options, words) in [
        (&[][..], "add --token-file FILE, or --trust-header NAME"),
        (&["--token-file", token], "add --behind-tls"),
        (&["--behind-tls"], "add --token-file FILE"),
    ] {
        let end = store.end(&[&open[..], options].concat());
        assert_eq!(end.code, 64, "{end:?}");
        assert!(end.err.contains(words), "{end:?}");
    }
    let options = ["--listen", "0.0.0.0:0", "--token-file", token, "--behind-tls"];
    let mut server = Server::start(&store, &options);
    server.address = server.address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(server.get("/v1/keys").0, 401);
    let head = "GET /v1/keys HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(server.send(head, "").0, 200);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_token_that_others_can_read_or_guess_is_refused() {
    let store = Store::new();
    let token = store.path("token");
    let path = token.to_str().unwrap();
    for (text, mode, words) in [
        ("0123456789abcdef", 0o644, "chmod go= "),
        ("0123456789abcdef", 0o640, "chmod go= "),
        ("short", 0o600, "must have 16 to 1024 bytes"),
        ("0123456789 abcdef", 0o600, "visible ASCII"),
    ] {
        write(&token, text, 0o600);
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        let end = store.end(&["serve", "--token-file", path]);
        assert_eq!(end.code, 77, "{end:?}");
        assert!(end.err.contains(words) && !end.err.contains(text), "{end:?}");
    }
}

#[test]
fn a_proxy_gives_the_name_of_the_visitor() {
    let store = Store::new();
    let options = [&FREE_PORT[..], &["--trust-header", "X-Forwarded-User"]].concat();
    let server = Server::start(&store, &[&options[..], &["--host", "locks.example.org"]].concat());
    assert_eq!(server.get("/v1/keys").0, 403);
    let head = "GET /v1/keys HTTP/1.1\r\nX-Forwarded-User: ana\r\n";
    assert_eq!(server.send(head, "").0, 200);
    let stream = TcpStream::connect(&server.address).unwrap();
    assert_eq!(exchange(stream, "locks.example.org", head, "").0, 200);
}

#[test]
fn a_server_waits_for_the_first_lock_of_its_store() {
    let store = Store::unmade();
    thread::scope(|scope| {
        let server = scope.spawn(|| Server::start_early(&store, &FREE_PORT));
        let run = store.end(&["run", "k", "--", "true"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(server.join().unwrap().json("/v1/keys")["total"], json!(0));
    });
}

#[test]
fn a_busy_port_is_named() {
    let store = Store::new();
    let server = Server::start(&store, &FREE_PORT);
    let end = store.end(&["serve", "--listen", &server.address]);
    assert_eq!(end.code, 77, "{end:?}");
    assert!(end.err.contains("--listen 127.0.0.1:0 takes a free port"), "{end:?}");
}

#[test]
fn two_stores_have_two_pages_and_one_name_is_refused_twice() {
    let (first, second) = (Store::new(), Store::new());
    for (store, key) in [(&first, "in/first"), (&second, "in/second")] {
        store.output(&["run", key, "--", "true"]);
    }
    let hold = second.start(&["run", "in/second", "--", "sleep", "600.125"]);
    second.line_has("in/second", 1);
    let (a, b) = (format!("a={}", first.url()), format!("b={}", second.url()));
    let server = Server::start(&first, &[&FREE_PORT[..], &["--on", &a, "--on", &b]].concat());
    let list = server.get("/").1;
    assert!(list.contains("stores/a/") && list.contains("stores/b/"), "{list}");
    assert_eq!(server.json("/stores/a/v1/keys")["total"], json!(0));
    assert_eq!(server.json("/stores/b/v1/keys")["keys"][0]["key"], json!("in/second"));
    let metrics = server.get("/metrics").1;
    assert!(metrics.contains("tenure_store_keys{engine=\"file\",store=\"b\"} 1"), "{metrics}");
    drop((server, hold));

    // the store before the subcommand, and several in the environment
    let words = ["--on", &b, "serve", FREE_PORT[0], FREE_PORT[1]];
    for (words, on) in [(&words[..], first.url()), (&words[2..], format!("{a}\n{b}\n"))] {
        let mut command = first.tenure(words);
        let server = Server::of(command.env("TENURE_ON", on));
        let page = server.get("/").1;
        assert!(page.contains(&second.path("store").display().to_string()), "{page}");
    }
    // one that has had no lock yet
    let third = Store::unmade();
    let c = format!("c={}", third.url());
    let server = Server::start(&first, &[&FREE_PORT[..], &["--on", &c, "--on", &a]].concat());
    let (status, body) = server.get("/stores/c/v1/keys");
    assert!(status == 503 && body.contains("the first lock there creates it"), "{status} {body}");
    assert_eq!(server.json("/stores/a/v1/keys")["total"], json!(0));
    assert_eq!(third.end(&["run", "k", "--", "true"]).code, 0);
    eventually("it is served", || server.get("/stores/c/v1/keys").0 == 200);
    let (_, messages) = server.end(Signal::TERM);
    assert!(
        messages.contains("trying c again: ") && messages.contains("serving c\n"),
        "{messages}"
    );
    let none =
        first.end(&["serve", "--on", &c.replace("store", "none"), "--on", "d=redis://127.0.0.1:1"]);
    assert_eq!(none.code, 69, "{none:?}");

    let end = first.end(&["serve", "--on", &a, "--on", &format!("a={}", second.url())]);
    let cure = "two stores have the name `a`: name one of them, as in --on NAME=URL";
    assert!(end.code == 64 && end.err.contains(cure), "{end:?}");
}
