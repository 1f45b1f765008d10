//! Systems without Unix files: no directory can be a store.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A directory: on this system there is none that can be a store.
#[derive(Debug)]
pub(crate) struct Dir(Infallible);

/// The identity of a file, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId;

/// The attributes of a file that is not opened.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner;

/// A handle that keeps a session alive beside its own file.
pub(crate) type Lifeline = File;

impl FileId {
    pub(crate) fn of(_file: &Metadata) -> Self {
        Self
    }
}

macro_rules! impossible {
    ($($name:ident($($argument:ty),*) -> $answer:ty;)*) => {
        impl Dir {
            $(pub(crate) fn $name(&self, $(_: $argument),*) -> $answer { match self.0 {} })*
        }
    };
}

impossible! {
    below(&str) -> io::Result<Self>;
    make_below(&str) -> io::Result<Self>;
    path() -> &Path;
    path_of(&str) -> PathBuf;
    open_file(&str) -> io::Result<File>;
    open_to_read(&str) -> io::Result<File>;
    open_fifo(&str) -> io::Result<File>;
    create_file(&str) -> io::Result<File>;
    create_fifo(&str) -> io::Result<File>;
    share(&File, Option<Owner>) -> io::Result<()>;
    tighten(&File) -> ();
    means(&str, &File) -> io::Result<bool>;
    rename(&str, &str) -> io::Result<()>;
    link(&str, &Self, &str) -> io::Result<()>;
    remove(&str) -> io::Result<()>;
    names() -> io::Result<Vec<OsString>>;
    sync() -> io::Result<()>;
    sync_above() -> io::Result<()>;
    stranger() -> io::Result<Option<u32>>;
    is_open_to_all() -> io::Result<bool>;
}

impl Dir {
    pub(crate) fn open(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn look<N>(&self, _name: N) -> io::Result<Option<Look>> {
        match self.0 {}
    }
}

/// Whether a directory can be a store here.
pub(crate) const IS_SUPPORTED: bool = false;

pub(crate) fn make_private(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn look_at(_file: &File) -> io::Result<Look> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn read_at(_file: &File, _bytes: &mut [u8], _from: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn write_at(_file: &File, _bytes: &[u8], _to: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn has_name(_file: &File) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn block(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_as_good(_file: &File, _whose: Owner) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
