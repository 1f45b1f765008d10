//! Deployments: stores that all tests of a run share. They run already, or are started.

use std::env;
use std::path::PathBuf;

use crate::{Result, Tool};

/// A running store with a URL. Dropping it stops the store.
pub trait Store: Send + Sync {
    /// The URL for an engine.
    fn url(&self) -> String;
}

/// A way to run a store. Tests find it by an environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    /// The engine and the variant: `redis-cluster`.
    pub name: &'static str,
    /// The variable with the URL. A user who sets it makes the tests use another store.
    pub variable: &'static str,
    /// The tools that are needed to start it.
    pub needs: &'static [Tool],
    /// Starts the store.
    pub start: fn() -> Result<Box<dyn Store>>,
}

/// The availability of a deployment on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It runs already, at this URL.
    Stands(String),
    /// It can be started with these files.
    Startable(Vec<PathBuf>),
    /// Neither. The sentence names the remedy.
    Absent(String),
}

/// Returns all deployments for the engines of this workspace.
///
/// A new store gets a module with a list of its deployments, and an entry in this function.
pub fn deployments() -> Vec<Deployment> {
    let engines: &[&[Deployment]] = &[
        #[cfg(unix)]
        &crate::mongodb::DEPLOYMENTS,
        #[cfg(unix)]
        &crate::mariadb::DEPLOYMENTS,
        #[cfg(unix)]
        &crate::postgres::DEPLOYMENTS,
        #[cfg(unix)]
        &crate::redis::DEPLOYMENTS,
        #[cfg(unix)]
        &crate::etcd::DEPLOYMENTS,
        #[cfg(unix)]
        &crate::zookeeper::DEPLOYMENTS,
    ];
    engines.concat()
}

impl Deployment {
    /// Checks the variable first, then the installed tools.
    pub fn found(&self) -> Found {
        if let Some(url) = env::var(self.variable).ok().filter(|url| !url.is_empty()) {
            return Found::Stands(url);
        }
        let all: Option<Vec<PathBuf>> = self.needs.iter().map(Tool::found).collect();
        all.map_or_else(|| Found::Absent(self.absent()), Found::Startable)
    }

    /// Whether tests fail without it under `TENURE_REQUIRE=all`.
    pub fn is_required(&self) -> bool {
        self.needs.iter().all(|tool| tool.required)
    }

    fn absent(&self) -> String {
        let absent: Vec<_> = self.needs.iter().filter(|it| it.found().is_none()).collect();
        let names: Vec<_> = absent.iter().map(|it| it.name).collect();
        let ways: Vec<_> = absent.iter().map(|it| it.way_out()).collect();
        format!(
            "{}: {} is absent. {}, or set {}.",
            self.name,
            names.join(" and "),
            ways.join(", and "),
            self.variable
        )
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Deployment, Found, deployments};
    use crate::Tool;
    use std::collections::BTreeSet;

    fn needing(needs: &'static [Tool]) -> Deployment {
        let start = || Err("It is never started.".into());
        Deployment { name: "fake", variable: "TENURE_TEST_FAKE_URL", needs, start }
    }

    #[test]
    fn the_availability_of_a_deployment_is_found() {
        const SHELL: Tool = Tool::program("sh", "dash");
        const NOTHING: Tool = Tool::program("no-such-program", "no-such-package");
        assert!(matches!(needing(&[SHELL]).found(), Found::Startable(files) if files.len() == 1));
        let absent = "fake: no-such-program is absent. Install the package no-such-package, or set \
                      TENURE_TEST_FAKE_URL.";
        assert_eq!(needing(&[SHELL, NOTHING]).found(), Found::Absent(absent.into()));
        assert!(needing(&[NOTHING]).is_required());
        assert!(!needing(&[const { NOTHING.not_required() }]).is_required());
    }

    #[test]
    fn each_deployment_has_a_variable_of_its_own() {
        let all = deployments();
        let variables: BTreeSet<_> = all.iter().map(|it| it.variable).collect();
        assert_eq!(variables.len(), all.len());
        assert!(variables.iter().all(|it| it.starts_with("TENURE_TEST_") && it.ends_with("_URL")));
    }
}
