//! The URLs of the file engine, and what it says of itself.

use std::path::PathBuf;

use tenure_core::{Boxed, Locks, Result};
use tenure_kit::options::Known;
use tenure_kit::register::{Description, Opened, Reach, Scheme};

use crate::Settings;

const OPTIONS: &[Known] = &[
    Known::new("network", "allow|refuse", "Whether the directory may be on a network file system"),
    Known::new("others", "allow|refuse", "Whether others than its user and root may write to it"),
];

/// What the file engine is.
pub const DESCRIPTION: Description = Description {
    name: "file",
    schemes: &[Scheme {
        name: "file",
        form: "file:PATH",
        example: "file:locks",
        about: "a directory, for the processes of one machine",
        is_path: true,
    }],
    options: OPTIONS,
    reach: Reach::Machine,
    open: |url| ready(open(&url)),
    look: |url| ready(look(&url)),
};

/// Reads `file:relative/path`, `file:/absolute/path` or `file:///absolute/path`, percent-encoded.
pub(crate) fn parse(url: &str) -> Result<(PathBuf, Settings)> {
    let url = DESCRIPTION.read(url)?;
    let mut settings = Settings::default();
    for (name, value) in url.options(OPTIONS)? {
        let allowed = value.one_of(&[("allow", true), ("refuse", false)])?;
        match name {
            "network" => settings.allow_network = allowed,
            _ => settings.allow_others = allowed,
        }
    }
    Ok((url.path()?, settings))
}

#[cfg(unix)]
fn open(url: &str) -> Result<Opened> {
    let store = crate::connect(url)?;
    let lifeline = Some(store.lifeline()?);
    Ok(Opened { locks: Locks::new(store), lifeline })
}

#[cfg(not(unix))]
fn open(url: &str) -> Result<Opened> {
    Ok(Locks::new(crate::connect(url)?).into())
}

#[cfg(unix)]
fn look(url: &str) -> Result<Option<Locks>> {
    Ok(crate::connect_existing(url)?.map(Locks::new))
}

#[cfg(not(unix))]
fn look(url: &str) -> Result<Option<Locks>> {
    crate::connect(url).map(|store| Some(Locks::new(store)))
}

/// A directory is opened in place, so nobody waits for it.
fn ready<T: Send + 'static>(outcome: Result<T>) -> Boxed<Result<T>> {
    Box::pin(std::future::ready(outcome))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_and_its_options_are_read() {
        let (path, settings) = parse("file:/my%20locks").unwrap();
        assert_eq!((path.as_path(), settings), (Path::new("/my locks"), Settings::default()));
        let settings = |url| parse(url).unwrap().1;
        assert!(settings("file:/x?network=allow").allow_network);
        assert!(settings("file:/x?network=refuse&others=allow").allow_others);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_way_out() {
        for (url, sentence) in [
            ("redis://u:secret@x", "this URL begins with another scheme: write file:PATH"),
            ("file:", "the URL has no path: write file:PATH"),
            (
                "file:/x?netwrk=allow",
                "`netwrk` is no option of file: (did you mean `network`?); there are `network` and `others`",
            ),
            (
                "file:/x?ttl=3",
                "the URL has an option that file: does not have; there are `network` and `others`",
            ),
            ("file:/x?others=yes", "`others` takes `allow` or `refuse`"),
            (
                "file://u:secret@host/x",
                "the URL names another machine, and file: is for paths of this one: write file:PATH or file:///PATH",
            ),
        ] {
            assert_eq!(parse(url).unwrap_err().to_string(), sentence);
        }
    }
}
