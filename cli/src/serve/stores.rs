//! The stores of one server, and their names.

use std::collections::HashSet;
use std::panic::resume_unwind;
use std::time::Duration;
use std::{env, thread};

use tenure::Locks;
use tenure::engine::Backoff;
use tenure::serve::Mounts;
use tokio::sync::mpsc;

use crate::failure::{Failure, UNREACHABLE, say};
use crate::store::{Address, VARIABLE, opened_or_awaited, without_secrets};

/// Pauses between two tries to open a store.
const OPEN_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// A store, and its name in paths and metrics.
#[derive(Clone)]
pub(super) struct NamedStore {
    pub(super) name: String,
    pub(super) address: Address,
}

/// Stores, each with the outcome of opening it.
pub(super) type OpenedStores = Vec<(NamedStore, Result<Locks, Failure>)>;

/// Opens the stores, at the same time. One store is waited for until it exists. Of several, one
/// must be open: the failures of the others are returned with them.
///
/// # Errors
///
/// No store is open, or the server of one refuses this client.
pub(super) fn open(stores: Vec<NamedStore>) -> Result<OpenedStores, Failure> {
    let waits = stores.len() == 1;
    let opened: Vec<_> = thread::scope(|scope| {
        let open = |store| scope.spawn(move || NamedStore::open(store, waits));
        let opened: Vec<_> = stores.iter().map(open).collect();
        let joined = opened.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let are_down = opened.iter().all(Result::is_err);
    let outcome = |(store, outcome): (NamedStore, Result<Locks, Failure>)| match outcome {
        Err(failure) if are_down || failure.code() != UNREACHABLE => Err(failure),
        outcome => Ok((store, outcome)),
    };
    stores.into_iter().zip(opened).map(outcome).collect()
}

/// Tries to open a store until it is open, in a thread, and sends each outcome. Reports each new
/// reason why it is not open.
pub(super) fn open_later(
    store: NamedStore,
    mut reason: String,
    outcomes: mpsc::Sender<(NamedStore, Result<Locks, Failure>)>,
) {
    thread::spawn(move || {
        let mut backoff = OPEN_BACKOFF;
        loop {
            say(&format!("trying {} again: {reason}", store.name));
            let outcome = loop {
                thread::sleep(backoff.pause());
                match store.open(false) {
                    Err(failure) if failure.sentence() == reason => {}
                    outcome => break outcome,
                }
            };
            if let Err(failure) = &outcome {
                failure.sentence().clone_into(&mut reason);
            }
            let is_open = outcome.is_ok();
            if outcomes.blocking_send((store.clone(), outcome)).is_err() || is_open {
                return;
            }
        }
    });
}

impl NamedStore {
    /// Opens the store, and prints its warnings.
    fn open(&self, waits: bool) -> Result<Locks, Failure> {
        let locks = if waits {
            opened_or_awaited(&self.address)?
        } else {
            self.address.look(UNREACHABLE)?
        };
        self.address.warn(&locks);
        Ok(locks)
    }
}

/// Returns the stores of `--on`, else those of the environment, else the user's own.
pub(super) fn of(at: &Address, on: &[String]) -> Result<Vec<NamedStore>, Failure> {
    let of_environment = env::var(VARIABLE).unwrap_or_default();
    let of_environment = of_environment.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut entries: Vec<&str> = on.iter().map(String::as_str).collect();
    if entries.is_empty() {
        entries.extend(of_environment);
        if entries.is_empty() || entries.len() == 1 && split(entries[0]).0.is_none() {
            let address = address(at, None);
            return Ok(vec![NamedStore { name: derived(&address.url()?), address }]);
        }
    }
    let mut names = HashSet::new();
    let mut stores = Vec::new();
    for entry in entries {
        let (name, url) = split(entry);
        let address = address(at, Some(url.to_owned()));
        // The URL has its path made absolute here, and is checked.
        let name =
            name.map_or_else(|| address.url().map(|url| derived(&url)), |it| Ok(it.into()))?;
        Mounts::check_name(&name).map_err(|error| {
            Failure::usage(format!("{error}; --on NAME=URL gives a name to a store"))
        })?;
        if !names.insert(name.clone()) {
            return Err(Failure::usage(format!(
                "two stores have the name `{name}`: name one of them, as in --on NAME=URL"
            )));
        }
        stores.push(NamedStore { name, address });
    }
    Ok(stores)
}

fn address(at: &Address, on: Option<String>) -> Address {
    Address { on, quiet: at.quiet, make: at.make, program: None }
}

/// Splits `NAME=URL`. A URL has a `:` before its first `=`.
fn split(entry: &str) -> (Option<&str>, &str) {
    match entry.split_once('=') {
        Some((name, url)) if !name.contains(':') => (Some(name), url),
        _ => (None, entry),
    }
}

/// The name of a store without one: host, port and path of its URL.
fn derived(url: &str) -> String {
    let url = without_secrets(url);
    let rest = url.split_once(':').map_or(url.as_str(), |(_, rest)| rest);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let parts = rest.split(|letter| !is_plain(letter)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_the_name_of_its_host_and_path_and_no_password() {
        for (url, name) in [
            ("redis://user:secret@db1:6379/2?password=secret", "db1-6379-2"),
            ("mongodb://a,b:27018/db", "a-b-27018-db"),
            #[cfg(feature = "file")]
            ("file:/var/lib/tenure", "var-lib-tenure"),
        ] {
            assert_eq!(derived(url), name, "{url}");
        }
    }

    #[test]
    fn a_name_stands_before_the_url() {
        assert_eq!(split("shop=redis://db?a=b"), (Some("shop"), "redis://db?a=b"));
        assert_eq!(split("redis://db?a=b"), (None, "redis://db?a=b"));
        assert_eq!(split("file:/a=b"), (None, "file:/a=b"));
    }
}
