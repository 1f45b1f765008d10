//! The recipes as they stand in `recipes/`: on the file store, with stand-ins for programs that a
//! machine may not have.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tenure_servers::{JQ, Tool, have};

use crate::kit::{End, Running, Store, end, write};

/// Logs its name and arguments between `begin` and `end`, and `overlap` beside another one.
const ALONE: &str = r#"#!/bin/sh
mkdir "$LOG.alone" || echo overlap >>"$LOG"
echo begin "$(basename "$0")" "$@" >>"$LOG"
sleep 0.05
echo end >>"$LOG"
rmdir "$LOG.alone"
"#;

/// A store, a copy of the recipes, and a directory for stand-ins. Their paths have spaces.
struct Kitchen {
    store: Store,
}

impl Kitchen {
    fn new() -> Self {
        let store = Store::new();
        for folder in ["the recipes", "stand ins", "home/bin", "work tree"] {
            fs::create_dir_all(store.path(folder)).unwrap();
        }
        for recipe in fs::read_dir(recipes()).unwrap() {
            let recipe = recipe.unwrap();
            fs::copy(recipe.path(), store.path("the recipes").join(recipe.file_name())).unwrap();
        }
        Self { store }
    }

    /// Puts a program on the PATH of the recipes.
    fn stand_in(&self, name: &str, script: &str) {
        write(&self.store.path("stand ins").join(name), script, 0o755);
    }

    fn work_tree(&self) -> PathBuf {
        self.store.path("work tree")
    }

    /// A command with `tenure` and the stand-ins on its PATH, in the work tree.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let tenure = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap();
        let own = [self.store.path("stand ins"), tenure.to_owned()];
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(own.into_iter().chain(env::split_paths(&path))).unwrap();
        let mut command = Command::new(program.as_ref());
        self.store.dress(&mut command);
        command
            .env("PATH", path)
            .env("HOME", self.store.path("home"))
            .env("XDG_STATE_HOME", self.store.path("state"))
            .env_remove("TENURE_CLAIM")
            .current_dir(self.work_tree());
        command
    }

    fn recipe(&self, name: &str) -> Command {
        self.command(self.store.path("the recipes").join(name))
    }

    /// Runs a hook with this JSON on its standard input.
    fn hook(&self, name: &str, input: &serde_json::Value) -> Command {
        let mut command = self.command("/bin/sh");
        let hook = self.store.path("the recipes").join(name);
        command.args(["-c", "printf '%s' \"$1\" | \"$0\""]).arg(hook).arg(input.to_string());
        command
    }

    fn git(&self, words: &[&str]) {
        let mut command = self.command("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(words);
        let ended = end(&mut command);
        assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
    }

    /// Makes the work tree a repository with one commit.
    fn repository(&self) {
        self.git(&["init", "-q"]);
        fs::create_dir_all(self.work_tree().join("src/db")).unwrap();
        fs::write(self.work_tree().join("src/db/a b.rs"), "").unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", "first"]);
    }

    /// Asserts that the log has `count` runs of `ALONE`, none of them beside another one.
    fn ran_alone(&self, count: usize) {
        let log = self.store.log();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines.len(), 2 * count, "{log}");
        for pair in lines.chunks(2) {
            assert!(pair[0].starts_with("begin ") && pair[1] == "end", "{log}");
        }
    }
}

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes")
}

/// Runs all of these commands at once, to their ends.
fn at_once(commands: impl IntoIterator<Item = Command>) -> Vec<End> {
    let started = commands.into_iter().map(|mut command| Running::of(&mut command));
    started.collect::<Vec<_>>().into_iter().map(Running::end).collect()
}

fn all_succeed(commands: impl IntoIterator<Item = Command>) -> Vec<End> {
    let ends = at_once(commands);
    assert!(ends.iter().all(|ended| ended.code == 0), "{ends:?}");
    ends
}

#[test]
fn a_crontab_of_three_machines_runs_the_backup_once() {
    let kitchen = Kitchen::new();
    write(&kitchen.store.path("home/bin/backup.sh"), ALONE, 0o755);
    let crontab = fs::read_to_string(recipes().join("nightly.crontab")).unwrap();
    let job = crontab.lines().find_map(|line| line.strip_prefix("0 3 * * * ")).unwrap();
    assert!(job.contains("--cron '0 3 * * *'") && !job.contains('%'), "{job}");
    let cron = || {
        let mut command = kitchen.command("sh");
        command.args(["-c", job]);
        command
    };
    let ends = all_succeed([cron(), cron(), cron()]);
    assert!(ends.iter().all(|ended| ended.out.is_empty() && ended.err.is_empty()), "{ends:?}");
    let slots = kitchen.store.output(&["once", "nightly", "--list", "--json"]).lines().count();
    // There are two slots if 03:00 has passed between the starts.
    kitchen.ran_alone(slots);
}

#[test]
fn parallel_sessions_create_their_worktrees_one_at_a_time() {
    if !have(&[JQ]) {
        return;
    }
    let kitchen = Kitchen::new();
    kitchen.repository();
    // The real git, between `begin` and `end` where it creates a work tree.
    let git = Tool::program("git", "git").found().unwrap();
    let alone = ALONE.replace("sleep 0.05", &format!("'{}' \"$@\" || exit", git.display()));
    let alone = alone.strip_prefix("#!/bin/sh\n").unwrap();
    let other = format!("[ \"$1\" = worktree ] || exec '{}' \"$@\"", git.display());
    kitchen.stand_in("git", &format!("#!/bin/sh\n{other}\n{alone}"));

    let create = |at: usize| kitchen.hook("worktree.sh", &json!({"name": format!("agent-{at}")}));
    let ends = all_succeed((0..8).map(create));
    kitchen.ran_alone(8);
    for (at, ended) in ends.iter().enumerate() {
        let path = ended.out.strip_suffix('\n').unwrap();
        assert!(path.ends_with(&format!("/work tree/.claude/worktrees/agent-{at}")), "{path}");
        assert!(Path::new(path).join("src/db/a b.rs").is_file(), "{path}");
    }
    let twice = end(&mut create(0));
    assert!(twice.code != 0 && twice.out.is_empty(), "{twice:?}");
    assert_ne!(end(&mut kitchen.hook("worktree.sh", &json!({}))).code, 0);
}

#[test]
fn builds_run_one_at_a_time() {
    let kitchen = Kitchen::new();
    kitchen.stand_in("cargo", ALONE);
    let build = || {
        let mut command = kitchen.recipe("build.sh");
        command.args(["cargo", "test", "two words"]);
        command
    };
    all_succeed((0..4).map(|_| build()));
    kitchen.ran_alone(4);
    assert!(kitchen.store.log().starts_with("begin cargo test two words\n"));
}

#[test]
fn tests_at_once_have_ports_and_databases_of_their_own() {
    let kitchen = Kitchen::new();
    let hold = kitchen.store.path("hold");
    fs::write(&hold, "").unwrap();
    kitchen.stand_in("psql", "#!/bin/sh\necho psql \"$*\" >>\"$LOG\"\n");
    let script = "echo ran $PORT $PGDATABASE >>\"$LOG\"; \
        while [ -e \"$1\" ]; do sleep 0.05; done; exit 7";
    let test = || {
        let mut command = kitchen.recipe("test-database.sh");
        // The number of an outer run is not that of the test.
        command.env("TENURE_PERMIT", "3");
        command.args(["sh", "-c", script, "sh"]).arg(&hold);
        Running::of(&mut command)
    };
    let tests: Vec<_> = (0..10).map(|_| test()).collect();
    kitchen.store.line_has("test-database", 10);
    let ran = || -> Vec<String> {
        let log = kitchen.store.log();
        log.lines().filter(|line| line.starts_with("ran ")).map(String::from).collect()
    };
    crate::kit::eventually("eight tests", || ran().len() == 8);
    let mut first = ran();
    first.sort();
    let expected: Vec<_> = (1..=8).map(|at| format!("ran {} test_{at}", 5500 + at)).collect();
    assert_eq!(first, expected, "each number once, and two tests wait");
    fs::remove_file(&hold).unwrap();
    for test in tests {
        assert_eq!(test.end().code, 7, "the code of the test");
    }
    assert_eq!(ran().len(), 10);
    assert!(kitchen.store.log().contains("-c create database test_8\n"));
}

#[test]
fn terraform_applies_one_at_a_time_without_a_lock_of_its_own() {
    let kitchen = Kitchen::new();
    kitchen.stand_in("terraform", ALONE);
    let apply = || {
        let mut command = kitchen.recipe("terraform.sh");
        command.args(["prod", "-auto-approve"]);
        command
    };
    all_succeed((0..4).map(|_| apply()));
    kitchen.ran_alone(4);
    let applied = "begin terraform apply -lock=false -auto-approve\n";
    assert_eq!(kitchen.store.log().matches(applied).count(), 4);
    assert_ne!(end(&mut kitchen.recipe("terraform.sh")).code, 0, "no state is named");
}

#[test]
fn a_migration_runs_once_for_each_version() {
    let kitchen = Kitchen::new();
    kitchen.stand_in("migrate", ALONE);
    kitchen.stand_in("fail", "#!/bin/sh\nexit 7\n");
    let start = |version: &str, migration: &str| {
        let mut command = kitchen.recipe("migrate.sh");
        command.env("VERSION", version).args([migration, "up"]);
        command
    };
    all_succeed((0..3).map(|_| start("v41", "migrate")));
    kitchen.ran_alone(1);
    assert_eq!(end(&mut start("v42", "fail")).code, 7);
    all_succeed((0..3).map(|_| start("v42", "migrate")));
    kitchen.ran_alone(2);
    all_succeed([start("v41", "migrate")]);
    kitchen.ran_alone(2);
    let unnamed = end(kitchen.recipe("migrate.sh").args(["migrate"]).env_remove("VERSION"));
    assert!(unnamed.code != 0 && unnamed.err.contains("VERSION"), "{unnamed:?}");
    kitchen.ran_alone(2);
}

/// Hooks that deny edits, in a repository with claims.
struct Edits {
    kitchen: Kitchen,
}

impl Edits {
    fn new() -> Self {
        let kitchen = Kitchen::new();
        kitchen.repository();
        Self { kitchen }
    }

    /// Claims a path until the end of the test, and returns the claim.
    fn claim(&self, path: &str) -> String {
        let mut take = self.kitchen.command(env!("CARGO_BIN_EXE_tenure"));
        let taken = end(take.args(["take", "--path", path]));
        assert_eq!(taken.code, 0, "{taken:?}");
        taken.out
    }

    fn hook(&self, path: impl AsRef<Path>) -> Command {
        let path = self.kitchen.work_tree().join(path);
        let input = json!({"tool_name": "Edit", "tool_input": {"file_path": path}});
        self.kitchen.hook("deny-edit.sh", &input)
    }

    fn allowed(&self, path: impl AsRef<Path>) {
        is_allowed(&mut self.hook(path));
    }

    fn denied(&self, path: impl AsRef<Path>) {
        is_denied(&mut self.hook(path), "is claimed by claim-holder[");
    }
}

fn is_allowed(hook: &mut Command) {
    let ended = end(hook);
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""));
}

fn is_denied(hook: &mut Command, with: &str) {
    let ended = end(hook);
    assert!(ended.code == 2 && ended.out.is_empty() && ended.err.contains(with), "{ended:?}");
}

#[test]
fn an_edit_of_a_claimed_path_is_denied_for_another_session_only() {
    if !have(&[JQ]) {
        return;
    }
    let edits = Edits::new();
    let other = edits.claim("src/db");
    let own = edits.claim("src/own.rs");
    for path in ["src/db/a b.rs", "src/db", "src/db/new folder/c.rs", "src/./db/../db/a b.rs"] {
        edits.denied(path);
        is_denied(edits.hook(path).env("TENURE_CLAIM", &own), "path:src/db is claimed by");
        is_allowed(edits.hook(path).env("TENURE_CLAIM", &other));
    }
    for path in ["src/db2", "src/free.rs", "README.md", "new/folder/d.rs"] {
        edits.allowed(path);
        is_allowed(edits.hook(path).env("TENURE_CLAIM", &own));
    }
    edits.denied("src/own.rs");
    is_allowed(edits.hook("src/own.rs").env("TENURE_CLAIM", &own));
    edits.allowed(edits.kitchen.store.path("outside of the work tree"));

    let dropped = end(edits
        .kitchen
        .command(env!("CARGO_BIN_EXE_tenure"))
        .arg("drop")
        .env("TENURE_CLAIM", &own));
    assert_eq!(dropped.code, 0, "{dropped:?}");
    edits.allowed("src/own.rs");
    is_denied(edits.hook("src/db/a b.rs").env("TENURE_CLAIM", &own), "is claimed by");

    let everything = edits.claim("src/whole");
    let notebook = edits.kitchen.work_tree().join("src/whole/b.ipynb");
    let input = json!({"tool_input": {"notebook_path": notebook}});
    is_denied(&mut edits.kitchen.hook("deny-edit.sh", &input), "path:src/whole is claimed");
    is_allowed(edits.kitchen.hook("deny-edit.sh", &input).env("TENURE_CLAIM", everything));
}

#[test]
fn an_edit_in_another_work_tree_or_through_a_link_meets_the_same_claim() {
    if !have(&[JQ]) {
        return;
    }
    let edits = Edits::new();
    edits.kitchen.git(&["worktree", "add", "-q", "-b", "other", "../other tree"]);
    let tree = edits.kitchen.work_tree();
    std::os::unix::fs::symlink(tree.join("src/db/a b.rs"), tree.join("link.rs")).unwrap();
    std::os::unix::fs::symlink(tree.join("src"), tree.join("linked")).unwrap();
    let claim = edits.claim("src/db");
    for path in ["link.rs", "linked/db/a b.rs", "linked/db/new.rs", "../other tree/src/db/a b.rs"] {
        edits.denied(path);
        is_allowed(edits.hook(path).env("TENURE_CLAIM", &claim));
    }
    edits.allowed("../other tree/src/free.rs");
}

#[test]
fn an_edit_is_denied_when_the_hook_cannot_decide() {
    if !have(&[JQ]) {
        return;
    }
    let edits = Edits::new();
    let unmade = format!("file:{}", edits.kitchen.store.path("unmade").display());
    for unreachable in [unmade.as_str(), "redis://localhost:1"] {
        let mut hook = edits.hook("README.md");
        is_denied(hook.env("TENURE_ON", unreachable), "the claims cannot be read");
    }
    is_denied(&mut edits.hook("new/../README.md"), "contains ..");
    let nothing = edits.kitchen.store.path("home");
    is_denied(edits.hook("README.md").env("PATH", nothing), "needs jq");
    for input in [json!({}), json!({"tool_input": {"command": "ls"}}), json!("}")] {
        is_denied(&mut edits.kitchen.hook("deny-edit.sh", &input), "names no file");
    }
}

/// The lines that a runner gives to its shell, after the line `key`: a block, or a list.
fn script(file: &str, key: &str) -> String {
    let text = fs::read_to_string(recipes().join(file)).unwrap();
    let (_, rest) = text.split_once(&format!("{key}\n")).unwrap();
    let lines = rest.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn jobs_of_github_and_gitlab_deploy_one_at_a_time() {
    let kitchen = Kitchen::new();
    write(&kitchen.work_tree().join("deploy.sh"), ALONE, 0o755);
    let scripts = [script("github-actions.yml", " run: |"), script("gitlab-ci.yml", " script:")];
    let job = |script: &String| {
        let mut command = kitchen.command("sh");
        command.args(["-e", "-c", script]);
        command
    };
    all_succeed(scripts.iter().chain(&scripts).map(job));
    kitchen.ran_alone(4);
    for script in &scripts {
        assert_ne!(end(job(script).env("TENURE_ON", "")).code, 0, "a secret is missing");
    }
    kitchen.ran_alone(4);
}
