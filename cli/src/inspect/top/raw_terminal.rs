//! A terminal whose keys arrive one by one, with a screen of its own that leaves no trace.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::{panic, thread};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Changes to the other screen, and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Shows the cursor, and changes back.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Size of a terminal that does not report its own.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// The terminal, until it is dropped. A panic restores it, too, before its message is written.
pub(super) struct RawTerminal(Arc<Saved>);

struct Saved {
    tty: OwnedFd,
    before: Termios,
}

impl RawTerminal {
    /// Takes the terminal. The keys that send signals still do.
    pub(super) fn enter(tty: impl AsFd) -> io::Result<Self> {
        let tty = tty.as_fd().try_clone_to_owned()?;
        let saved = Arc::new(Saved { before: tcgetattr(&tty)?, tty });
        let terminal = Self(saved.clone());
        terminal.resume()?;
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            saved.restore();
            report(panicked);
        }));
        Ok(terminal)
    }

    /// Gives the terminal back, until [`resume`](Self::resume).
    pub(super) fn pause(&self) {
        self.0.restore();
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        let mut raw = self.0.before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(&self.0.tty, OptionalActions::Now, &raw)?;
        self.0.write(ENTER)
    }

    /// The columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.0.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => SIZE_DEFAULT,
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }
}

impl Saved {
    fn restore(&self) {
        // The terminal may have hung up, and nothing else could restore it.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        // A file writes everything, and standard output would keep incomplete lines back.
        let mut file = std::fs::File::from(self.tty.try_clone()?);
        file.write_all(bytes)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.0.restore();
        if !thread::panicking() {
            // No other part of this program sets a hook, so the default one comes back.
            drop(panic::take_hook());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_panic_and_an_end_restore_the_terminal() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let modes = || tcgetattr(&slave).unwrap().local_modes;
        let (before, mut master) = (modes(), File::from(master));
        for panics in [false, true] {
            let ended = thread::scope(|scope| {
                let inside = scope.spawn(|| {
                    let terminal = RawTerminal::enter(&slave).unwrap();
                    assert_eq!(modes(), before - (LocalModes::ICANON | LocalModes::ECHO));
                    assert_eq!(terminal.size(), SIZE_DEFAULT);
                    assert!(!panics, "on purpose");
                });
                inside.join()
            });
            assert_eq!((ended.is_err(), modes()), (panics, before));
            let mut bytes = [0; 256];
            let length = master.read(&mut bytes).unwrap();
            assert!(bytes[..length].starts_with(ENTER) && bytes[..length].ends_with(LEAVE));
        }
        drop(panic::take_hook());
    }
}
