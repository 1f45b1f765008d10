//! The owner of a ticket, as this command writes it into a line: `backup.sh[4711] alice@db1`.
//!
//! The parts are the name of the program that runs under the lock, the process id of `tenure`, the
//! user and the machine. The arguments of the program are left out, because they may hold
//! passwords. Other programs of the library write `program[pid]@machine`, or any other text.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use nix::unistd::{User, geteuid};
use tenure::limits::OWNER_BYTES_MAX;

use crate::screen::is_unprintable;

/// Maximum length of the program, of the user and of the machine, in bytes of UTF-8.
const PART_BYTES_MAX: usize = 64;
const _: () = assert!(3 * PART_BYTES_MAX + "[4294967295] @".len() <= OWNER_BYTES_MAX);

/// The program of the owner of a claim: its name in `ps`.
pub(crate) const CLAIM_HOLDER: &str = "claim-holder";

/// Stands for an unprintable character, as in `ls -q`, and for one that separates two parts.
const REPLACEMENT: char = '?';

/// The parts of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerParts {
    pub(crate) program: String,
    pub(crate) pid: u32,
    /// `None` in the form of the library.
    pub(crate) user: Option<String>,
    pub(crate) host: String,
}

impl OwnerParts {
    /// Returns this process as the owner; `program` is the command that it runs, if it runs one.
    pub(crate) fn of_this_process(program: Option<&OsStr>) -> Self {
        let program = program.and_then(|program| Path::new(program).file_name());
        let program = program.map_or("tenure".into(), OsStr::to_string_lossy);
        let user = match User::from_uid(geteuid()) {
            Ok(Some(user)) => user.name,
            // The number is as exact as a name.
            Ok(None) | Err(_) => geteuid().to_string(),
        };
        Self::new(&program, std::process::id(), &user, host())
    }

    fn new(program: &str, pid: u32, user: &str, host: String) -> Self {
        let user = Some(part(user, |letter| letter == ']'));
        Self { program: part(program, |_| false), pid, user, host }
    }

    /// Reads the form of this command or that of the library. `None` for any other text.
    pub(crate) fn parse(owner: &str) -> Option<Self> {
        // Read from the end: the name of a program may hold any character.
        let (rest, host) = owner.rsplit_once('@')?;
        let (process, user) = match rest.strip_suffix(']') {
            Some(process) => (process, None),
            None => rest.rsplit_once("] ").map(|(process, user)| (process, Some(user)))?,
        };
        let (program, pid) = process.rsplit_once('[')?;
        let is_number = pid.bytes().all(|digit| digit.is_ascii_digit());
        let is_whole = !program.is_empty()
            && user.is_none_or(|user| !user.is_empty())
            && !host.is_empty()
            && !host.contains(char::is_whitespace);
        (is_number && is_whole).then_some(())?;
        Some(Self {
            program: program.to_owned(),
            pid: pid.parse().ok()?,
            user: user.map(str::to_owned),
            host: host.to_owned(),
        })
    }

    /// Whether an owner is the holder of a claim, which no command runs under.
    pub(crate) fn is_claim(owner: &str) -> bool {
        // The library's form has no user.
        Self::parse(owner).is_some_and(|it| it.user.is_some() && it.program == CLAIM_HOLDER)
    }

    /// Whether the process of this owner is on this machine and stopped, as by SIGSTOP or Ctrl-Z.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn is_stopped(owner: &str) -> bool {
        let Some(parts) = Self::parse(owner).filter(|parts| parts.host == self::host()) else {
            return false;
        };
        let state = std::fs::read_to_string(format!("/proc/{}/stat", parts.pid));
        // The state stands behind the name, which may hold any character.
        state.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    }

    /// The state of a process cannot be read here.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn is_stopped(_: &str) -> bool {
        false
    }

    /// Whether the owner is this process.
    pub(crate) fn is_this_process(&self) -> bool {
        self.pid == std::process::id() && self.host == host()
    }
}

impl fmt::Display for OwnerParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, pid, user, host } = self;
        match user {
            Some(user) => write!(f, "{program}[{pid}] {user}@{host}"),
            None => write!(f, "{program}[{pid}]@{host}"),
        }
    }
}

/// The name of this machine.
fn host() -> String {
    host_part(&rustix::system::uname().nodename().to_string_lossy())
}

fn host_part(name: &str) -> String {
    part(name, |letter| letter == '@' || letter.is_whitespace())
}

/// Returns a part of limited length without unprintable characters and separators.
fn part(text: &str, is_separator: fn(char) -> bool) -> String {
    let mut part = String::new();
    for letter in text.chars() {
        let replaced = is_unprintable(letter) || is_separator(letter);
        let letter = if replaced { REPLACEMENT } else { letter };
        if part.len() + letter.len_utf8() > PART_BYTES_MAX {
            break;
        }
        part.push(letter);
    }
    if part.is_empty() { REPLACEMENT.into() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(program: &str, pid: u32, user: Option<&str>, host: &str) -> OwnerParts {
        let (program, host) = (program.to_owned(), host.to_owned());
        OwnerParts { program, pid, user: user.map(str::to_owned), host }
    }

    #[test]
    fn both_forms_are_read_back() {
        for (text, expected) in [
            ("backup.sh[4711] alice@db1", parts("backup.sh", 4711, Some("alice"), "db1")),
            ("worker[12]@db1", parts("worker", 12, None, "db1")),
            ("a b@c[1] x[2] al.ice@corp@db1", parts("a b@c[1] x", 2, Some("al.ice@corp"), "db1")),
            ("a] b[3]@db1", parts("a] b", 3, None, "db1")),
            ("[[4] john doe@db1", parts("[", 4, Some("john doe"), "db1")),
        ] {
            assert_eq!(OwnerParts::parse(text), Some(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn any_other_text_has_no_parts() {
        for text in [
            "",
            "worker-7",
            "me@db1",
            "worker[12]",
            "worker[]@db1",
            "worker[+1]@db1",
            "worker[99999999999]@db1",
            "worker[x] me@db1",
            "[12]@db1",
            "worker[12] @db1",
            "worker[12]@",
            "worker[12]@the db1",
            "row [12] of alice@ 5",
        ] {
            assert_eq!(OwnerParts::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_owner_is_printable_and_fits_and_is_read_back() {
        let long = "é".repeat(300);
        for text in ["plain", "a\u{1b}[2J\n\u{202e}", "] ", "@", "a b", "[1]", "", "\0", &long] {
            let owner = OwnerParts::new(text, u32::MAX, text, host_part(text));
            let shown = owner.to_string();
            assert!(shown.len() <= OWNER_BYTES_MAX, "{shown}");
            assert!(!shown.chars().any(is_unprintable), "{shown:?}");
            assert_eq!(OwnerParts::parse(&shown), Some(owner), "{shown}");
        }
    }

    #[test]
    fn a_program_is_the_name_of_its_file() {
        let name = |program: &str| OwnerParts::of_this_process(Some(program.as_ref())).program;
        assert_eq!(name("./jobs/backup.sh"), "backup.sh");
        assert_eq!(name("/usr/bin/my job"), "my job");
        assert_eq!(name("/"), "tenure");
        let own = OwnerParts::of_this_process(None);
        assert_eq!((own.program.as_str(), own.pid), ("tenure", std::process::id()));
        assert!(own.is_this_process());
        assert!(!OwnerParts { pid: own.pid + 1, ..own.clone() }.is_this_process());
        assert!(!OwnerParts { host: "another machine".into(), ..own }.is_this_process());
    }
}
