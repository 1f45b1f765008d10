//! Which store is meant, and the way to it.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tenure::Locks;
use tenure::blocking::block_on;

use crate::failure::{Failure, REFUSED, UNREACHABLE, say};

/// The environment's word for the store.
pub(crate) const VARIABLE: &str = "TENURE_ON";

/// The word for the store that the users of this machine share.
const MACHINE: &str = "machine:";
/// Where that is.
const MACHINE_PATH: &str =
    if cfg!(target_vendor = "apple") { "/var/db/tenure" } else { "/var/lib/tenure" };

/// Options of URLs that name a file.
const FILES: [&str; 3] = ["ca", "cert", "key"];

/// What the user said about the store.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) on: Option<String>,
    /// Warnings are not to be shown.
    pub(crate) quiet: bool,
}

impl Address {
    /// The store's URL: from the command line, else from the environment, else the user's own.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.on {
            return named(url);
        }
        match env::var_os(VARIABLE).filter(|url| !url.is_empty()) {
            Some(url) => match url.into_string() {
                Ok(url) => named(&url),
                Err(_) => Err(Failure::usage(format!("the URL in {VARIABLE} is not UTF-8"))),
            },
            None => own(),
        }
    }

    /// The locks of a store that is only looked at: it is not made for that. One that is named must be there; of one
    /// that is not, `nothing` is told.
    pub(crate) fn look(&self, nothing: impl FnOnce() -> Failure) -> Result<Locks, Failure> {
        let url = self.url()?;
        if !url.starts_with("file:") {
            return Ok(block_on(tenure::connect(url))?);
        }
        match tenure_file::connect_existing(&url)? {
            Some(store) => Ok(Locks::new(store)),
            None if self.is_named() => Err(Failure::new(
                UNREACHABLE,
                format!("there is no store at {url}: whoever first locks something there makes it"),
            )),
            None => Err(nothing()),
        }
    }

    fn is_named(&self) -> bool {
        self.on.is_some() || env::var_os(VARIABLE).is_some_and(|url| !url.is_empty())
    }

    /// The locks of the store, for commands that need no signals.
    pub(crate) fn open(&self) -> Result<Locks, Failure> {
        Ok(block_on(tenure::connect(self.url()?))?)
    }

    /// The same, for what others will rely on: they should know how far they can.
    pub(crate) fn open_aloud(&self) -> Result<Locks, Failure> {
        refuse_memory(&self.url()?)?;
        let locks = self.open()?;
        self.warn(&locks);
        Ok(locks)
    }

    /// Says what the store's operator should know about it.
    pub(crate) fn warn(&self, locks: &Locks) {
        let warnings = locks.guarantees().warnings.iter().filter(|_| !self.quiet);
        warnings.for_each(|warning| say(&format!("warning: {warning}")));
        if let Some(user) = self.other_user().filter(|_| !self.quiet) {
            say(&format!(
                "warning: this store is root's own, and excludes nothing that {user} runs without sudo: name one \
                 that both use, with --on machine: or in {VARIABLE}"
            ));
        }
    }

    /// Who uses `sudo`, and has a store of their own.
    fn other_user(&self) -> Option<String> {
        let user = env::var("SUDO_USER").ok().filter(|user| user != "root")?;
        (!self.is_named() && geteuid().is_root()).then_some(user)
    }
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) locks: Locks,
    /// As long as this is open somewhere, the locks that were got here are kept: those of files.
    pub(crate) lifeline: Option<OwnedFd>,
}

impl Opened {
    /// The same, for an owner of this name.
    pub(crate) fn owned_by(self, owner: &str) -> tenure::Result<Self> {
        Ok(Self { locks: self.locks.owned_by(owner)?, ..self })
    }
}

/// Opens the store of this URL.
pub(crate) async fn open(url: &str) -> tenure::Result<Opened> {
    if url.starts_with("file:") {
        let store = tenure_file::connect(url)?;
        let lifeline = Some(store.lifeline()?);
        return Ok(Opened { locks: Locks::new(store), lifeline });
    }
    refuse_memory(url)?;
    Ok(Opened { locks: tenure::connect(url).await?, lifeline: None })
}

/// A store that this process alone can see locks nothing for a shell.
fn refuse_memory(url: &str) -> tenure::Result<()> {
    if url.starts_with("memory:") {
        return Err(tenure::Error::unsupported(
            "memory: is seen by one process alone, and excludes nobody here: use file:DIR, or leave --on out",
        ));
    }
    Ok(())
}

/// The URL that somebody has named.
fn named(url: &str) -> Result<String, Failure> {
    if url != MACHINE {
        return Ok(settled(url));
    }
    // Nobody but root can make it so that its users need not trust the first of them.
    if Path::new(MACHINE_PATH).is_dir() {
        return Ok(format!("file:{MACHINE_PATH}"));
    }
    Err(Failure::new(
        REFUSED,
        format!(
            "this machine has no store yet that its users share: root makes it once, for a group whose members trust \
             one another, as in: install -d -o root -g GROUP -m 2770 {MACHINE_PATH}"
        ),
    ))
}

/// The same URL, however the current directory changes: a command that is run may change it, and
/// must find the same store.
fn settled(url: &str) -> String {
    let Ok(here) = env::current_dir() else { return url.to_owned() };
    let here = escaped(&here);
    if let Some(path) = url.strip_prefix("file:") {
        let is_relative = !path.is_empty() && !path.starts_with(['/', '?']);
        return if is_relative { format!("file:{here}/{path}") } else { url.to_owned() };
    }
    let Some((address, options)) = url.split_once('?') else { return url.to_owned() };
    let settle = |option: &str| match option.split_once('=') {
        Some((name, path)) if FILES.contains(&name) && is_relative(path) => {
            format!("{name}={here}/{path}")
        }
        _ => option.to_owned(),
    };
    let options: Vec<String> = options.split('&').map(settle).collect();
    format!("{address}?{}", options.join("&"))
}

/// Whether a path, as a URL has it, begins where this process happens to be.
fn is_relative(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && !path.to_ascii_uppercase().starts_with("%2F")
}

/// A store in the directory where this user's programs keep their state.
fn own() -> Result<String, Failure> {
    let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let home = || env::home_dir().filter(|home| home.is_absolute());
    let state = if cfg!(target_vendor = "apple") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        let state = set("XDG_STATE_HOME").and_then(absolute);
        state.or_else(|| Some(home()?.join(".local/state")))
    };
    match state {
        Some(state) => Ok(format!("file:{}", escaped(&state.join("tenure")))),
        None => Err(Failure::usage(format!(
            "there is no home to keep a store in: name a store with --on, or in {VARIABLE}"
        ))),
    }
}

/// A path as a URL has it.
fn escaped(path: &Path) -> String {
    let mut url = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                url.push(char::from(*byte));
            }
            _ => write!(url, "%{byte:02x}").expect("a string takes everything"),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_an_address() {
        assert_eq!(escaped(Path::new("/a b/ü%?")), "/a%20b/%c3%bc%25%3f");
    }

    #[test]
    fn a_relative_address_is_settled_and_others_are_left_alone() {
        let here = escaped(&env::current_dir().unwrap());
        assert_eq!(settled("file:locks?network=allow"), format!("file:{here}/locks?network=allow"));
        assert_eq!(
            settled("rediss://h?prefix=ca&ca=a.pem&cert=/b&key=%2fc"),
            format!("rediss://h?prefix=ca&ca={here}/a.pem&cert=/b&key=%2fc")
        );
        for url in
            ["file:/var/locks", "file:", "memory:", "redis://user:secret@host", "rediss://h?ca="]
        {
            assert_eq!(settled(url), url);
        }
    }
}
