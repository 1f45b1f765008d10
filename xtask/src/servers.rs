//! The servers of a test run: those that run already, and those that are started for it.

use std::process::{Command, ExitCode};
use std::thread;

use tenure_servers::{Deployment, Found, Store, Tool, deployments, tools};

use crate::process::{Result, not_started};
use crate::{fetch, install};

/// One line for each deployment, and for each tool of private servers: how it is found here.
pub(crate) fn listing() -> String {
    let (all, can_install) = (deployments(), install::is_possible());
    if all.is_empty() {
        return "no server can be started on this system".into();
    }
    let shared = all.iter().map(|it| line(it, can_install));
    let private = private_tools().into_iter().map(|tool| match tool.found() {
        Some(file) => format!("{}: is at {}", tool.name, file.display()),
        None => tool.absent().unwrap_or_default(),
    });
    shared.chain(private).collect::<Vec<_>>().join("\n")
}

fn line(deployment: &Deployment, can_install: bool) -> String {
    match deployment.found() {
        Found::Stands(_) => {
            format!("{}: runs already, by {}", deployment.name, deployment.variable)
        }
        Found::Startable(files) => {
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            format!("{}: is started from {}", deployment.name, files.join(" and "))
        }
        Found::Absent(sentence) if !deployment.is_required() => {
            format!("{sentence} No test fails without it.")
        }
        Found::Absent(sentence) if can_install => {
            format!("{sentence} `cargo xtask test` installs it here.")
        }
        Found::Absent(sentence) => sentence,
    }
}

/// Installs the absent tools, where that is possible, and starts every deployment.
pub(crate) fn prepare() -> Result<Running> {
    let all = deployments();
    let is_absent = |it: &&Deployment| matches!(it.found(), Found::Absent(_));
    // A deployment that runs already needs no tools.
    let wanted = all.iter().filter(is_absent).flat_map(|it| it.needs).copied();
    let private = private_tools();
    let wanted: Vec<_> = wanted.chain(private.iter().copied()).collect();
    install::absent(&wanted);
    fetch::absent(&wanted);
    for sentence in private.iter().filter_map(Tool::absent) {
        println!("{sentence}");
    }
    start(&all)
}

/// The tools that only tests with servers of their own need.
fn private_tools() -> Vec<Tool> {
    let all = deployments();
    let shared: Vec<&str> = all.iter().flat_map(|it| it.needs).map(|tool| tool.name).collect();
    tools().into_iter().filter(|tool| !shared.contains(&tool.name)).collect()
}

/// Starts every deployment that does not run already, all in parallel. An absent one is printed,
/// and its tests decide between skipping and failing.
fn start(deployments: &[Deployment]) -> Result<Running> {
    let mut startable = Vec::new();
    for deployment in deployments {
        match deployment.found() {
            Found::Stands(_) => {}
            Found::Startable(_) => startable.push(deployment),
            Found::Absent(sentence) => println!("{sentence}"),
        }
    }
    let outcomes: Vec<_> = thread::scope(|scope| {
        let begun: Vec<_> = startable.iter().map(|it| scope.spawn(it.start)).collect();
        begun.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut running = Running { started: Vec::new() };
    let mut failed = Vec::new();
    for (deployment, outcome) in startable.into_iter().zip(outcomes) {
        match outcome {
            Ok(Ok(store)) => running.started.push(Started::new(deployment, store)),
            Ok(Err(sentence)) => failed.push(format!("{}: {sentence}", deployment.name)),
            Err(_) => failed.push(format!("{}: its start panicked", deployment.name)),
        }
    }
    if failed.is_empty() { Ok(running) } else { Err(failed.join("\n")) }
}

/// `cargo xtask servers run`: starts the servers, runs a command, stops the servers.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let running = prepare()?;
    let mut command = Command::new(program);
    command.args(arguments).envs(running.addresses());
    let status = command.status().map_err(|error| not_started(&command, &error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Servers that were started for this run. Dropping them stops them; if this process is killed,
/// their warden does.
pub(crate) struct Running {
    started: Vec<Started>,
}

struct Started {
    variable: &'static str,
    url: String,
    _store: Box<dyn Store>,
}

impl Started {
    fn new(deployment: &Deployment, store: Box<dyn Store>) -> Self {
        Self { variable: deployment.variable, url: store.url(), _store: store }
    }
}

impl Running {
    /// The environment variables by which tests find them.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.started.iter().map(|one| (one.variable, one.url.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Deployment, Store, Tool, deployments, line, listing, start};

    /// A store that counts its instances.
    struct Fake;

    static FAKES: AtomicUsize = AtomicUsize::new(0);

    impl Fake {
        fn new() -> Self {
            FAKES.fetch_add(1, Ordering::SeqCst);
            Self
        }
    }

    impl Store for Fake {
        fn url(&self) -> String {
            "fake://127.0.0.1:1".into()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            FAKES.fetch_sub(1, Ordering::SeqCst);
        }
    }

    const HERE: Deployment = Deployment {
        name: "fake",
        variable: "TENURE_TEST_FAKE_URL",
        needs: &[Tool::program("cargo", "cargo")],
        start: || Ok(Box::new(Fake::new())),
    };
    const NOT_HERE: Deployment =
        Deployment { needs: &[Tool::program("no-such-program", "no-such-package")], ..HERE };
    const NOT_REQUIRED: Deployment = Deployment {
        needs: &[Tool::program("no-such-program", "no-such-package").not_required()],
        ..HERE
    };

    #[test]
    fn the_listing_says_how_each_is_found() {
        assert!(line(&HERE, false).starts_with("fake: is started from "));
        let absent = "fake: no-such-program is absent. Install the package no-such-package, or set \
                      TENURE_TEST_FAKE_URL.";
        assert_eq!(line(&NOT_HERE, false), absent);
        let installed = format!("{absent} `cargo xtask test` installs it here.");
        assert_eq!(line(&NOT_HERE, true), installed);
        assert_eq!(line(&NOT_REQUIRED, true), format!("{absent} No test fails without it."));
        assert!(listing().lines().count() >= deployments().len());
    }

    #[test]
    fn servers_are_found_and_stopped_also_beside_a_failure() {
        let running = start(&[HERE, NOT_HERE]).expect("an absent deployment is no error");
        let addresses: Vec<_> = running.addresses().collect();
        assert_eq!(addresses, [("TENURE_TEST_FAKE_URL", "fake://127.0.0.1:1")]);
        assert_eq!(FAKES.load(Ordering::SeqCst), 1);
        drop(running);
        assert_eq!(FAKES.load(Ordering::SeqCst), 0);

        let failing = Deployment { start: || Err("no port is free".into()), ..HERE };
        let failed = start(&[HERE, failing]).err().expect("one start fails");
        assert_eq!(failed, "fake: no port is free");
        assert_eq!(FAKES.load(Ordering::SeqCst), 0);
    }
}
