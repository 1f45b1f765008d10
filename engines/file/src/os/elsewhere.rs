//! Where there are no Unix files, there is no file store.

use std::convert::Infallible;
use std::path::Path;

use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Error, Key, Leave, Left, Patience, Place, Profile, Result, Standing, Tally, Ticket,
    Wake, Window,
};

use crate::settings::Settings;

/// The locks of one directory. On this system there is none.
#[derive(Debug)]
pub struct FileStore(Infallible);

impl FileStore {
    /// Says that this system has no file store.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, Settings::default())
    }

    /// The same.
    pub fn open_with(dir: impl AsRef<Path>, _settings: Settings) -> Result<Self> {
        Err(Error::unsupported(format!(
            "there is no file store on this system, so {} cannot be one: use a server, or run on Linux or macOS",
            dir.as_ref().display()
        )))
    }
}

impl Engine for FileStore {
    fn profile(&self) -> Profile {
        match self.0 {}
    }

    async fn join(&self, _ticket: &Ticket, _patience: Patience) -> Result<Option<Place>> {
        match self.0 {}
    }

    async fn renew(&self, _ticket: &Ticket) -> Result<Option<Place>> {
        match self.0 {}
    }

    async fn leave(&self, _ticket: &Ticket, _how: Leave) -> Result<Left> {
        match self.0 {}
    }

    async fn watch(&self, _ticket: &Ticket, _seen: Standing) -> Result<Wake> {
        match self.0 {}
    }

    async fn events(&self, _scope: &Scope, _after: Option<Cursor>) -> Result<News> {
        match self.0 {}
    }

    async fn line(&self, _key: &Key) -> Result<Vec<(Ticket, Place)>> {
        match self.0 {}
    }

    async fn keys(&self, _prefix: &str) -> Result<Vec<Key>> {
        match self.0 {}
    }

    async fn tally(&self, _key: &Key, _by: u64, _window: Option<Window>) -> Result<Tally> {
        match self.0 {}
    }

    async fn close(&self) {
        match self.0 {}
    }
}
