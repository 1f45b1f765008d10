//! The servers of ZooKeeper serve when they are started, and again after failures.

#![cfg(unix)]

use tenure_servers::zookeeper::{Ensemble, JAVA, Role, ZOOKEEPER};
use tenure_servers::{Store as _, have};

#[test]
fn a_server_alone_comes_back_after_a_kill() {
    if !have(&[JAVA, ZOOKEEPER]) {
        return;
    }
    let ensemble = Ensemble::of(1).expect("it starts");
    let server = ensemble.leader().expect("it serves");
    let url = ensemble.url();
    assert_eq!(url, format!("zookeeper://127.0.0.1:{}", server.port()));
    server.kill().expect("it can be killed");
    server.role().expect_err("it is gone");
    server.restart().expect("it comes back");
    assert_eq!((server.role(), ensemble.url()), (Ok(Role::Alone), url));
    server.freeze().expect("it stands still");
    server.role().expect_err("it says nothing");
    server.thaw().expect("it goes on");
    assert_eq!(server.role(), Ok(Role::Alone));
}

#[test]
fn another_server_leads_when_the_leader_is_gone() {
    if !have(&[JAVA, ZOOKEEPER]) {
        return;
    }
    let ensemble = Ensemble::of(3).expect("it starts");
    let leader = ensemble.leader().expect("one leads");
    ensemble.follower().expect("the others follow");
    leader.kill().expect("it can be killed");
    let next = ensemble.leader().expect("another one leads");
    assert_ne!(next.port(), leader.port());
    leader.restart().expect("it comes back");
    assert_eq!(leader.role(), Ok(Role::Follower));
}
