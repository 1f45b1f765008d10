//! Which store is meant, and the way to it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::iter;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::geteuid;
use tenure::Locks;
use tenure::blocking::block_on;
use tenure::registry;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};
use tenure_kit::url::{Url, encode};

use crate::failure::{Failure, REFUSED, UNREACHABLE, USAGE, say};
use crate::screen::printable;
use crate::signals::Signals;

/// Nobody wants to wait any longer for a store that does not answer.
pub(crate) const SETTLE_MAX: Duration = Duration::from_millis(1_500);

/// Stands for the port that a URL leaves to its engine. No server has it.
const PORT_UNKNOWN: u16 = 0;

/// The environment's word for the store.
pub(crate) const VARIABLE: &str = "TENURE_ON";

/// The store that the users of this machine share.
const MACHINE: Scheme = Scheme {
    name: "machine",
    form: "machine:",
    example: "machine:",
    about: "the one directory that the users of this machine share, once root has made it",
    is_path: false,
};
/// Where that is.
const MACHINE_PATH: &str =
    if cfg!(target_vendor = "apple") { "/var/db/tenure" } else { "/var/lib/tenure" };

/// What stores can be named.
pub(crate) fn schemes() -> impl Iterator<Item = &'static Scheme> {
    let engines = registry::REGISTER.iter().flat_map(|engine| engine.schemes);
    iter::once(&MACHINE).chain(engines)
}

/// What the user said about the store.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) on: Option<String>,
    /// Warnings are not to be shown.
    pub(crate) quiet: bool,
    /// Directories above a new store are made, too.
    pub(crate) make: bool,
}

impl Address {
    /// The store's URL: from the command line, else from the environment, else the user's own.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.on {
            return named(url);
        }
        match env::var_os(VARIABLE).filter(|url| !url.is_empty()) {
            Some(url) => match url.into_string() {
                Ok(url) => named(&url).map_err(|failure| self.explained(failure)),
                Err(_) => Err(Failure::usage(format!("the URL in {VARIABLE} is not UTF-8"))),
            },
            None => own(),
        }
    }

    /// The locks of a store that is only looked at: it is not made for that. One that is named must be there; of one
    /// that is not, `nothing` is told.
    pub(crate) fn look(&self, nothing: impl FnOnce() -> Failure) -> Result<Locks, Failure> {
        match self.look_for()? {
            Some(locks) => Ok(locks),
            None if self.is_named() => Err(Failure::new(
                UNREACHABLE,
                format!(
                    "there is no store at {}: whoever first locks something there makes it",
                    self.url()?
                ),
            )),
            None => Err(nothing()),
        }
    }

    /// The same, and `None` where the store is not made yet.
    pub(crate) fn look_for(&self) -> Result<Option<Locks>, Failure> {
        let url = self.url()?;
        self.refuse_private(&url)?;
        block_on(registry::look(&url)).map_err(|error| self.explained(error))
    }

    /// The same failure: of a store that nobody has named, with the way to another; of a URL that makes no sense, with
    /// where it stands.
    fn explained(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        let sentence = failure.sentence();
        match failure.code() {
            REFUSED if !self.is_named() => Failure::new(
                REFUSED,
                format!("{sentence}; name another store with --on, or in {VARIABLE}"),
            ),
            USAGE if self.is_named() && self.on.is_none() => {
                Failure::usage(format!("{sentence} (the URL stands in {VARIABLE})"))
            }
            _ => failure,
        }
    }

    /// A store that this process alone can see locks nothing for a shell.
    fn refuse_private(&self, url: &str) -> Result<(), Failure> {
        let engine = registry::engine_of(url).map_err(|error| self.explained(error))?;
        if engine.reach != Visibility::Process {
            return Ok(());
        }
        Err(Failure::new(
            REFUSED,
            format!(
                "{}: is seen by one process alone, and excludes nobody here: use file:DIR, or name no store",
                engine.name
            ),
        ))
    }

    fn is_named(&self) -> bool {
        self.on.is_some() || env::var_os(VARIABLE).is_some_and(|url| !url.is_empty())
    }

    /// The locks of the store, for commands that need no signals.
    pub(crate) fn open(&self) -> Result<Locks, Failure> {
        let url = self.url()?;
        Ok(block_on(self.open_or_make(&url))?.locks)
    }

    /// Opens the store of this URL, for what runs under its locks.
    pub(crate) async fn open_at(&self, url: &str) -> Result<OpenedStore, Failure> {
        self.refuse_private(url)?;
        let opened = self.open_or_make(url).await?;
        Ok(OpenedStore { locks: opened.locks.with_owner(&owner())?, ..opened })
    }

    /// Opens the store, and says so if that made a directory: its name may be a mistake.
    async fn open_or_make(&self, url: &str) -> Result<OpenedStore, Failure> {
        let new = self.new_directory(url)?;
        let opened = registry::open(url).await.map_err(|error| self.explained(error))?;
        if let Some(new) = new.filter(|new| !self.quiet && new.exists()) {
            say(&format!("made a new store at {}", printable(&new.to_string_lossy())));
        }
        Ok(opened)
    }

    /// The directory that opening this store would make. One whose parent is missing is refused,
    /// but for the user's own store and with `--make`.
    fn new_directory(&self, url: &str) -> Result<Option<PathBuf>, Failure> {
        let engine = registry::engine_of(url).map_err(|error| self.explained(error))?;
        let url = Url::parse(url)?;
        if !engine.scheme(url.scheme()).is_some_and(|scheme| scheme.is_path) {
            return Ok(None);
        }
        // A path that makes no sense is refused by the engine, in its own words.
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

    /// The same, for what others will rely on: they should know how far they can.
    pub(crate) fn open_aloud(&self) -> Result<Locks, Failure> {
        let locks = self.open_shared()?;
        self.warn(&locks);
        Ok(locks)
    }

    /// The same, and nothing is said of it.
    pub(crate) fn open_shared(&self) -> Result<Locks, Failure> {
        self.refuse_private(&self.url()?)?;
        self.open()
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

/// Lets go of the store, so that nothing of this client stays in it. One that did not answer is not asked again.
pub(crate) fn close(signals: &mut Signals, locks: &Locks, outcome: &Result<u8, Failure>) {
    if outcome.as_ref().is_err_and(|failure| failure.code() == UNREACHABLE) {
        return;
    }
    let _closed_or_interrupted = signals.within(SETTLE_MAX, locks.close());
}

/// What others see in the line: the process by which to find it.
pub(crate) fn owner() -> String {
    let machine = rustix::system::uname();
    format!("tenure[{}]@{}", std::process::id(), machine.nodename().to_string_lossy())
}

/// How a sentence names the store of a URL that is not open: without user and password.
pub(crate) fn whom(url: &str) -> String {
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

/// The URL that somebody has named.
fn named(url: &str) -> Result<String, Failure> {
    match url.strip_prefix(MACHINE.form) {
        None => {
            let engine = registry::engine_beside(&[MACHINE], url)?;
            return Ok(settled(engine, url));
        }
        Some("") => {}
        Some(_) => {
            return Err(Failure::usage("nothing stands behind machine:, which is one directory"));
        }
    }
    // Nobody but root can make it so that its users need not trust the first of them.
    let refused = match fs::metadata(MACHINE_PATH) {
        Ok(store) if store.is_dir() && store.uid() == 0 => {
            return Ok(format!("file:{MACHINE_PATH}"));
        }
        Ok(store) if store.is_dir() => format!(
            "{MACHINE_PATH} belongs to another user ({}), who can take any lock in it: the store that the users of this \
             machine share is root's, as in: chown root:GROUP {MACHINE_PATH} && chmod 2770 {MACHINE_PATH}",
            store.uid()
        ),
        _ => format!(
            "this machine has no store yet that its users share: root makes it once, for a group whose members trust \
             one another, as in: install -d -o root -g GROUP -m 2770 {MACHINE_PATH}"
        ),
    };
    Err(Failure::new(REFUSED, refused))
}

/// The same URL, however the current directory changes: a command that is run may change it, and must find the same
/// store.
fn settled(engine: &EngineDescriptor, url: &str) -> String {
    env::current_dir().map_or_else(|_| url.to_owned(), |here| engine.settled(url, &here))
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
        Some(state) => Ok(format!("file:{}", encode(&state.join("tenure")))),
        None => Err(Failure::usage(format!(
            "there is no home to keep a store in: name a store with --on, or in {VARIABLE}"
        ))),
    }
}
