//! The servers of PostgreSQL have their setup, and survive the failures that tests cause.

#![cfg(unix)]

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use tenure_servers::have;
use tenure_servers::postgres::{
    FAKETIME, Mode, PGBOUNCER, POSTGRES, POSTGRES_18, Pooler, Server, Setup,
};

/// Creates a table with one row.
fn write(server: &Server) {
    server.sql("CREATE TABLE records (id int); INSERT INTO records VALUES (1)").expect("it writes");
}

fn written(server: &Server) -> String {
    server.sql("SELECT count(*) FROM records").expect("it answers")
}

#[test]
fn a_server_keeps_its_place_and_its_data_over_a_kill() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().durable().start().expect("it starts");
    write(&server);
    let url = server.url();
    server.kill().expect("it can be killed");
    server.sql("SELECT 1").expect_err("it does not run");
    server.restart().expect("it comes back");
    assert_eq!((server.url(), written(&server)), (url, "1".into()));
    server.stop_immediately().expect("it can be stopped");
    server.restart().expect("it comes back");
    assert_eq!(written(&server), "1");
    server.freeze().expect("it stands still");
    server.thaw().expect("it goes on");
    assert_eq!(written(&server), "1");
    server.freeze().expect("it stands still");
    server.kill().expect("a frozen one can be killed");
    server.restart().expect("it comes back");
    assert_eq!(written(&server), "1");
}

#[test]
fn a_server_has_its_settings() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().setting("max_connections=7").start().expect("it starts");
    let url = server.url();
    assert_eq!(url, format!("postgres://postgres@127.0.0.1:{}/postgres", server.port()));
    assert_eq!(server.sql("SHOW max_connections; SHOW fsync").expect("it answers"), "7\noff");
    server.sql("no statement").expect_err("it is refused");
}

#[test]
fn a_server_with_tls_refuses_other_connections() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().tls().password("p/ss").start().expect("it starts");
    let url = server.url();
    assert!(url.starts_with("postgres://postgres:p%2Fss@127.0.0.1:"), "{url}");
    assert!(url.contains("?sslmode=verify-full&sslrootcert="), "{url}");
    let (plain, _) = url.split_once('?').expect("it has options");
    assert_eq!(asked(&url, "SHOW ssl").expect("it answers"), "on");
    let refused = asked(&format!("{plain}?sslmode=disable"), "SHOW ssl").expect_err("it refuses");
    assert!(refused.contains("no encryption"), "{refused}");
}

#[test]
fn a_limited_user_only_creates_schemas() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().limited_user("locks", "se/cret").start().expect("it starts");
    write(&server);
    let url = server.url();
    let own = "CREATE SCHEMA own; CREATE TABLE own.t (id int); SELECT current_user";
    assert_eq!(asked(&url, own).expect("it may"), "locks");
    for refused in ["SELECT * FROM records", "CREATE ROLE other", "CREATE TABLE public.t (id int)"]
    {
        let error = asked(&url, refused).expect_err("it may not");
        assert!(error.contains("permission denied"), "{error}");
    }
    asked(&url.replace("se%2Fcret", "wrong"), "SELECT 1").expect_err("the password is wrong");
}

#[test]
fn version_18_is_another_server() {
    if !have(&[POSTGRES_18]) {
        return;
    }
    let server = Setup::new().version_18().start().expect("it starts");
    let version = server.sql("SHOW server_version").expect("it answers");
    assert!(version.starts_with("18."), "{version}");
    write(&server);
    let standby = server.standby(false).expect("it follows");
    standby.promote().expect("it takes over");
}

#[test]
fn a_synchronous_standby_has_each_commit_and_takes_over() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Server::start().expect("it starts");
    let standby = server.standby(true).expect("it follows");
    write(&server);
    server.kill().expect("it can be killed");
    standby.sql("CREATE TABLE others (id int)").expect_err("it only reads");
    standby.promote().expect("it takes over");
    assert_eq!(written(&standby), "1");
    standby.sql("CREATE TABLE others (id int)").expect("it writes");
}

#[test]
fn a_standby_that_is_cut_off_lacks_later_commits() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Server::start().expect("it starts");
    let standby = server.standby(false).expect("it follows");
    standby.cut().expect("it can be cut off");
    write(&server);
    standby.promote().expect("it takes over");
    standby.sql("SELECT * FROM records").expect_err("it never got them");
    assert_eq!(written(&server), "1");
}

#[test]
fn a_frozen_server_does_not_answer() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Server::start().expect("it starts");
    let pids = server.sql(
        "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('checkpointer', 'walwriter')",
    );
    let mut pids: Vec<_> = pids.expect("it answers").lines().map(str::to_owned).collect();
    pids.push(server.pid().expect("it runs").to_string());
    assert_eq!(pids.len(), 3);
    server.freeze().expect("it stands still");
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it still exists");
        assert!(stat.contains(") T "), "{stat}");
    }
    thread::scope(|scope| {
        let asked = scope.spawn(|| server.sql("SELECT 1"));
        server.thaw().expect("it goes on");
        assert_eq!(asked.join().expect("it does not panic"), Ok("1".into()));
    });
}

#[test]
fn the_clock_of_a_server_can_be_set() {
    if !have(&[POSTGRES, FAKETIME]) {
        return;
    }
    let server = Setup::new().settable_clock().start().expect("it starts");
    let now = || {
        let seconds = server.sql("SELECT floor(extract(epoch FROM clock_timestamp()))");
        seconds.expect("it answers").parse::<u64>().expect("it is a number")
    };
    let before = now();
    server.set_clock(-3600).expect("it is set");
    assert!(now() < before);
    server.set_clock(0).expect("it is set");
    assert!(now() >= before);
    Server::start().expect("it starts").set_clock(1).expect_err("it has no such clock");
}

#[test]
fn a_pooler_gives_connections_for_a_transaction_or_a_statement() {
    if !have(&[POSTGRES, PGBOUNCER]) {
        return;
    }
    let server = Setup::new().limited_user("locks", "se/cret").start().expect("it starts");
    let pooler = Pooler::before(&server, Mode::Transaction).expect("it starts");
    let user = "BEGIN; SELECT current_user; COMMIT";
    assert_eq!(pooler.sql(user).expect("it answers"), "locks");
    assert_eq!(asked(&pooler.url(), user).expect("it answers"), "locks");
    pooler.freeze().expect("it stands still");
    pooler.thaw().expect("it goes on");
    pooler.kill().expect("it can be killed");
    pooler.sql(user).expect_err("it does not run");
    pooler.restart().expect("it comes back");
    let by_statement = Pooler::before(&server, Mode::Statement).expect("it starts");
    let refused = by_statement.sql(user).expect_err("it has no transactions");
    assert!(refused.contains("not allowed"), "{refused}");
}

/// Runs statements as a user of the URL does.
fn asked(url: &str, statements: &str) -> Result<String, String> {
    let mut psql = Command::new("psql");
    let asked = psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statements]);
    let output = asked.stdin(Stdio::null()).output().expect("psql is installed");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}
