//! The description of the file engine, for the register.

use tenure_core::{BoxFuture, Locks, Result};
use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new(
        "network",
        "allow|refuse",
        "Whether the directory may be on a network file system",
    ),
    KnownOption::new(
        "others",
        "allow|refuse",
        "Whether others than its user and root may write to it",
    ),
];

/// The description of the file engine.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "file",
    schemes: &[Scheme {
        name: "file",
        form: "file:PATH",
        example: "file:locks",
        about: "a directory, for the processes of one machine",
        is_path: true,
    }],
    options: OPTIONS,
    reach: Visibility::Machine,
    open: |url| ready(open(&url)),
    look: |url| ready(look(&url)),
};

fn open(url: &str) -> Result<OpenedStore> {
    let store = crate::connect(url)?;
    let lifeline = Some(store.lifeline()?);
    Ok(OpenedStore { locks: Locks::new(store), lifeline })
}

fn look(url: &str) -> Result<Option<Locks>> {
    Ok(crate::connect_existing(url)?.map(Locks::new))
}

/// Returns a future that is ready: a directory is opened in place.
fn ready<T: Send + 'static>(outcome: Result<T>) -> BoxFuture<Result<T>> {
    Box::pin(std::future::ready(outcome))
}
