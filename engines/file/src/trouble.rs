//! Errors of the file system, as sentences that a person can act on.

use std::io::{Error as IoError, ErrorKind};
use std::path::Path;

use tenure_core::{Error, Loss};

use crate::os::dir::FileId;
use crate::os::{LockOwners, OwnerState, owners_of};

/// Returns the error for an action (such as `"write to"`) that failed and changed nothing.
pub(crate) fn refused(doing: &str, path: &Path, error: IoError) -> Error {
    let path = path.display();
    let way_out = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "there is no room left: free some, nothing was changed"
        }
        ErrorKind::FileTooLarge => {
            "it would be larger than this process may make a file: raise `ulimit -f`, nothing was changed"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only: a store must be in a directory that can be written to"
        }
        ErrorKind::PermissionDenied => {
            "permission denied: every user of a store must be able to write to its directory and all files in it; who owns the directory, or root, can grant it"
        }
        ErrorKind::NotFound => {
            "it, or the folder that it is in, is not there: name another directory"
        }
        ErrorKind::InvalidInput => {
            "it is a link, or no such file as a store has there: find out who put it there, and remove it"
        }
        _ => "the file system refused",
    };
    Error::rejected(format!("cannot {doing} {path}: {way_out}")).caused_by(error)
}

/// Returns the error for a file in a format that this program does not know.
pub(crate) fn newer(path: &Path) -> Error {
    Error::rejected(format!(
        "{} was written by a later version of Tenure: update this program, nothing was changed",
        path.display()
    ))
}

/// Returns the error for a thread that cannot be started.
pub(crate) fn no_thread(task: &str, error: IoError) -> Error {
    let sentence =
        format!("this process has no room for a thread, which {task} needs: allow it more threads");
    Error::rejected(sentence).caused_by(error)
}

/// Returns the error for a file that another process keeps locked.
pub(crate) fn held(path: &Path, file: Option<FileId>) -> Error {
    let unseen = || LockOwners {
        names: "a process that cannot be seen from here".to_owned(),
        state: OwnerState::Unknown,
    };
    let LockOwners { names, state } = file.and_then(owners_of).unwrap_or_else(unseen);
    let way_out = match state {
        OwnerState::Stopped => "which is stopped: continue or end it",
        OwnerState::Runs => {
            "which is busy and not stopped: try again when this machine has less to do, or end that process if it hangs"
        }
        OwnerState::Unknown => "and may be stopped or busy: if it is stopped, continue or end it",
    };
    Error::unavailable(format!("{} is kept locked by {names}, {way_out}", path.display()))
}

/// Returns the error that [`is_removed`] recognizes.
pub(crate) fn removed() -> Error {
    Error::lost(Loss::SessionGone)
}

/// Returns whether the store, or this engine's session in it, is no longer there.
pub(crate) fn is_removed(error: &Error) -> bool {
    error.loss() == Some(Loss::SessionGone)
}

/// Returns the same error for a caller that holds nothing it could lose.
pub(crate) fn without_holder(error: Error, dir: &Path) -> Error {
    if !is_removed(&error) {
        return error;
    }
    Error::rejected(format!(
        "the store in {} was removed or moved away while it was in use, or this program's file in `sessions` was: stop, find out who did, and open it again",
        dir.display()
    ))
}
