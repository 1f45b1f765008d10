//! The URLs of the file engine.

use std::path::PathBuf;

use tenure_core::Result;

use crate::Settings;
use crate::description::{DESCRIPTION, OPTIONS};

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_and_its_options_are_read() {
        let (path, settings) = parse("file:/my%20locks").unwrap();
        assert_eq!((path.as_path(), settings), (Path::new("/my locks"), Settings::default()));
        let settings = |url| parse(url).unwrap().1;
        assert_eq!(parse("file:./~/locks").unwrap().0, Path::new("./~/locks"));
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
                "`netwrk` is no option of `file:` (did you mean `network`?): there are `network` and `others`",
            ),
            (
                "file:/x?ttl=3",
                "the URL has an option that `file:` does not have: there are `network` and `others`",
            ),
            (
                "file:~/locks",
                "`~` is a home only where a shell expands it, and not behind `file:`: write file:$HOME/PATH, or file:./~ for \
                 what has that name",
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
