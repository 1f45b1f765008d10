//! A directory that is held open. Names in it are followed nowhere else, even if another user may
//! write to it.

use std::fs::{DirBuilder, File};
use std::io::{self, Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

/// A directory. It stays the same one if its name changes its meaning.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// The identity of a file, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// The attributes of a file that is not opened.
#[derive(Clone, Copy)]
pub(crate) struct FileAttributes {
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl FileId {
    pub(crate) fn of(file: &std::fs::Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

impl Dir {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fd = fs::open(path, DIRECTORY, Mode::empty()).map_err(in_words)?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens a directory in this one.
    pub(crate) fn below(&self, name: &str) -> io::Result<Self> {
        let fd = fs::openat(&self.fd, name, DIRECTORY, Mode::empty()).map_err(in_words)?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// The same; makes it, for the same users, if it does not exist.
    pub(crate) fn make_below(&self, name: &str) -> io::Result<Self> {
        match fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) => return self.below(name),
            Err(error) => return Err(error.into()),
        }
        let made = self.below(name)?;
        let like = fs::fstat(&self.fd)?;
        give(&made.fd, owner(&like))?;
        fs::fchmod(&made.fd, Mode::from_raw_mode(like.st_mode & 0o7777))?;
        Ok(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file to read and to write. Refuses another kind of file, and does not wait for it.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        self.open_kind(name, OFlags::RDWR, FileType::RegularFile)
    }

    /// Opens a file to read.
    pub(crate) fn open_to_read(&self, name: &str) -> io::Result<File> {
        self.open_kind(name, OFlags::RDONLY, FileType::RegularFile)
    }

    /// Opens a FIFO to read and to write, so that there always is a reader. It never blocks.
    pub(crate) fn open_fifo(&self, name: &str) -> io::Result<File> {
        self.open_kind(name, OFlags::RDWR, FileType::Fifo)
    }

    fn open_kind(&self, name: &str, access: OFlags, kind: FileType) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = fs::openat(&self.fd, name, flags, Mode::empty()).map_err(in_words)?;
        let found = FileType::from_raw_mode(fs::fstat(&fd)?.st_mode);
        if found == kind { Ok(fd.into()) } else { Err(not_what_it_should_be()) }
    }

    /// Creates a new file, for all users that may write to this directory.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        self.share(&fd, None)?;
        Ok(fd.into())
    }

    /// Creates a new FIFO, for all users that may write to this directory.
    pub(crate) fn create_fifo(&self, name: &str) -> io::Result<File> {
        make_fifo(self, name)?;
        let fifo = self.open_fifo(name)?;
        self.share(&fifo, None)?;
        Ok(fifo)
    }

    /// Gives a file to the users that may write to this directory, and to no others: a reader could
    /// lock it, and hold up all others.
    ///
    /// `whose` is the owner that it should have, so that a look by root does not take it away.
    pub(crate) fn share(
        &self,
        file: impl rustix::fd::AsFd,
        whose: Option<Owner>,
    ) -> io::Result<()> {
        let dir = fs::fstat(&self.fd)?;
        let mode = file_mode(dir.st_mode);
        let whose = whose.unwrap_or(owner(&dir));
        let is = fs::fstat(&file)?;
        if owner(&is) != whose {
            give(&file, whose)?;
        }
        if is.st_mode & 0o7777 != mode {
            fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Removes rights that [`share`](Dir::share) would not have given, from a file of this user.
    pub(crate) fn tighten(&self, file: &File) {
        if let Ok(look) = look_at(file) {
            let _ = self.share(file, Some(look.owner)); // it may be another user's
        }
    }

    /// Returns the attributes of a name; `None` if there is no such file.
    pub(crate) fn look(&self, name: impl rustix::path::Arg) -> io::Result<Option<FileAttributes>> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(look(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the name means this file.
    pub(crate) fn means(&self, name: &str, file: &File) -> io::Result<bool> {
        let named = self.look(name)?;
        Ok(named.is_some_and(|named| look_at(file).is_ok_and(|look| look.id == named.id)))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Gives a file of this directory a second name, in another one.
    pub(crate) fn link(&self, name: &str, to: &Self, other: &str) -> io::Result<()> {
        Ok(fs::linkat(&self.fd, name, &to.fd, other, AtFlags::empty())?)
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Returns all names in it.
    pub(crate) fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStringExt as _;
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Flushes the names in it, so that they outlive a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }

    /// Flushes its own name, so that it outlives a power cut.
    pub(crate) fn sync_above(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(above) => File::open(above)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Returns its owner, unless that is this user or root, against whom there is no protection.
    pub(crate) fn stranger(&self) -> io::Result<Option<u32>> {
        let (user, me) = (fs::fstat(&self.fd)?.st_uid, geteuid());
        let trusted = me.is_root() || user == 0 || user == me.as_raw();
        Ok((!trusted).then_some(user))
    }

    /// Returns whether all users may write to it.
    pub(crate) fn is_open_to_all(&self) -> io::Result<bool> {
        Ok(fs::fstat(&self.fd)?.st_mode & 0o002 != 0)
    }
}

/// Makes a directory for this user alone.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Reads all of these bytes from where they begin in the file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], from: u64) -> io::Result<()> {
    file.read_exact_at(bytes, from)
}

/// Writes all of these bytes to where they begin in the file, with one call if the system can.
pub(crate) fn write_at(file: &File, bytes: &[u8], to: u64) -> io::Result<()> {
    file.write_all_at(bytes, to)
}

/// Returns the attributes of an open file.
pub(crate) fn look_at(file: &File) -> io::Result<FileAttributes> {
    Ok(look(&fs::fstat(file)?))
}

/// Returns whether an open file still has a name.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    Ok(fs::fstat(file)?.st_nlink > 0)
}

/// Makes reads of it block until there is data.
pub(crate) fn block(file: &File) -> io::Result<()> {
    Ok(fs::fcntl_setfl(file, fs::fcntl_getfl(file)? - OFlags::NONBLOCK)?)
}

/// Returns whether the users of a file of that owner may use this one too.
pub(crate) fn is_as_good(file: &File, whose: Owner) -> io::Result<bool> {
    let is = fs::fstat(file)?;
    let by_group = is.st_mode & 0o060 == 0o060 && is.st_gid == whose.group;
    Ok(is.st_uid == whose.user || by_group || is.st_mode & 0o006 == 0o006)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[allow(
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the types of these fields differ from system to system"
)]
fn look(stat: &Stat) -> FileAttributes {
    FileAttributes {
        id: FileId { device: stat.st_dev as u64, inode: stat.st_ino as u64 },
        bytes: stat.st_size as u64,
        owner: owner(stat),
    }
}

fn owner(stat: &Stat) -> Owner {
    Owner { user: stat.st_uid, group: stat.st_gid }
}

/// Returns the mode of a file: users that may write to the directory may use its files; users that
/// may only read it may not even read them.
fn file_mode(dir_mode: fs::RawMode) -> fs::RawMode {
    let group = if dir_mode & 0o020 == 0 { 0 } else { 0o060 };
    let others = if dir_mode & 0o002 == 0 { 0 } else { 0o006 };
    0o600 | group | others
}

/// Changes the owner as far as this user may: root may give to anyone, others to a group of theirs.
fn give(file: impl rustix::fd::AsFd, whose: Owner) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(whose.user), Gid::from_raw(whose.group));
    if geteuid().is_root() && fs::fchown(&file, Some(user), Some(group)).is_ok() {
        return Ok(());
    }
    match fs::fchown(&file, None, Some(group)) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn in_words(error: Errno) -> Error {
    match error {
        // Links are not followed, so a link is one too many; and a socket cannot be opened.
        Errno::LOOP | Errno::MLINK | Errno::NXIO => not_what_it_should_be(),
        error => error.into(),
    }
}

fn not_what_it_should_be() -> Error {
    Error::new(ErrorKind::InvalidInput, "a link, or something else that no store has there")
}

#[cfg(not(target_vendor = "apple"))]
fn make_fifo(dir: &Dir, name: &str) -> io::Result<()> {
    Ok(fs::mknodat(&dir.fd, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// There is no safe call for it here, but every system has the program. It runs once for an engine.
#[cfg(target_vendor = "apple")]
fn make_fifo(dir: &Dir, name: &str) -> io::Result<()> {
    let mkfifo = std::process::Command::new("/usr/bin/mkfifo").arg(dir.path_of(name)).status()?;
    if mkfifo.success() { Ok(()) } else { Err(Error::other(format!("mkfifo: {mkfifo}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_write_to_the_directory_may_not_even_read_its_files() {
        for (dir, file) in
            [(0o700, 0o600), (0o755, 0o600), (0o2770, 0o660), (0o2775, 0o660), (0o777, 0o666)]
        {
            assert_eq!(file_mode(dir), file, "a directory of {dir:o}");
        }
    }
}
