//! How an engine describes itself, once: what connects, helps, completes and documents goes by the description.

use std::fmt;
use std::path::Path;

use tenure_core::{BoxFuture, Error, Locks, Result};

use crate::options::KnownOption;
use crate::url::{Url, encode};

/// What keeps the locks of a session of this machine's kernel for as long as it is open somewhere.
#[cfg(unix)]
pub type LockFd = std::os::fd::OwnedFd;
/// Nothing keeps them here.
#[cfg(not(unix))]
pub type Lifeline = std::convert::Infallible;

/// What an engine says of itself.
#[derive(Clone, Copy)]
pub struct EngineDescriptor {
    /// Its name, which is also that of its feature in the crate `tenure`.
    pub name: &'static str,
    /// What its URLs look like, a form for each scheme.
    pub schemes: &'static [Scheme],
    /// The options of its URLs.
    pub options: &'static [KnownOption],
    /// Who can meet in its stores.
    pub reach: Visibility,
    /// Opens the store of a URL, and makes it if an engine makes stores.
    pub open: fn(String) -> BoxFuture<Result<OpenedStore>>,
    /// The same for a store that is only looked at: `None` if there is none, and none is made.
    pub look: fn(String) -> BoxFuture<Result<Option<Locks>>>,
}

/// One kind of URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// The whole form, for people: `redis://SERVER`.
    pub form: &'static str,
    /// A URL of this form.
    pub example: &'static str,
    /// What such a store is, as a part of a sentence.
    pub about: &'static str,
    /// Whether a path of this machine follows the colon.
    pub is_path: bool,
}

impl Scheme {
    /// One whose URLs name servers.
    pub const fn of_servers(
        name: &'static str,
        form: &'static str,
        example: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, form, example, about, is_path: false }
    }
}

/// Who can meet in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The tasks of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// Whoever reaches its servers.
    Network,
}

/// A store that is open.
pub struct OpenedStore {
    /// Its locks.
    pub locks: Locks,
    /// As long as this is open somewhere, the locks that were got here are kept, even if this process dies.
    pub lifeline: Option<LockFd>,
}

impl From<Locks> for OpenedStore {
    fn from(locks: Locks) -> Self {
        Self { locks, lifeline: None }
    }
}

impl EngineDescriptor {
    /// The scheme of this name.
    pub fn scheme(&self, name: &str) -> Option<&'static Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// The parts of a URL that begins with one of the schemes.
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

    /// The same URL, whatever the current directory becomes: the paths of files in it are absolute.
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

/// Whether a path, as a URL has it, begins where this process happens to be. One that seems to begin in a home is left as it is, and
/// refused when it is read.
fn is_relative(path: &str) -> bool {
    let begin = path.get(..3).unwrap_or(path).to_ascii_uppercase();
    !path.is_empty() && !path.starts_with(['/', '~']) && !matches!(&*begin, "%2F" | "%7E")
}

impl fmt::Debug for EngineDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description").field("name", &self.name).finish_non_exhaustive()
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
        open: |_| unreachable!("nothing is opened here"),
        look: |_| unreachable!("nothing is looked at here"),
    };

    #[test]
    fn relative_paths_are_settled_and_all_else_is_left_alone() {
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
