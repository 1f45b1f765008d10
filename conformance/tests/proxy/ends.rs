//! The ends of a proxy: a server that speaks the protocol of Redis, a real one, and a client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Protocol, Proxy};

/// Time limit of each wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The answer of a client whose connection has ended.
pub(crate) const END: &str = "(the end)";
/// Longer than any test.
pub(crate) const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A server that counts, echoes and publishes. Its threads end with their connections.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    numbers: BTreeMap<String, u64>,
    /// Every command but `PING`, in order.
    done: Vec<String>,
    subscribers: Vec<TcpStream>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let server = Self { address, state: Arc::default() };
        let own = server.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(&client));
            }
        });
        server
    }

    fn serve(&self, client: &TcpStream) {
        let mut ear = BufReader::new(client);
        while let Some(asked) = value(&mut ear) {
            // Replies and pushes are written under the lock, so that they have an order.
            let mut state = self.state.lock().expect("no test panics under this lock");
            let words: Vec<&str> = asked.split(' ').collect();
            let reply = match words[..] {
                ["INCR", key] | ["EVALSHA", _, "1", key] => {
                    let number = state.numbers.entry(key.into()).or_default();
                    *number += 1;
                    format!(":{number}\r\n")
                }
                ["GET", key] => format!(":{}\r\n", state.numbers.get(key).unwrap_or(&0)),
                ["ECHO", text] => format!("${}\r\n{text}\r\n", text.len()),
                ["SUBSCRIBE", channel] => {
                    state.subscribers.push(client.try_clone().expect("a socket can be cloned"));
                    format!(">3\r\n+subscribe\r\n+{channel}\r\n:1\r\n")
                }
                ["PUBLISH", text] => {
                    let push = format!(">2\r\n+message\r\n+{text}\r\n");
                    for mut subscriber in &state.subscribers {
                        // A failure means that it is gone.
                        let _ = subscriber.write_all(push.as_bytes());
                    }
                    ":1\r\n".into()
                }
                ["PING"] => "+PONG\r\n".into(),
                ["QUIT"] => return,
                _ => "-ERR what?\r\n".into(),
            };
            if asked != "PING" {
                state.done.push(asked);
            }
            let mut mouth = client;
            if mouth.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }

    pub(crate) fn done(&self) -> Vec<String> {
        self.state.lock().expect("no test panics under this lock").done.clone()
    }

    /// Sends many requests, so that bytes which can pass have passed.
    pub(crate) fn is_asked_much(&self) {
        let socket = TcpStream::connect(self.address).expect("the server accepts");
        let mut ear = BufReader::new(&socket);
        for _ in 0..100 {
            (&socket).write_all(&framed("PING")).expect("the server reads");
            assert_eq!(value(&mut ear).as_deref(), Some("PONG"));
        }
    }

    pub(crate) fn has_done(&self, count: usize) {
        soon("the server has done it", || self.done().len() >= count);
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::to(self.address).expect("a port is free").speaking(Protocol::Resp)
    }
}

/// Reads one value, its words joined by spaces. `None`: the end.
fn value(from: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    if from.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let text = line.trim_end();
    let length = || text[1..].parse::<usize>().expect("a length is a number");
    match text.as_bytes().first() {
        Some(b'$') => {
            let mut bytes = vec![0; length() + 2];
            from.read_exact(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..length()]).into_owned())
        }
        Some(kind @ (b'*' | b'>' | b'%')) => {
            let count = length() * if *kind == b'%' { 2 } else { 1 };
            let values: Option<Vec<String>> = (0..count).map(|_| value(from)).collect();
            values.map(|values| values.join(" "))
        }
        _ => text.get(1..).map(Into::into),
    }
}

pub(crate) fn soon(what: &str, happens: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < PATIENCE, "this did not happen: {what}");
        thread::yield_now();
    }
}

pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

impl Client {
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let socket = TcpStream::connect(proxy.address()).expect("the proxy accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Self(BufReader::new(socket))
    }

    pub(crate) fn say_bytes(&self, bytes: &[u8]) {
        // The connection may have been cut, which the test checks.
        let _ = self.0.get_ref().write_all(bytes);
    }

    pub(crate) fn say(&self, words: &str) {
        self.say_bytes(&framed(words));
    }

    /// The next value, or [`END`].
    pub(crate) fn hear(&mut self) -> String {
        let begun = Instant::now();
        let heard = value(&mut self.0);
        assert!(begun.elapsed() < PATIENCE, "no answer");
        heard.unwrap_or_else(|| END.into())
    }

    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.hear()
    }

    /// Checks that nothing has arrived, not even an end.
    pub(crate) fn has_nothing(&self) {
        let socket = self.0.get_ref();
        assert!(self.0.buffer().is_empty());
        socket.set_nonblocking(true).expect("the option can be set");
        let peeked = socket.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(peeked, Err(ErrorKind::WouldBlock));
        socket.set_nonblocking(false).expect("the option can be set");
    }
}

pub(crate) fn framed(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let bulks: String = words.iter().map(bulk).collect();
    format!("*{}\r\n{bulks}", words.len()).into_bytes()
}

/// A real server, if it is installed. It ends with the test.
pub(crate) struct Redis(Child, pub(crate) SocketAddr);

impl Redis {
    pub(crate) fn start() -> Option<Self> {
        // Below the ports of outgoing connections, so that no other process meets these bytes.
        let first = std::process::id() % 5_000 * 2 + 20_000;
        (first..30_000)
            .find_map(|port| {
                let port = u16::try_from(port).expect("the port is valid");
                Self::start_at(port).transpose()
            })?
            .ok()
    }

    /// `None`: another process has the port.
    fn start_at(port: u16) -> std::io::Result<Option<Self>> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut call = Command::new("redis-server");
        call.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        call.args(["--save", "", "--appendonly", "no"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut redis = Self(call.spawn()?, address);
        let process = format!("process_id:{}\r\n", redis.0.id());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if redis.0.try_wait()?.is_some() {
                return Ok(None);
            }
            let answer = TcpStream::connect(address).ok().and_then(|socket| {
                // Another process may have the port, and not answer.
                socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
                (&socket).write_all(&framed("INFO server")).ok()?;
                value(&mut BufReader::new(socket))
            });
            if answer.is_some_and(|answer| answer.contains(&process)) {
                return Ok(Some(redis));
            }
            thread::yield_now();
        }
        panic!("the server does not start");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A failure means that it is dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
