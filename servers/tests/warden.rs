//! No server outlives the process that started it, in whatever way that process ends.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use tenure_servers::redis::{REDIS, Server, Setup};
use tenure_servers::{Result, have, postgres};

/// The variable that makes this process the starter, and says how it ends.
const END: &str = "TENURE_SERVERS_TEST_END";
/// Time limit of the warden.
const GONE_MAX: Duration = Duration::from_secs(20);

/// A process that the starter left behind, as it reported it.
struct Left {
    pid: String,
    folder: String,
}

#[test]
fn servers_end_with_their_process() {
    if !have(&[REDIS, postgres::POSTGRES]) {
        return;
    }
    for end in ["return", "exit", "kill", "group"] {
        let mut starter = start(end);
        let output = starter.stdout.take().expect("it was asked for");
        // Keeps the pipe open: without it the starter could not print its later lines.
        let mut output = BufReader::new(output);
        let left = reported(&mut output);
        if ["kill", "group"].contains(&end) {
            for one in &left {
                assert!(is_there(one), "{end}: it runs until its starter is killed");
            }
            let target = format!("{}{}", if end == "group" { "-" } else { "" }, starter.id());
            let killed = Command::new("sh").args(["-c", &format!("kill -KILL {target}")]).status();
            assert!(killed.is_ok_and(|status| status.success()));
        }
        starter.wait().expect("it has been started");
        let asked = Instant::now();
        while left.iter().any(is_there) {
            assert!(asked.elapsed() < GONE_MAX, "{end}: a server or its folder is left");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Not a test, but the starter: a process that starts servers in a thread that ends before it.
#[test]
fn starter() -> Result<()> {
    let Ok(end) = env::var(END) else { return Ok(()) };
    let servers = thread::spawn(|| -> Result<_> {
        let (one, frozen) = (Server::start()?, Setup::new().appendonly().start()?);
        frozen.freeze()?;
        let many = postgres::Server::start()?;
        let children = many.sql("SELECT pid FROM pg_stat_activity WHERE datname IS NULL")?;
        many.freeze()?;
        Ok(([one, frozen], many, children))
    });
    let (servers, many, children) = servers.join().expect("it does not panic")?;
    assert_eq!(servers[0].command(&["PING"])?.text()?, "PONG", "its thread has ended, it has not");
    for server in &servers {
        println!("left {} {}", server.pid()?, server.folder().display());
    }
    for pid in children.lines().chain([many.pid()?.to_string().as_str()]) {
        println!("left {pid} {}", many.folder().display());
    }
    println!("left all");
    match end.as_str() {
        "return" => std::mem::forget((servers, many)),
        "exit" => process::exit(0),
        _ => loop {
            thread::park();
        },
    }
    Ok(())
}

fn start(end: &str) -> Child {
    use std::os::unix::process::CommandExt as _;
    let program = env::current_exe().expect("this is a program");
    let mut starter = Command::new(program);
    starter.args(["--exact", "starter", "--nocapture"]).env(END, end).process_group(0);
    starter.stdin(Stdio::null()).stdout(Stdio::piped());
    starter.spawn().expect("this program can be started again")
}

fn reported(output: &mut BufReader<ChildStdout>) -> Vec<Left> {
    let lines = output.lines().map(|line| line.expect("it is text"));
    let left = lines.filter_map(|line| Some(line.split_once("left ")?.1.to_string()));
    let left = left.take_while(|line| line != "all").map(|line| {
        let (pid, folder) = line.split_once(' ').expect("there are two words");
        Left { pid: pid.into(), folder: folder.into() }
    });
    let left: Vec<Left> = left.collect();
    assert!(left.len() > 5);
    left
}

/// Whether the process, its shared memory, its folder or the parent folder is left.
fn is_there(left: &Left) -> bool {
    let folder = Path::new(&left.folder);
    let command = fs::read(format!("/proc/{}/cmdline", left.pid)).unwrap_or_default();
    let command = String::from_utf8_lossy(&command);
    let runs = command.contains("redis-server") || command.contains("postgres");
    let memory = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let is_creator = |line: &str| line.split_whitespace().nth(4) == Some(&left.pid);
    let is_held = memory.lines().any(is_creator);
    runs || is_held || folder.exists() || folder.parent().is_some_and(Path::exists)
}
