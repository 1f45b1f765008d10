//! Which store is meant, and the way to it.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tenure::Locks;
use tenure::blocking::block_on;

use crate::failure::Failure;

/// The environment's word for the store.
pub(crate) const VARIABLE: &str = "TENURE_ON";

/// What the user said about the store.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) on: Option<String>,
}

impl Address {
    /// The store's URL: from the command line, else from the environment, else the user's own.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.on {
            return Ok(settled(url));
        }
        match env::var_os(VARIABLE).filter(|url| !url.is_empty()) {
            Some(url) => match url.into_string() {
                Ok(url) => Ok(settled(&url)),
                Err(_) => Err(Failure::usage(format!("the URL in {VARIABLE} is not UTF-8"))),
            },
            None => own(),
        }
    }

    /// The locks of the store, for commands that need no signals.
    pub(crate) fn open(&self) -> Result<Locks, Failure> {
        Ok(block_on(tenure::connect(self.url()?))?)
    }
}

/// The same URL, however the current directory changes: a command that is run may change it, and
/// must find the same store.
fn settled(url: &str) -> String {
    let Some(path) = url.strip_prefix("file:").filter(|path| !path.is_empty()) else {
        return url.to_owned();
    };
    match env::current_dir() {
        Ok(here) if !path.starts_with(['/', '?']) => {
            let mut settled = address(&here);
            let _ = write!(settled, "/{path}");
            settled
        }
        _ => url.to_owned(),
    }
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
        Some(state) => Ok(address(&state.join("tenure"))),
        None => Err(Failure::usage(format!(
            "there is no home to keep a store in: name a store with --on, or in {VARIABLE}"
        ))),
    }
}

fn address(path: &Path) -> String {
    let mut url = String::from("file:");
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
        assert_eq!(address(Path::new("/a b/ü%?")), "file:/a%20b/%c3%bc%25%3f");
    }

    #[test]
    fn a_relative_address_is_settled_and_others_are_left_alone() {
        let here = address(&env::current_dir().unwrap());
        assert_eq!(settled("file:locks?network=allow"), format!("{here}/locks?network=allow"));
        for url in ["file:/var/locks", "file:", "memory:", "redis://user:secret@host"] {
            assert_eq!(settled(url), url);
        }
    }
}
