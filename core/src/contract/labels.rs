//! The texts of a ticket for people: its owner's name and its note, both of limited length.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// Maximum length of an owner's name, in bytes of UTF-8.
pub const OWNER_BYTES_MAX: usize = 256;
/// Maximum length of a note, in bytes of UTF-8.
pub const NOTE_BYTES_MAX: usize = 4096;

macro_rules! words {
    ($(#[$doc:meta])* $Words:ident, $most:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $Words(Arc<str>);

        impl $Words {
            /// Checks the length of the text.
            ///
            /// # Errors
            ///
            /// [`Invalid`](crate::ErrorKind::Invalid): the text is too long.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
                let text = text.into();
                if text.len() > $most {
                    let bytes = text.len();
                    return Err(Error::invalid(format!(
                        concat!($what, " of {} bytes is too long: at most {} bytes are allowed"),
                        bytes, $most
                    )));
                }
                Ok(Self(text))
            }

            /// The beginning of the text, as much as is allowed. Another program may have written
            /// it.
            pub fn shortened(text: &str) -> Self {
                let ends = (0..=text.len().min($most)).rev().find(|at| text.is_char_boundary(*at));
                Self(text[..ends.unwrap_or(0)].into())
            }
        }

        impl Deref for $Words {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Words {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $Words {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Words {
            fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
    };
}

words! {
    /// The name of a ticket's owner, for operators. At most [`OWNER_BYTES_MAX`].
    ///
    /// ```
    /// use tenure::inspect::Owner;
    ///
    /// assert_eq!(&*Owner::new("worker-7")?, "worker-7");
    /// assert!(Owner::new("x".repeat(257)).is_err());
    /// assert_eq!(Owner::shortened(&"x".repeat(257)).len(), 256);
    /// # Ok::<(), tenure::Error>(())
    /// ```
    Owner, OWNER_BYTES_MAX, "an owner's name"
}

words! {
    /// A note of a ticket's owner, for others. At most [`NOTE_BYTES_MAX`].
    ///
    /// ```
    /// use tenure::inspect::Note;
    ///
    /// assert_eq!(&*Note::new("row 17 of 40")?, "row 17 of 40");
    /// assert!(Note::default().is_empty());
    /// # Ok::<(), tenure::Error>(())
    /// ```
    Note, NOTE_BYTES_MAX, "a note"
}

/// The empty note, allocated once.
impl Default for Note {
    fn default() -> Self {
        static NONE: OnceLock<Arc<str>> = OnceLock::new();
        Self(NONE.get_or_init(|| "".into()).clone())
    }
}

impl Owner {
    /// `program[pid]@machine`.
    pub(crate) fn this_process() -> Self {
        static NAME: OnceLock<Owner> = OnceLock::new();
        NAME.get_or_init(|| {
            let program = std::env::args_os().next().unwrap_or_default();
            let program = std::path::Path::new(&program).file_stem().unwrap_or_default();
            let pid = std::process::id();
            Self::shortened(&format!("{}[{pid}]{}", program.to_string_lossy(), at_machine()))
        })
        .clone()
    }
}

#[cfg(unix)]
fn at_machine() -> String {
    format!("@{}", rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn at_machine() -> String {
    std::env::var("COMPUTERNAME").map(|name| format!("@{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_refused_or_cut_between_two_characters() {
        let most = "é".repeat(OWNER_BYTES_MAX / 2);
        assert_eq!(&*Owner::new(&*most).unwrap(), most);
        let longer = most.clone() + "é";
        let refused = Owner::new(&*longer).unwrap_err().to_string();
        assert!(refused.contains("258 bytes") && refused.contains("256"), "{refused}");
        assert_eq!(&*Owner::shortened(&longer), most);
        assert_eq!(Owner::shortened(&("x".to_owned() + &most)).len(), OWNER_BYTES_MAX - 1);
        assert!(Note::new("x".repeat(NOTE_BYTES_MAX)).is_ok());
        assert!(Note::new("x".repeat(NOTE_BYTES_MAX + 1)).is_err());
    }
}
