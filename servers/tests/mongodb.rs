//! The servers of MongoDB have their setup, and survive the failures that tests cause.

#![cfg(unix)]

use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Members, Server, Setup, doc};

/// Writes with confirmation by a majority.
fn write(server: &Server) -> Result<(), String> {
    let safely = doc! { "w": "majority", "j": true, "wtimeout": 10_000 };
    let insert = doc! { "insert": "records", "documents": [{}], "writeConcern": safely };
    server.command("test", insert).map(drop)
}

fn written(server: &Server) -> i32 {
    let count = server.command("test", doc! { "count": "records" }).expect("it answers");
    count.get_i32("n").expect("it counts")
}

#[test]
fn a_server_keeps_its_place_and_its_data_over_a_kill() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().expect("it starts");
    write(&server).expect("it takes writes");
    let url = server.url();
    server.kill().expect("it can be killed");
    assert!(!server.is_primary());
    server.restart().expect("it comes back");
    assert_eq!((server.url(), written(&server)), (url, 1));
    server.freeze().expect("it stands still");
    assert!(!server.is_primary());
    server.thaw().expect("it goes on");
    write(&server).expect("it takes writes");
}

#[test]
fn a_server_alone_has_no_set() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Setup::new().standalone().start().expect("it starts");
    let hello = server.command("admin", doc! { "hello": 1 }).expect("it answers");
    assert!(!hello.contains_key("setName"), "{hello}");
    assert!(server.url().contains("directConnection"));
}

#[test]
fn commands_fail_by_the_fail_point() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().expect("it starts");
    let refusal = doc! { "failCommands": ["insert"], "errorCode": 11600 };
    server.fail_commands(refusal, 1).expect("it is told");
    let refused = write(&server).expect_err("it fails once");
    assert!(refused.contains("11600"), "{refused}");
    write(&server).expect("it fails no more");
    let cut = doc! { "failCommands": ["insert"], "closeConnection": true };
    server.fail_commands(cut, 9).expect("it is told");
    write(&server).expect_err("it is cut off");
    server.fail_no_more().expect("it is told");
    write(&server).expect("it fails no more");
}

#[test]
fn only_the_limited_user_gets_in() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Setup::new().tls().limited_user("locks", "se/cret").start().expect("it starts");
    write(&server).expect_err("nobody gets in without a login");
    let url = server.url();
    assert!(url.starts_with("mongodb://locks:se%2Fcret@127.0.0.1:"), "{url}");
    assert!(url.contains("tls=true&tlsCAFile="), "{url}");
    server.kill().expect("it can be killed");
    server.restart().expect("it comes back with its user");
}

#[test]
fn another_member_takes_the_writes_of_one_that_is_gone() {
    if !have(&[MONGOD]) {
        return;
    }
    let members = Members::start(3).expect("they start");
    let first = members.primary().expect("there is one");
    write(first).expect("it takes writes");
    first.kill().expect("it can be killed");
    let next = members.next_primary(first).expect("another one takes over");
    write(next).expect("it takes writes");
    first.restart().expect("it comes back");
    write(members.primary().expect("there is one")).expect("it takes writes");
}
