//! The files in `observe/`: rules, dashboard, configuration, unit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use tenure_core::{Locks, Memory};
use tenure_servers::{PROMTOOL, Tool, have};

use crate::kit::{join, server, store};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

/// Runs a program, and returns its output if it fails.
fn run(command: &mut Command) {
    let output = command.current_dir(folder()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:#?}");
}

/// Keeps the names of all metrics that are described.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<BTreeSet<String>>>);

impl Names {
    fn add(&self, name: &KeyName) {
        self.0.lock().unwrap().insert(name.as_str().to_owned());
    }
}

impl Recorder for Names {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.add(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.add(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.add(&name);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The metrics that a file names.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("tenure_"));
    let series = ["_bucket", "_count", "_sum"];
    let family = |name: &str| {
        series.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    names.map(family).collect()
}

#[tokio::test]
async fn dashboard_and_alerts_name_only_metrics_that_are_emitted() {
    let names = Names::default();
    with_local_recorder(&names, || drop(Locks::new(Memory::new())));
    let mut emitted = names.0.lock().unwrap().clone();
    assert!(emitted.contains("tenure_losses_total"), "{emitted:?}");
    let (memory, locks) = store();
    join(&memory, "k", "holder").await;
    let server = server(&locks).await;
    emitted.extend(named_in(&server.get("/metrics").await.body));
    for file in ["dashboard.json", "alerts.yaml"] {
        let shown = named_in(&read(file));
        let unknown: Vec<_> = shown.difference(&emitted).collect();
        assert!(!shown.is_empty() && unknown.is_empty(), "{file}: {unknown:?}");
    }
    serde_json::from_str::<serde_json::Value>(&read("dashboard.json")).unwrap();
    server.end().await;
}

#[tokio::test]
async fn promtool_accepts_metrics_configuration_and_rules() {
    if !have(&[PROMTOOL]) {
        return;
    }
    let (memory, locks) = store();
    join(&memory, "k", "holder").await;
    let server = server(&locks).await;
    server.get("/nothing").await;
    let answer = server.get("/metrics").await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), answer.body).unwrap();
    let text = Stdio::from(fs::File::open(file.path()).unwrap());
    run(Command::new("promtool").args(["check", "metrics"]).stdin(text));
    run(Command::new("promtool").args(["check", "config", "--syntax-only", "prometheus.yaml"]));
    run(Command::new("promtool").args(["test", "rules", "alerts_test.yaml"]));
    server.end().await;
}

#[test]
fn systemd_accepts_the_unit() {
    if !have(&[Tool::program("systemd-analyze", "systemd").not_required()]) {
        return;
    }
    // The unit names a program that is installed.
    let program = std::env::current_exe().unwrap();
    let unit = read("tenure-serve.service");
    let unit = unit.replace("/usr/local/bin/tenure ", &format!("{} ", program.display()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure-serve.service");
    fs::write(&file, unit).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let output = verify.arg("verify").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("tenure-serve"), "{said}");
}
