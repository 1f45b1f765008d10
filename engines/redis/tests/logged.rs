//! The log contains no password, whatever a server answers.
#![cfg(unix)]

use std::fmt::{Debug, Write as _};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tenure_core::Locks;
use tenure_core::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const SECRET: &str = "s3cret-of-the-house";
/// The part of the password that the log may not contain, because a part is a hint.
const PART: &str = "s3cr";
/// Maximum wait for an expected event on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that Tenure has logged.
static LOGGED: Mutex<String> = Mutex::new(String::new());

fn logged() -> String {
    LOGGED.lock().clone()
}

struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line;

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut logged = LOGGED.lock();
        writeln!(logged, "{field}={value:?}").unwrap();
    }
}

/// Starts a server that answers each command by this function. Returns its address.
fn server(answers: fn(&str) -> String) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream, answers));
        }
    });
    at
}

/// Answers until the connection ends.
fn answer(stream: &TcpStream, answers: fn(&str) -> String) -> Option<()> {
    let (mut heard, mut said) = (BufReader::new(stream), stream);
    loop {
        let mut line = String::new();
        heard.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let words: usize = line.strip_prefix('*')?.trim_end().parse().ok()?;
        let mut command = Vec::new();
        for _ in 0..words {
            line.clear();
            heard.read_line(&mut line).ok()?;
            let mut word = vec![0; line.strip_prefix('$')?.trim_end().parse::<usize>().ok()? + 2];
            heard.read_exact(&mut word).ok()?;
            command.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
        }
        said.write_all(answers(&command.join(" ")).as_bytes()).ok()?;
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Returns the answer of a server to a command at connection. One of its settings has the password
/// as its value.
fn greeting(command: &str) -> String {
    match command.split(' ').next().unwrap() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "INFO" => bulk(&format!(
            "redis_version:7.0.15\r\nuptime_in_seconds:1000\r\nrole:master\r\nmaxmemory_policy:{SECRET}\r\n"
        )),
        "CONFIG" => "%0\r\n".to_owned(),
        "SUBSCRIBE" => {
            let channel = command.split(' ').nth(1).unwrap();
            format!(">3\r\n$9\r\nsubscribe\r\n{}:1\r\n", bulk(channel))
        }
        // The call of a script: a text is the owner of another ticket with this id.
        "EVALSHA" => bulk(SECRET),
        _ => "+OK\r\n".to_owned(),
    }
}

async fn connect(url: String) -> tenure_core::Result<Locks> {
    let connecting = tokio::time::timeout(PATIENCE, tenure_redis::connect(url));
    connecting.await.expect("it ends")
}

/// The port of the master that the sentinel names; nothing once it has done so.
static MASTER: AtomicU16 = AtomicU16::new(0);

/// A sentinel that names a master once and announces another one. From then on its errors begin
/// with the password, in the place of a code.
fn sentinel(command: &str) -> String {
    match command.split(' ').next().unwrap() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "SUBSCRIBE" => ["+switch-master", "+failover-state-reconf-slaves"]
            .map(|channel| format!(">3\r\n$9\r\nsubscribe\r\n{}:1\r\n", bulk(channel)))
            .concat(),
        "SENTINEL" => match MASTER.swap(0, Ordering::Relaxed) {
            0 => format!("-{SECRET} it is\r\n"),
            port => {
                let master = format!("*2\r\n{}{}", bulk("127.0.0.1"), bulk(&port.to_string()));
                let news = bulk("+switch-master") + &bulk("main 1 2 3 4");
                format!("{master}>3\r\n{}{news}", bulk("message"))
            }
        },
        _ => "+OK\r\n".to_owned(),
    }
}

#[tokio::test]
async fn a_server_that_says_the_password_has_it_told_by_nothing() {
    tracing::subscriber::set_global_default(Log).unwrap();
    let locks = connect(format!("redis://:{SECRET}@{}", server(greeting))).await.unwrap();
    let warnings = locks.guarantees().warnings.join("\n");
    assert!(warnings.contains("maxmemory-policy") && !warnings.contains(PART), "{warnings}");
    let error = locks.mutex("a").lock().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(PART), "{error}");

    let master = server(greeting).rsplit_once(':').unwrap().1.parse().unwrap();
    MASTER.store(master, Ordering::Relaxed);
    let url = format!("redis+sentinel://:{SECRET}@{}/main", server(sentinel));
    let _locks = connect(url).await.unwrap();
    let began = Instant::now();
    while !logged().contains("no sentinel says") {
        assert!(began.elapsed() < PATIENCE, "it is logged: {}", logged());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!logged().contains(PART), "{}", logged());
}
