//! Who an owner is, for the eyes of an operator.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The longest name of an owner, in bytes of UTF-8.
pub const OWNER_BYTES_MAX: usize = 256;

/// `program[pid]@machine`.
pub(crate) fn this_process() -> Arc<str> {
    static NAME: OnceLock<Arc<str>> = OnceLock::new();
    NAME.get_or_init(|| {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_stem().unwrap_or_default();
        let pid = std::process::id();
        let mut name = format!("{}[{pid}]", program.to_string_lossy());
        name.push_str(&at_machine());
        let end = (0..=OWNER_BYTES_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
        name.truncate(end.unwrap_or(0));
        name.into()
    })
    .clone()
}

/// Refuses a name that no store need keep.
pub(crate) fn check(owner: &str) -> Result<()> {
    if owner.len() > OWNER_BYTES_MAX {
        return Err(Error::invalid(format!(
            "an owner's name of {} bytes is too long: at most {OWNER_BYTES_MAX} bytes are allowed",
            owner.len()
        )));
    }
    Ok(())
}

#[cfg(unix)]
fn at_machine() -> String {
    format!("@{}", rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn at_machine() -> String {
    std::env::var("COMPUTERNAME").map(|name| format!("@{name}")).unwrap_or_default()
}
