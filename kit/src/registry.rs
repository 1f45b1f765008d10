//! The description of an engine, from which connecting, help, shell completion and documents
//! follow.

use std::fmt;
use std::path::Path;

use tenure_core::{BoxFuture, Error, Locks, Result};

use crate::options::KnownOption;
use crate::url::{Url, encode};

/// A file descriptor that keeps file locks alive while any process has it open.
#[cfg(unix)]
pub type LockFd = std::os::fd::OwnedFd;
/// Not available on this platform.
#[cfg(not(unix))]
pub type LockFd = std::convert::Infallible;

/// A description of an engine.
#[derive(Clone, Copy)]
pub struct EngineDescriptor {
    /// The name, which is also the name of the engine's feature in the crate `tenure`.
    pub name: &'static str,
    /// The schemes of its URLs.
    pub schemes: &'static [Scheme],
    /// The options of its URLs.
    pub options: &'static [KnownOption],
    /// Which programs can share a store.
    pub reach: Visibility,
    /// Opens the store of a URL. Creates it if the engine creates stores.
    pub open: fn(String) -> BoxFuture<Result<OpenedStore>>,
    /// Opens the store of a URL for inspection. Returns `None` if there is none, and creates none.
    pub look: fn(String) -> BoxFuture<Result<Option<Locks>>>,
}

/// A scheme of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The text before the colon.
    pub name: &'static str,
    /// The form of the whole URL, for people: `redis://SERVER`.
    pub form: &'static str,
    /// A URL of this form.
    pub example: &'static str,
    /// A noun phrase on the store: "a Redis server".
    pub about: &'static str,
    /// Whether a path of this machine follows the colon.
    pub is_path: bool,
}

impl Scheme {
    /// Returns a scheme whose URLs name servers.
    pub const fn of_servers(
        name: &'static str,
        form: &'static str,
        example: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, form, example, about, is_path: false }
    }
}

/// The programs that can share a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The tasks of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// All programs that reach its servers.
    Network,
}

/// An open store.
pub struct OpenedStore {
    /// The locks of the store.
    pub locks: Locks,
    /// Keeps the locks that are acquired here while any process has it open, even if this process
    /// dies.
    pub lifeline: Option<LockFd>,
}

impl From<Locks> for OpenedStore {
    fn from(locks: Locks) -> Self {
        Self { locks, lifeline: None }
    }
}

impl EngineDescriptor {
    /// Returns the scheme of this name.
    pub fn scheme(&self, name: &str) -> Option<&'static Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// Splits a URL into its parts.
    ///
    /// # Errors
    ///
    /// The URL does not begin with one of the engine's schemes.
    pub fn read<'a>(&self, url: &'a str) -> Result<Url<'a>> {
        let url = Url::parse(url)?;
        if self.scheme(url.scheme()).is_some() {
            return Ok(url);
        }
        let forms: Vec<_> = self.schemes.iter().map(|scheme| scheme.form).collect();
        Err(Error::invalid(format!(
            "this URL begins with another scheme: write {}",
            forms.join(" or ")
        )))
    }

    /// Returns the URL with absolute paths, so that a change of the current directory `here` does
    /// not change its meaning.
    pub fn settled(&self, url: &str, here: &Path) -> String {
        let here = encode(here);
        let (address, options) = url.split_once('?').unwrap_or((url, ""));
        let mut settled = match address.split_once(':') {
            Some((scheme, path))
                if self.scheme(scheme).is_some_and(|scheme| scheme.is_path)
                    && is_relative(path) =>
            {
                format!("{scheme}:{here}/{path}")
            }
            _ => address.to_owned(),
        };
        let is_file = |name: &str| self.options.iter().any(|one| one.is_file && one.name == name);
        let settle = |option: &str| match option.split_once('=') {
            Some((name, path)) if is_file(name) && is_relative(path) => {
                format!("{name}={here}/{path}")
            }
            _ => option.to_owned(),
        };
        if url.contains('?') {
            settled.push('?');
            settled.push_str(&options.split('&').map(settle).collect::<Vec<_>>().join("&"));
        }
        settled
    }
}

/// Whether the path of a URL is relative. A path that begins with `~` counts as absolute: it is
/// refused when it is read.
fn is_relative(path: &str) -> bool {
    let begin = path.get(..3).unwrap_or(path).to_ascii_uppercase();
    !path.is_empty() && !path.starts_with(['/', '~']) && !matches!(&*begin, "%2F" | "%7E")
}

impl fmt::Debug for EngineDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineDescriptor").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEME: Scheme = Scheme { name: "net", form: "", example: "", about: "", is_path: false };
    const DESCRIPTION: EngineDescriptor = EngineDescriptor {
        name: "toy",
        schemes: &[Scheme { name: "dir", is_path: true, ..SCHEME }, SCHEME],
        options: &[KnownOption::file("ca", ""), KnownOption::new("prefix", "TEXT", "")],
        reach: Visibility::Machine,
        open: |_| unreachable!("no test opens a store"),
        look: |_| unreachable!("no test inspects a store"),
    };

    #[test]
    fn relative_paths_become_absolute_and_the_rest_stays() {
        let here = Path::new("/he re");
        for (url, settled) in [
            ("dir:locks?prefix=a", "dir:/he%20re/locks?prefix=a"),
            (
                "net://h?prefix=ca&ca=a.pem&ca=/b&ca=%2fc",
                "net://h?prefix=ca&ca=/he%20re/a.pem&ca=/b&ca=%2fc",
            ),
            ("dir:/var/locks", "dir:/var/locks"),
            ("dir:", "dir:"),
            ("dir:~/locks", "dir:~/locks"),
            ("net://h?ca=%7e/a.pem", "net://h?ca=%7e/a.pem"),
            ("net://user:secret@host", "net://user:secret@host"),
            ("net://h?ca=", "net://h?ca="),
        ] {
            assert_eq!(DESCRIPTION.settled(url, here), settled);
        }
    }
}
