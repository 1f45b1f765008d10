//! The rights of users, taken from the README of the engine.

const README: &str = include_str!("../../../engines/redis/README.md");
/// The beginning of each such line of the README. The rights follow.
const COMMAND: &str = "ACL SETUSER locks on >password ";

/// A user of the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A single server, a server behind sentinels, or a server of a `RedLock`.
    Server,
    /// A node of a cluster.
    Cluster,
    /// A sentinel.
    Sentinel,
}

impl Rights {
    /// Returns the rights as arguments of `ACL SETUSER`.
    ///
    /// # Panics
    ///
    /// Panics if the README has no line or several for this user.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        let mut lines = README.lines().filter_map(|line| line.strip_prefix(COMMAND));
        let found = lines.by_ref().find(|rights| Self::of(rights) == self);
        let found = found.unwrap_or_else(|| panic!("the README has no `{COMMAND}` for {self:?}"));
        assert!(lines.all(|rights| Self::of(rights) != self), "{self:?} has two lines");
        found.split(' ').collect()
    }

    fn of(rights: &str) -> Self {
        if rights.contains(" +sentinel|") {
            Self::Sentinel
        } else if rights.contains(" +cluster|") {
            Self::Cluster
        } else {
            Self::Server
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rights;

    #[test]
    fn each_user_has_a_line() {
        for rights in [Rights::Server, Rights::Cluster, Rights::Sentinel] {
            let words = rights.words();
            assert!(words.contains(&"nocommands") && words.contains(&"resetchannels"), "{words:?}");
            assert!(
                words.iter().all(|word| !word.contains('@')),
                "each command is named: {words:?}"
            );
        }
    }
}
