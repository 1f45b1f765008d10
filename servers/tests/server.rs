//! A server of Redis: setup, commands, freeze, kill, restart, and its end.
#![cfg(unix)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, test_kill_process};
use tenure_servers::redis::{FAKETIME, REDIS, Reply, Server, Setup, VALKEY};
use tenure_servers::{Result, have};

fn is_running(pid: u32) -> bool {
    let pid = pid.cast_signed();
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn time(server: &Server) -> Result<i64> {
    server.command(&["EVAL", "return redis.call('TIME')", "0"])?.at(0)?.integer()
}

fn true_time() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_secs()).expect("it is before the end of time")
}

#[test]
fn a_server_answers_and_is_gone_with_its_value() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Server::start()?;
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert_eq!(server.command(&["SET", "a", "b"])?, Reply::Word("OK".into()));
    assert_eq!(server.command(&["GET", "a"])?.text()?, "b");
    let refused = server.command(&["INCR", "a"]).expect_err("it is no number");
    assert!(refused.contains("refused `INCR a`: ERR value is not an integer"), "{refused}");

    let (pid, folder, port) = (server.pid()?, server.folder().to_path_buf(), server.port());
    assert!(is_running(pid) && folder.is_dir());
    drop(server);
    assert!(!is_running(pid) && !folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn a_client_keeps_its_connection() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Server::start()?;
    let mut subscriber = server.client()?;
    subscriber.command(&["SUBSCRIBE", "news"])?;
    assert_eq!(server.command(&["PUBLISH", "news", "it works"])?.integer()?, 1);
    assert_eq!(subscriber.receive()?.at(2)?.text()?, "it works");
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"])?;
    assert!(subscriber.receive().is_err());
    Ok(())
}

#[test]
fn a_killed_server_loses_its_data_without_a_log() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    for (setup, kept) in
        [(Setup::new(), Reply::Nil), (Setup::new().appendonly(), Reply::Bytes(b"b".to_vec()))]
    {
        let server = setup.start()?;
        server.command(&["SET", "a", "b"])?;
        let before = server.pid()?;
        server.kill()?;
        assert!(!is_running(before));
        assert!(server.pid().is_err() && server.command(&["PING"]).is_err());
        server.kill()?;
        server.restart()?;
        assert_ne!(server.pid()?, before);
        assert_eq!(server.command(&["GET", "a"])?, kept);
        assert!(server.restart().expect_err("it runs").contains("runs already"));
    }
    Ok(())
}

#[test]
fn a_server_may_be_stopped_politely() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Server::start()?;
    server.stop_politely()?;
    let log = fs::read_to_string(server.folder().join("log")).expect("it is kept");
    assert!(log.contains("ready to exit, bye bye"), "{log}");
    assert!(server.stop_politely().is_err() && server.freeze().is_err());
    server.restart()
}

#[test]
fn a_frozen_server_does_not_answer_until_it_thaws() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Server::start()?;
    for _ in 0..2 {
        server.freeze()?;
        server.freeze()?;
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
        stream.write_all(b"PING\r\n").expect("it is taken");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("it is a limit");
        let mut answer = [0; 7];
        assert!(stream.read_exact(&mut answer).is_err(), "it says nothing");
        server.thaw()?;
        stream.set_read_timeout(None).expect("it is no limit");
        stream.read_exact(&mut answer).expect("it says what it was asked for");
        assert_eq!(&answer, b"+PONG\r\n");
    }

    server.freeze()?;
    server.stop_politely()?;
    server.restart()?;
    server.freeze()?;
    server.kill()?;
    server.restart()?;
    server.freeze()?;
    let (pid, began) = (server.pid()?, Instant::now());
    drop(server);
    assert!(!is_running(pid) && began.elapsed() < Duration::from_secs(10));
    Ok(())
}

#[test]
fn a_user_has_exactly_the_rights_of_an_engine() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Setup::new().user("te:nure", "pass@word").start()?;
    let at = format!("redis://te%3Anure:pass%40word@127.0.0.1:{}", server.port());
    assert_eq!(server.url(), at);
    let mut client = server.client()?;
    client.command(&["AUTH", "te:nure", "pass@word"])?;
    for allowed in [
        "SET tenure:a b",
        "EVAL return{redis.call('TIME'),redis.call('GET',KEYS[1])} 1 tenure:a",
        "SCRIPT LOAD return",
        "PUBLISH tenure:a b",
        "INFO replication",
        "CONFIG GET maxmemory-policy",
        "WAIT 0 1",
        "ROLE",
        "CLIENT SETNAME tenure",
        "SUBSCRIBE tenure:a",
        "PING",
    ] {
        client.command(&allowed.split(' ').collect::<Vec<_>>())?;
    }
    for of_a_cluster in ["CLUSTER SLOTS", "CLUSTER SHARDS", "ASKING", "READONLY"] {
        let words = format!("ACL DRYRUN te:nure {of_a_cluster}");
        let verdict = server.command(&words.split(' ').collect::<Vec<_>>())?;
        assert_eq!(verdict.text()?, "OK", "{of_a_cluster}");
    }
    let mut client = server.client()?;
    client.command(&["AUTH", "te:nure", "pass@word"])?;
    for forbidden in [
        "GET other",
        "EVAL return{redis.call('GET',KEYS[1])} 1 other",
        "PUBLISH other b",
        "CONFIG SET maxmemory 1",
        "FLUSHALL",
        "KEYS *",
        "CLIENT KILL TYPE normal",
        "ACL LIST",
    ] {
        let refused = client.command(&forbidden.split(' ').collect::<Vec<_>>());
        let refused = refused.expect_err(forbidden);
        assert!(refused.contains("NOPERM") || refused.contains("ACL failure"), "{refused}");
    }
    let nobody = tenure_servers::redis::Client::connect(server.port(), None)?.command(&["PING"]);
    assert!(nobody.expect_err("it needs a password").contains("NOAUTH"));
    Ok(())
}

#[test]
fn a_password_is_required() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Setup::new().password("a b\"c").start()?;
    assert_eq!(server.url(), format!("redis://:a%20b%22c@127.0.0.1:{}", server.port()));
    assert_eq!(server.command(&["PING"])?.text()?, "PONG");
    let replica = Setup::new().replica_of(&server).start()?;
    server.command(&["SET", "a", "b"])?;
    assert_eq!(server.command(&["WAIT", "1", "5000"])?.integer()?, 1);
    assert!(replica.command(&["SET", "a", "c"]).is_err_and(|error| error.contains("READONLY")));
    Ok(())
}

#[test]
fn a_server_shows_and_requires_a_certificate() -> Result<()> {
    let ask = |port: u16, more: &[&Path]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-brief", "-verify_return_error", "-verify_ip", "127.0.0.1"]);
        openssl.args(["-connect", &format!("127.0.0.1:{port}"), "-CAfile"]).arg(more[0]);
        if let [_, certificate, key] = more {
            openssl.arg("-cert").arg(certificate).arg("-key").arg(key);
        }
        talk(&mut openssl, "PING\r\n")
    };
    if !have(&[REDIS, tenure_servers::Tool::program("openssl", "openssl").not_required()]) {
        return Ok(());
    }
    let (one, both) = (Setup::new().tls().start()?, Setup::new().mutual_tls().start()?);
    let (one_port, both_port) = (one.tls_port().expect("one"), both.tls_port().expect("one"));
    let one_ca = one.certificates().expect("some").ca();
    let certificates = both.certificates().expect("some");
    let all = [certificates.ca(), certificates.client(), certificates.client_key()];
    let [ca, client, key] = all.each_ref().map(|path| path.to_str().expect("it is plain"));
    assert_eq!(
        one.url(),
        format!("rediss://127.0.0.1:{one_port}?ca={}", one_ca.to_str().expect("it is plain"))
    );
    assert_eq!(
        both.url(),
        format!("rediss://127.0.0.1:{both_port}?ca={ca}&cert={client}&key={key}")
    );

    assert!(ask(one_port, &[&one_ca]).contains("+PONG"));
    assert!(ask(both_port, &[&all[0], &all[1], &all[2]]).contains("+PONG"));
    assert!(!ask(both_port, &[&all[0]]).contains("+PONG"), "it wants a certificate");
    assert!(!ask(one_port, &[&all[0]]).contains("+PONG"), "another authority is not trusted");
    Ok(())
}

/// Returns the output of a program. Its input stays open until it prints something, or ends.
fn talk(command: &mut Command, input: &str) -> String {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it is installed");
    let mut stdin = child.stdin.take().expect("it was asked for");
    // Fails if the program has ended already.
    let _ = stdin.write_all(input.as_bytes());
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
    stdout.read_line(&mut line).expect("it is text");
    drop(stdin);
    child.wait().expect("it ends with its input");
    line
}

#[test]
fn a_server_listens_at_a_socket() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let server = Setup::new().unix_socket().start()?;
    let socket = server.socket().expect("it was asked for");
    assert!(std::os::unix::net::UnixStream::connect(socket).is_ok());
    assert_eq!(Server::start()?.socket(), None);
    Ok(())
}

#[test]
fn an_error_about_a_bad_setting_contains_the_log() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let failed = Setup::new().setting(&["no-such-setting", "1"]).start().expect_err("it ends");
    assert!(failed.contains("ended at once with exit status: 1. Its log ends:"), "{failed}");
    assert!(failed.contains("no-such-setting"), "{failed}");
    let server = Setup::new().setting(&["maxmemory", "3mb"]).start()?;
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory"])?.at(1)?.text()?, "3145728");
    Ok(())
}

#[test]
fn a_clock_is_set_forward_and_back() -> Result<()> {
    if !have(&[REDIS, FAKETIME]) {
        return Ok(());
    }
    let server = Setup::new().settable_clock().appendonly().start()?;
    let pid = server.pid()?;
    assert!(!Path::new(&format!("/dev/shm/faketime_shm_{pid}")).exists());
    for offset in [0, 3600, -3600, 10_000_000, 7] {
        server.set_clock(offset)?;
        let off = time(&server)? - true_time() - offset;
        assert!((-1..=1).contains(&off), "{off} s off at {offset} s");
    }
    server.set_clock(0)?;
    server.command(&["SET", "a", "b", "PX", "60000"])?;
    assert_eq!(server.command(&["EXISTS", "a"])?.integer()?, 1);
    server.set_clock(61)?;
    let script = "return redis.call('EXISTS', KEYS[1])";
    assert_eq!(server.command(&["EVAL", script, "1", "a"])?.integer()?, 0);

    server.command(&["SET", "c", "d", "PX", "60000"])?;
    server.kill()?;
    server.set_clock(200)?;
    server.restart()?;
    assert_eq!(server.command(&["GET", "c"])?, Reply::Nil);
    assert!(time(&server)? - true_time() >= 199);

    let plain = Server::start()?;
    assert!(plain.set_clock(1).expect_err("it cannot").contains("settable_clock"));
    Ok(())
}

#[test]
fn a_valkey_is_started_the_same_way() -> Result<()> {
    if !have(&[VALKEY]) {
        return Ok(());
    }
    let server = Setup::new().valkey().user("tenure", "secret").start()?;
    assert!(server.command(&["INFO", "server"])?.field("valkey_version").is_ok());
    Ok(())
}
