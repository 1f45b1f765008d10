//! Named stores in the memory of this process.

use std::collections::HashMap;
use std::future::ready;
use std::sync::LazyLock;

use tenure_core::sync::Mutex;
use tenure_core::{Locks, Memory, Result};
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

/// The description of the engine.
pub(crate) const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "memory",
    schemes: &[Scheme {
        name: "memory",
        form: "memory:NAME",
        example: "memory:test",
        about: "a store in this process, for tests; without a name it is a new one",
        is_path: false,
    }],
    options: &[],
    reach: Visibility::Process,
    open: |url| Box::pin(ready(connect(&url).map(OpenedStore::from))),
    look: |url| Box::pin(ready(connect(&url).map(Some))),
};

fn connect(url: &str) -> Result<Locks> {
    static NAMED: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
    let url = DESCRIPTION.read(url)?;
    url.options(DESCRIPTION.options)?;
    if url.body().is_empty() {
        return Ok(Locks::new(Memory::new()));
    }
    let mut named = NAMED.lock();
    Ok(Locks::new(named.entry(url.body().to_owned()).or_default().clone()))
}
