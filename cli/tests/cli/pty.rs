//! A real terminal, controlled by a session of its own.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::kit::{code, eventually};

/// Names the command that [`becomes_a_session`] becomes.
const VARIABLE: &str = "TENURE_TEST_SESSION";

pub(crate) struct Pty {
    master: File,
    shown: Arc<Mutex<String>>,
    child: Child,
    reader: JoinHandle<()>,
    seen: usize,
}

impl Pty {
    /// Starts a command as the leader of a session in a terminal of `columns` columns.
    pub(crate) fn start(command: &Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let mut session = Command::new(std::env::current_exe().unwrap());
        session.args(["--exact", "pty::becomes_a_session"]).env(VARIABLE, encode(command));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let child =
            session.stdin(slave).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let master = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reader, theirs) = (master.try_clone().unwrap(), shown.clone());
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        Self { master, shown, child, reader, seen: 0 }
    }

    /// The leader of the session.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    /// Changes the size of the terminal.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).unwrap();
    }

    /// Types something.
    pub(crate) fn write(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows a text after the previous one.
    pub(crate) fn shows(&mut self, text: &str) {
        eventually(&format!("{text:?} on the terminal"), || {
            let shown = self.shown.lock().unwrap();
            let Some(at) = shown[self.seen..].find(text) else {
                return false;
            };
            self.seen += at + text.len();
            true
        });
    }

    /// Waits for the end: its [code], and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = code(self.child.wait().unwrap());
        // Output in transit arrives before the terminal hangs up.
        eventually("the end of the terminal", || self.reader.is_finished());
        let shown = self.shown.lock().unwrap().clone();
        (code, shown)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encode(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join("\u{1f}")
}

/// Not a test: this program again, as the leader of a session in the terminal on its standard
/// input.
#[test]
fn becomes_a_session() {
    let Ok(words) = std::env::var(VARIABLE) else { return };
    rustix::process::setsid().unwrap();
    rustix::process::ioctl_tiocsctty(io::stdin()).unwrap();
    rustix::stdio::dup2_stdout(io::stdin()).unwrap();
    rustix::stdio::dup2_stderr(io::stdin()).unwrap();
    let mut words = words.split('\u{1f}');
    let error = Command::new(words.next().unwrap()).args(words).env_remove(VARIABLE).exec();
    panic!("{error}");
}
