//! Looks for the command before its lock is requested.

use std::env;
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Access, access};

use super::shim;
use crate::failure::Failure;

/// The search path where PATH is not set.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// Refuses a command that does not exist or cannot be executed.
pub(crate) fn check(program: &OsString) -> Result<(), Failure> {
    let outcome = if program.as_bytes().contains(&b'/') {
        executable(Path::new(program))
    } else {
        search(program)
    };
    outcome.map_err(|kind| {
        let (code, sentence) = shim::explain(program, &Error::from(kind));
        Failure::new(code, sentence)
    })
}

fn search(program: &OsString) -> Result<(), ErrorKind> {
    let path = env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into());
    let mut worst = ErrorKind::NotFound;
    if program.is_empty() {
        return Err(worst);
    }
    for directory in env::split_paths(&path) {
        match executable(&directory.join(program)) {
            Ok(()) => return Ok(()),
            Err(ErrorKind::NotFound) => {}
            Err(other) => worst = other,
        }
    }
    Err(worst)
}

fn executable(path: &Path) -> Result<(), ErrorKind> {
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error.kind()),
        Err(_) => Err(ErrorKind::NotFound),
        Ok(found) if found.is_dir() => Err(ErrorKind::PermissionDenied),
        Ok(_) => access(path, Access::EXEC_OK).map_err(|_| ErrorKind::PermissionDenied),
    }
}
