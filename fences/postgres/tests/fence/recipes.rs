//! The recipes of `RECIPES.md`: the code is read from the page, and run against the server.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

const PSQL: Tool = Tool::program("psql", "postgresql-client");
const PAGE: &str = include_str!("../../RECIPES.md");
/// The interpreters in which the packages are looked for: the first on the PATH, and Debian's.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// Runs one test with a table of invoices under a fence.
fn with_invoices(test: impl AsyncFnOnce(&mut Bench)) {
    Bench::run(async |bench| {
        let create = "CREATE TABLE invoices (id int PRIMARY KEY, paid bool NOT NULL DEFAULT false)";
        bench.sql(create).await;
        bench.sql("INSERT INTO invoices VALUES (42, false)").await;
        bench.fence("invoices").install(&bench.client).await.unwrap();
        test(bench).await;
    });
}

async fn invoice(bench: &Bench) -> String {
    bench.one("SELECT paid || ' ' || tenure_token FROM invoices WHERE id = 42").await
}

async fn clear(bench: &mut Bench, token: u64) {
    bench.write("UPDATE invoices SET paid = false", token).await.unwrap();
}

/// Returns the block of code in this language below a heading of the page.
fn block(heading: &str, language: &str) -> &'static str {
    let start = format!("\n## {heading}\n");
    let (_, section) = PAGE.split_once(start.as_str()).expect("the page has this heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let opening = format!("\n```{language}\n");
    let (_, code) = section.split_once(opening.as_str()).expect("the section has a block");
    code.split("```").next().unwrap_or_default()
}

async fn run(bench: &Bench, statement: &str, token: u64) -> Result<u64> {
    let token = token.to_string();
    let done = bench.client.execute_typed(statement, &[(&token, Type::TEXT)]).await;
    done.map_err(into_error)
}

#[test]
fn a_statement_that_sets_its_token_is_guarded() {
    with_invoices(async |bench| {
        for statement in block("SQL without a transaction", "sql").split("\n\n") {
            clear(bench, 42).await;
            assert_eq!(run(bench, statement, 43).await.unwrap(), 1);
            assert_eq!(invoice(bench).await, "true 43");
            assert_stale(run(bench, statement, 42).await, 42, 43);
            let plain = bench.client.batch_execute("UPDATE invoices SET paid = true").await;
            assert_failed(plain.map_err(into_error), ErrorKind::Invalid, "needs the token");
            bench.sql("ALTER TABLE invoices DISABLE TRIGGER tenure_fence").await;
            bench.sql("UPDATE invoices SET tenure_token = 0").await;
            bench.sql("ALTER TABLE invoices ENABLE TRIGGER tenure_fence").await;
        }
    });
}

#[test]
fn a_statement_that_compares_the_column_needs_no_trigger() {
    with_invoices(async |bench| {
        bench.sql("DROP TRIGGER tenure_fence ON invoices").await;
        for statement in block("SQL without the trigger", "sql").split("\n\n") {
            bench.sql("UPDATE invoices SET paid = false, tenure_token = 42").await;
            assert_eq!(run(bench, statement, 41).await.unwrap(), 0);
            assert_eq!(invoice(bench).await, "false 42");
            for token in [42, 43, 43] {
                assert_eq!(run(bench, statement, token).await.unwrap(), 1);
            }
            assert_eq!(invoice(bench).await, "true 43");
        }
    });
}

#[test]
fn psql_gets_its_token_from_the_environment() {
    if !have(&[PSQL]) {
        return;
    }
    let script = block("psql, and every program with libpq", "sh");
    with_invoices(async |bench| {
        clear(bench, 42).await;
        let run = |token: u64| {
            let mut command = with_environment(bench, "sh");
            command.args(["-e"]).env("TENURE_TOKEN", token.to_string());
            output(command, script)
        };
        let (code, said) = run(41);
        assert!(code == Some(1) && said.contains("41 < 42"), "{said}");
        let (code, said) = run(43);
        assert_eq!((code, invoice(bench).await.as_str()), (Some(0), "true 43"), "{said}");
    });
}

#[test]
fn sqlalchemy_needs_one_statement() {
    python(
        "SQLAlchemy",
        "sqlalchemy",
        r#"
import sys
from sqlalchemy import Boolean, Column, Integer, create_engine
try:
    from sqlalchemy.orm import declarative_base
except ImportError:
    from sqlalchemy.ext.declarative import declarative_base

class Invoice(declarative_base()):
    __tablename__ = "invoices"
    id = Column(Integer, primary_key=True)
    paid = Column(Boolean)

engine = create_engine("postgresql+psycopg://")
"#,
        "pay(engine, int(sys.argv[1]))",
        "DBAPIError",
    );
}

#[test]
fn django_needs_one_statement() {
    python(
        "Django",
        "django",
        r#"
import os, sys, django
from django.conf import settings
there = {name: os.environ["PG" + name] for name in ("USER", "PASSWORD", "HOST", "PORT")}
there.update(ENGINE="django.db.backends.postgresql", NAME=os.environ["PGDATABASE"])
settings.configure(DATABASES={"default": there}, DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()
from django.db import models

class Invoice(models.Model):
    id = models.IntegerField(primary_key=True)
    paid = models.BooleanField()
    class Meta:
        app_label = "shop"
        db_table = "invoices"
"#,
        "pay(int(sys.argv[1]))",
        "DatabaseError",
    );
}

/// Runs the recipe with a token that is too old, and with a newer one.
fn python(heading: &str, package: &str, before: &str, call: &str, error: &str) {
    let Some(python) = python_with(package) else { return };
    let recipe = block(heading, "python");
    let after = format!(
        "try:\n    {call}\nexcept {error} as error:\n    sys.exit(3 if is_stale(error) else str(error))\n"
    );
    let program = format!("{before}\n{recipe}\n{after}");
    with_invoices(async |bench| {
        for (token, code, expected) in [(41, 3, "false 42"), (42, 0, "true 42"), (43, 0, "true 43")]
        {
            clear(bench, 42).await;
            let mut command = with_environment(bench, python);
            command.args(["-", &token.to_string()]);
            let (exit, said) = output(command, &program);
            assert_eq!(exit, Some(code), "{heading}: {said}");
            assert_eq!(invoice(bench).await, expected, "{heading}: {said}");
        }
    });
}

/// Returns an interpreter with the package and the driver, or prints `SKIPPED` and the reason.
fn python_with(package: &str) -> Option<&'static str> {
    let can = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import {package}, psycopg")]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let found = PYTHONS.into_iter().find(can);
    if found.is_none() {
        // The test runner captures the output of `println!`.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED Python has no {package} or no psycopg. Install the packages python3-{package} and python3-psycopg."
        );
    }
    found
}

/// Returns a command whose libpq connects to the schema of the test.
fn with_environment(bench: &Bench, program: &str) -> Command {
    let config: tokio_postgres::Config = bench.url.parse().unwrap();
    let password = String::from_utf8(config.get_password().unwrap_or_default().to_vec()).unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the server listens on TCP")
    };
    let mut command = Command::new(program);
    command
        .env("PGHOST", host)
        .env("PGPORT", config.get_ports()[0].to_string())
        .env("PGUSER", config.get_user().unwrap_or_default())
        .env("PGPASSWORD", password)
        .env("PGDATABASE", config.get_dbname().unwrap_or("postgres"))
        .env("PGOPTIONS", format!("-c search_path={}", bench.schema));
    command
}

/// Runs the command with this text as its input. Returns the exit code, and all output.
fn output(mut command: Command, input: &str) -> (Option<i32>, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}
