//! The store: its URL, and opening it.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
#[cfg(feature = "file")]
use std::{fs, os::unix::fs::MetadataExt as _};

use rustix::process::geteuid;
use tenure::Locks;
use tenure::blocking::block_on;
use tenure::registry;
use tenure_kit::registry::{OpenedStore, Scheme, Visibility};
use tenure_kit::url::{Url, encode};

use crate::failure::{Failure, REFUSED, UNREACHABLE, USAGE, say};
use crate::owner::OwnerParts;
use crate::screen::printable;
use crate::supervisor::signals::Signals;

/// Time limit of a request whose answer is not essential.
pub(crate) const SETTLE_MAX: Duration = Duration::from_millis(1_500);

/// Interval between two looks for a store that does not exist yet.
const LOOK_FOR_STORE: Duration = Duration::from_millis(100);

/// Placeholder for a port that a URL leaves to its engine. No server uses it.
const PORT_UNKNOWN: u16 = 0;

/// The environment variable with the store's URL.
pub(crate) const VARIABLE: &str = "TENURE_ON";

/// The file store that the users of this machine share.
#[cfg(feature = "file")]
const MACHINE: Scheme = Scheme {
    name: "machine",
    form: "machine:",
    example: "machine:",
    about: "the one directory that the users of this machine share, once root has created it",
    is_path: false,
};
/// Its directory.
#[cfg(feature = "file")]
const MACHINE_PATH: &str =
    if cfg!(target_vendor = "apple") { "/var/db/tenure" } else { "/var/lib/tenure" };

/// Schemes of the command itself.
const OWN_SCHEMES: &[Scheme] = &[
    #[cfg(feature = "file")]
    MACHINE,
];

/// Returns the URL forms of this build.
pub(crate) fn schemes() -> impl Iterator<Item = &'static Scheme> {
    let engines = registry::REGISTER.iter().flat_map(|engine| engine.schemes);
    OWN_SCHEMES.iter().chain(engines)
}

/// The options that select the store.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) on: Option<String>,
    /// Warnings are suppressed.
    pub(crate) quiet: bool,
    /// Parent directories of a new store are created, too.
    pub(crate) make: bool,
    /// The program that runs under a lock, for its owner.
    pub(crate) program: Option<OsString>,
}

impl Address {
    /// Returns the store's URL: from the command line, else from the environment, else the user's
    /// own store.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.on {
            return named(url);
        }
        match env::var_os(VARIABLE) {
            // An unset variable of a script must not choose another store.
            Some(url) if url.is_empty() => Err(Failure::usage(format!(
                "{VARIABLE} is empty: set it to the URL of a store, or unset it to use your own store"
            ))),
            Some(url) => match url.into_string() {
                // Read as one URL, the lines would be joined, with the password of the first.
                Ok(url) if url.trim_end().contains('\n') => Err(Failure::usage(format!(
                    "{VARIABLE} has several stores, which only `tenure serve` takes: name one with --on"
                ))),
                Ok(url) => named(url.trim_end()).map_err(|failure| self.explained(failure)),
                Err(_) => Err(Failure::usage(format!("the URL in {VARIABLE} is not UTF-8"))),
            },
            None => own(),
        }
    }

    /// Opens a store for inspection, without creating it. One that the user has named must exist;
    /// for the user's own store, the failure has the code of an empty store.
    pub(crate) fn look(&self, empty: u8) -> Result<Locks, Failure> {
        if let Some(locks) = self.look_for()? {
            return Ok(locks);
        }
        let url = self.url()?;
        let absent = format!("there is no store at {url} yet: the first lock there creates it");
        Err(if self.is_named() {
            let way_out = format!("name another store with --on or {VARIABLE} if that is wrong");
            Failure::new(UNREACHABLE, format!("{absent}; {way_out}"))
        } else {
            Failure::new(empty, absent)
        })
    }

    /// Returns a command for users to copy: `tenure` on the same store. A URL that may hold a
    /// password is left for the user to put in.
    pub(crate) fn command(&self, rest: &str) -> String {
        // A URL in the environment holds for the next command, too.
        command_on(self.on.as_deref(), rest)
    }

    /// The same; returns `None` if the store does not exist yet.
    pub(crate) fn look_for(&self) -> Result<Option<Locks>, Failure> {
        let url = self.url()?;
        self.refuse_private(&url)?;
        block_on(registry::look(&url)).map_err(|error| self.explained(error))
    }

    /// Completes a failure: with a hint for the user's own store, or with the place of a wrong URL.
    fn explained(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        let sentence = failure.sentence();
        match failure.code() {
            REFUSED if !self.is_named() => Failure::new(
                REFUSED,
                format!("{sentence}; name another store with --on, or in {VARIABLE}"),
            ),
            USAGE if self.is_named() && self.on.is_none() => {
                Failure::usage(format!("{sentence} (the URL is in {VARIABLE})"))
            }
            _ => failure,
        }
    }

    /// Refuses a store that only this process sees.
    pub(crate) fn refuse_private(&self, url: &str) -> Result<(), Failure> {
        let engine = registry::engine_of(url).map_err(|error| self.explained(error))?;
        if engine.reach != Visibility::Process {
            return Ok(());
        }
        Err(Failure::new(
            REFUSED,
            format!(
                "{}: is visible to one process only and excludes no other here: name another store",
                engine.name
            ),
        ))
    }

    fn is_named(&self) -> bool {
        self.on.is_some() || env::var_os(VARIABLE).is_some()
    }

    /// Opens the store, for commands that handle no signals.
    pub(crate) fn open(&self) -> Result<Locks, Failure> {
        let url = self.url()?;
        Ok(block_on(self.open_or_make(&url))?.locks)
    }

    /// Opens the store at this URL, with this process as the owner of its tickets.
    pub(crate) async fn open_at(&self, url: &str) -> Result<OpenedStore, Failure> {
        self.refuse_private(url)?;
        let opened = self.open_or_make(url).await?;
        let owner = OwnerParts::of_this_process(self.program.as_deref());
        Ok(OpenedStore { locks: opened.locks.with_owner(&owner.to_string())?, ..opened })
    }

    /// Opens the store. Reports a directory that this created: its path may be a mistake.
    async fn open_or_make(&self, url: &str) -> Result<OpenedStore, Failure> {
        let new = self.new_directory(url)?;
        let opened = registry::open(url).await.map_err(|error| self.explained(error))?;
        if let Some(new) = new.filter(|new| !self.quiet && new.exists()) {
            say(&format!("made a new store at {}", printable(&new.to_string_lossy())));
        }
        Ok(opened)
    }

    /// Returns the directory that opening this store would create. Refuses one without a parent,
    /// except for the user's own store and with `--make`.
    fn new_directory(&self, url: &str) -> Result<Option<PathBuf>, Failure> {
        let engine = registry::engine_of(url).map_err(|error| self.explained(error))?;
        let url = Url::parse(url)?;
        if !engine.scheme(url.scheme()).is_some_and(|scheme| scheme.is_path) {
            return Ok(None);
        }
        // The engine refuses a path that is not valid.
        let Ok(path) = url.path() else { return Ok(None) };
        if path.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        match above.filter(|above| self.is_named() && !self.make && !above.exists()) {
            None => Ok(Some(path)),
            Some(above) => Err(Failure::new(
                REFUSED,
                format!(
                    "there is no directory {} to make a store in: correct the path, or make it with --make",
                    printable(&above.to_string_lossy())
                ),
            )),
        }
    }

    /// Opens a store whose locks or numbers others rely on, and prints its warnings.
    pub(crate) fn open_with_warnings(&self) -> Result<Locks, Failure> {
        let locks = self.open_shared()?;
        self.warn(&locks);
        Ok(locks)
    }

    /// The same, without its warnings.
    pub(crate) fn open_shared(&self) -> Result<Locks, Failure> {
        self.refuse_private(&self.url()?)?;
        self.open()
    }

    /// Prints the store's warnings for its operator.
    pub(crate) fn warn(&self, locks: &Locks) {
        let warnings = locks.guarantees().warnings.iter().filter(|_| !self.quiet);
        warnings.for_each(|warning| say(&format!("warning: {warning}")));
        if let Some(user) = self.other_user().filter(|_| !self.quiet) {
            say(&format!(
                "warning: this store is root's own, and excludes nothing that {user} runs without sudo: name a \
                 store that both use, with --on machine: or in {VARIABLE}"
            ));
        }
    }

    /// The user of `sudo`, who has their own store.
    fn other_user(&self) -> Option<String> {
        let user = env::var("SUDO_USER").ok().filter(|user| user != "root")?;
        (!self.is_named() && geteuid().is_root()).then_some(user)
    }
}

/// Opens the store, and waits until it exists: a monitor may start before the first lock.
pub(crate) fn opened_or_awaited(at: &Address) -> Result<Locks, Failure> {
    let mut waits = false;
    loop {
        if let Some(locks) = at.look_for()? {
            return Ok(locks);
        }
        if !waits {
            waits = true;
            say(&format!("waiting for the first lock: there is no store at {} yet", at.url()?));
        }
        thread::sleep(LOOK_FOR_STORE);
    }
}

/// Closes the store, so that no ticket of this client stays in it. Skips a store that did not
/// answer.
pub(crate) fn close(signals: &mut Signals, locks: &Locks, outcome: &Result<u8, Failure>) {
    if outcome.as_ref().is_err_and(|failure| failure.code() == UNREACHABLE) {
        return;
    }
    let _ = signals.within(SETTLE_MAX, locks.close()); // at a signal or time-out, leases end it
}

/// Returns a command on the store of this URL, or on that of the environment.
pub(crate) fn command_on(url: Option<&str>, rest: &str) -> String {
    match url {
        None => format!("tenure {rest}"),
        // It may hold a password.
        Some(url) if url.contains(['@', '?']) => format!("{VARIABLE}=URL tenure {rest}"),
        Some(url) => format!("tenure --on {} {rest}", shell_word(url)),
    }
}

/// Writes a text as one word of a shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:@%+,".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns the URL without user, password and options.
pub(crate) fn without_secrets(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return String::new() };
    let scheme = url.scheme();
    let is_path = registry::REGISTER.iter().find_map(|engine| engine.scheme(scheme));
    if is_path.is_some_and(|scheme| scheme.is_path) {
        return format!("{scheme}:{}", url.body());
    }
    let Ok(servers) = url.servers(PORT_UNKNOWN) else { return format!("{scheme}:") };
    let names = servers.addresses.iter().map(|server| match server.port {
        PORT_UNKNOWN => server.name.clone(),
        _ => server.to_string(),
    });
    let path = servers.path.iter().map(|part| format!("/{}", encode(part.as_ref())));
    format!("{scheme}://{}{}", names.collect::<Vec<_>>().join(","), path.collect::<String>())
}

/// Names the store at a URL for messages, without user and password.
pub(crate) fn name_of(url: &str) -> String {
    let name = registry::engine_of(url).map_or("the store", |engine| engine.name);
    match Url::parse(url).and_then(|url| url.servers(PORT_UNKNOWN)) {
        Ok(servers) => {
            let names = servers.addresses.iter().map(|server| match server.port {
                PORT_UNKNOWN => server.name.clone(),
                _ => server.to_string(),
            });
            format!("{name} at {}", printable(&names.collect::<Vec<_>>().join(", ")))
        }
        Err(_) => name.to_owned(),
    }
}

/// Returns the URL that the user has named, with absolute paths: a command may change the current
/// directory, and must find the same store.
fn named(url: &str) -> Result<String, Failure> {
    #[cfg(feature = "file")]
    if let Some(rest) = url.strip_prefix(MACHINE.form) {
        return machine(rest);
    }
    let engine = registry::engine_beside(OWN_SCHEMES, url)?;
    Ok(env::current_dir().map_or_else(|_| url.to_owned(), |here| engine.settled(url, &here)))
}

/// Returns the URL of `machine:`. Its directory must be root's: each of its users can then trust
/// it.
#[cfg(feature = "file")]
fn machine(rest: &str) -> Result<String, Failure> {
    if !rest.is_empty() {
        return Err(Failure::usage(
            "machine: is one directory: leave out the text after the colon",
        ));
    }
    let refused = match fs::metadata(MACHINE_PATH) {
        Ok(store) if store.is_dir() && store.uid() == 0 => {
            return Ok(format!("file:{MACHINE_PATH}"));
        }
        Ok(store) if store.is_dir() => format!(
            "{MACHINE_PATH} belongs to another user ({}), who can take any lock in it: give it to root, \
             as in: chown root:GROUP {MACHINE_PATH} && chmod 2770 {MACHINE_PATH}",
            store.uid()
        ),
        _ => format!(
            "this machine has no shared store yet: root creates it once, for a group whose members trust \
             one another, as in: install -d -o root -g GROUP -m 2770 {MACHINE_PATH}"
        ),
    };
    Err(Failure::new(REFUSED, refused))
}

/// Returns the user's directory for state. `None` without a home directory.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let home = || env::home_dir().filter(|home| home.is_absolute());
    if cfg!(target_vendor = "apple") {
        home().map(|home| home.join("Library/Application Support"))
    } else {
        let state = set("XDG_STATE_HOME").and_then(absolute);
        state.or_else(|| Some(home()?.join(".local/state")))
    }
}

/// Returns the URL of the user's own store, in the directory for state.
#[cfg(feature = "file")]
fn own() -> Result<String, Failure> {
    match state_directory() {
        Some(state) => Ok(format!("file:{}", encode(&state.join("tenure")))),
        None => Err(Failure::usage(format!(
            "there is no home directory for a store: name a store with --on, or in {VARIABLE}"
        ))),
    }
}

/// This build has no file store, and so no store of the user's own.
#[cfg(not(feature = "file"))]
fn own() -> Result<String, Failure> {
    Err(Failure::usage(format!("name a store with --on, or in {VARIABLE}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_names_the_store_and_no_password() {
        let command = |on: Option<&str>| {
            let on = on.map(str::to_owned);
            let at = Address { on, quiet: false, make: false, program: None };
            at.command("break k")
        };
        assert_eq!(command(None), "tenure break k");
        assert_eq!(command(Some("redis://a,b:1/2")), "tenure --on redis://a,b:1/2 break k");
        assert_eq!(command(Some("file:/a b")), "tenure --on 'file:/a b' break k");
        assert_eq!(command(Some("redis://u:secret@a")), "TENURE_ON=URL tenure break k");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_url_for_others_has_no_secrets() {
        for (url, shown) in [
            ("redis://user:secret@host:6379/2?password=secret", "redis://host:6379/2"),
            ("mongodb://user:se@cret@a,b:27018/db", "mongodb://a,b:27018/db"),
            ("redis://user:secret", "redis:"),
            ("secret", ""),
            #[cfg(feature = "file")]
            ("file:/var/locks?secret", "file:/var/locks"),
        ] {
            assert_eq!(without_secrets(url), shown, "{url}");
        }
    }
}
