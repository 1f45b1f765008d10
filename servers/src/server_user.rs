//! The user of servers that refuse to run as root, as PostgreSQL does.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// Users that such a server may run as, the best first.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// A user without rights, for the servers of tests that run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerUser {
    uid: u32,
    gid: u32,
}

impl ServerUser {
    /// Returns the user for servers, or `None` if they can run as the user of this process.
    pub(crate) fn find() -> Result<Option<Self>> {
        if !rustix::process::getuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd")
            .map_err(|error| format!("/etc/passwd cannot be read: {error}."))?;
        let user = NAMES.iter().find_map(|name| Self::named(name, &users));
        user.map(Some).ok_or_else(|| {
            format!("{} refuses to run as root, and /etc/passwd has no other user.", NAMES[0])
        })
    }

    /// Makes a program run as this user.
    pub(crate) fn runs(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Returns a command that runs the program behind it as this user, for a script of root.
    pub(crate) fn command(self) -> String {
        format!("setpriv --reuid={} --regid={} --clear-groups", self.uid, self.gid)
    }

    /// Makes this user the owner of a file or a folder.
    pub(crate) fn owns(self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
            .map_err(|error| format!("{} cannot get an owner: {error}.", path.display()))
    }

    fn named(name: &str, users: &str) -> Option<Self> {
        let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.find(|fields| fields.first() == Some(&name))?;
        Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::ServerUser;

    #[test]
    fn a_user_is_found_by_its_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/none:/bin/false\n";
        let nobody = ServerUser { uid: 65534, gid: 65533 };
        assert_eq!(ServerUser::named("nobody", users), Some(nobody));
        assert_eq!(ServerUser::named("no", users), None);
    }
}
