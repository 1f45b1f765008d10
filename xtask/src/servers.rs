//! A server is a real store that tests talk to: it stands somewhere, or is started for the run.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crate::process::{Result, not_started};

/// How long a server may take until it accepts a connection.
const READY_MAX: Duration = Duration::from_secs(20);
/// How often that is tried.
const READY_PAUSE: Duration = Duration::from_millis(10);

/// One kind of server: how it is found, and how it is started.
pub(crate) trait Server {
    /// The engine that needs it, which is also the scheme of its URL.
    fn engine(&self) -> &'static str;

    /// The program that is looked for on the PATH.
    fn program(&self) -> &'static str;

    /// The call that starts it on 127.0.0.1 at `port`, with everything it writes kept in `folder`.
    fn call(&self, port: u16, folder: &Path) -> Command;

    /// Where an engine finds it when it was started at `port`.
    fn url(&self, port: u16) -> String;
}

/// Every server that an engine of this workspace needs. A new one goes into a file of its own,
/// `servers/ENGINE.rs`, and into this list.
pub(crate) fn known() -> Vec<Box<dyn Server>> {
    Vec::new()
}

/// One line for each server: how it is found here.
pub(crate) fn listing(servers: &[Box<dyn Server>]) -> String {
    if servers.is_empty() {
        return "No engine that stands needs a server.".into();
    }
    let lines = servers.iter().map(|server| {
        let (engine, variable) = (server.engine(), variable(server.as_ref()));
        if let Some(url) = stands(&variable) {
            return format!("{engine}: stands at {url}, says {variable}.");
        }
        match on_path(server.program()) {
            Some(program) => format!("{engine}: is started from {}.", program.display()),
            None => absent(server.as_ref()),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Starts every server that does not stand already. One that is absent is said aloud, and is left
/// to the tests that need it.
pub(crate) fn start(servers: &[Box<dyn Server>]) -> Result<Running> {
    let home = env::temp_dir().join(format!("tenure-servers-{}", process::id()));
    let mut running = Running { home, started: Vec::new() };
    for server in servers {
        if stands(&variable(server.as_ref())).is_some() {
            continue;
        }
        if on_path(server.program()).is_none() {
            println!("{}", absent(server.as_ref()));
            continue;
        }
        running.add(server.as_ref())?;
    }
    Ok(running)
}

/// `cargo xtask servers run`: a command between the start and the stop of all servers.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let running = start(&known())?;
    let mut command = Command::new(program);
    command.args(arguments).envs(running.addresses());
    let status = command.status().map_err(|error| not_started(&command, &error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Servers that were started for this run. Dropping them stops them.
pub(crate) struct Running {
    home: PathBuf,
    started: Vec<Started>,
}

struct Started {
    variable: String,
    url: String,
    child: Child,
}

impl Running {
    /// The environment in which tests find them.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.started.iter().map(|one| (one.variable.as_str(), one.url.as_str()))
    }

    fn add(&mut self, server: &dyn Server) -> Result<()> {
        let engine = server.engine();
        let folder = self.home.join(engine);
        fs::create_dir_all(&folder)
            .map_err(|error| format!("{} cannot be made: {error}.", folder.display()))?;
        let port = free_port()?;
        let mut call = server.call(port, &folder);
        call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = call.spawn().map_err(|error| not_started(&call, &error))?;
        self.started.push(Started { variable: variable(server), url: server.url(port), child });
        let started = self.started.last_mut().expect("it has just been put there");
        started.ready(port).map_err(|reason| format!("{engine}: its server {reason}."))
    }
}

impl Started {
    fn ready(&mut self, port: u16) -> Result<()> {
        let asked = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended at once with {status}"));
            }
            if asked.elapsed() > READY_MAX {
                return Err(format!("was not ready in {READY_MAX:?}"));
            }
            thread::sleep(READY_PAUSE);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for one in &mut self.started {
            // It may be gone already, and nothing it has written is wanted.
            let _ = one.child.kill();
            let _ = one.child.wait();
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn variable(server: &dyn Server) -> String {
    format!("TENURE_TEST_{}_URL", server.engine().to_uppercase())
}

fn stands(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn absent(server: &dyn Server) -> String {
    let (engine, program) = (server.engine(), server.program());
    format!("{engine}: is absent. Install {program}, or set {}.", variable(server))
}

fn free_port() -> Result<u16> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("There is no free port: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listens by itself, and starts a program that does not.
    struct Fake {
        program: &'static str,
        argument: &'static str,
        listens: bool,
    }

    impl Server for Fake {
        fn engine(&self) -> &'static str {
            "fake"
        }

        fn program(&self) -> &'static str {
            self.program
        }

        fn call(&self, port: u16, folder: &Path) -> Command {
            assert!(folder.is_dir());
            if self.listens {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
                thread::spawn(move || listener.expect("the port is free").accept());
            }
            let mut command = Command::new(self.program);
            command.arg(self.argument);
            command
        }

        fn url(&self, port: u16) -> String {
            format!("fake://127.0.0.1:{port}")
        }
    }

    fn one(program: &'static str, argument: &'static str, listens: bool) -> Vec<Box<dyn Server>> {
        vec![Box::new(Fake { program, argument, listens })]
    }

    #[test]
    fn the_listing_says_how_each_is_found() {
        assert_eq!(listing(&[]), "No engine that stands needs a server.");
        assert!(listing(&one("cargo", "", false)).starts_with("fake: is started from "));
        let absent = "fake: is absent. Install no-such-program, or set TENURE_TEST_FAKE_URL.";
        assert_eq!(listing(&one("no-such-program", "", false)), absent);
    }

    #[test]
    #[cfg(unix)]
    fn what_was_started_is_found_and_stopped() {
        let running = start(&one("sleep", "60", true)).expect("it listens");
        let (variable, url) = running.addresses().next().expect("it was started");
        assert_eq!(variable, "TENURE_TEST_FAKE_URL");
        assert!(url.starts_with("fake://127.0.0.1:"));
        let (home, asked) = (running.home.clone(), Instant::now());
        drop(running);
        assert!(!home.exists());
        assert!(asked.elapsed() < Duration::from_secs(30), "it was not waited out, but stopped");

        let failed = start(&one("sleep", "0", false)).err().expect("it ends without listening");
        assert!(failed.starts_with("fake: its server ended at once"), "{failed}");
        assert!(start(&one("no-such-program", "", false)).is_ok_and(|it| it.started.is_empty()));
    }
}
