//! Deployments of several servers: independent masters, sentinels, a cluster.
#![cfg(unix)]

use tenure_servers::redis::{Cluster, Masters, REDIS, Sentinels, Server, Setup};
use tenure_servers::{Result, have};

#[test]
fn masters_are_independent() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let masters = Masters::start(5)?;
    let ports: Vec<_> =
        masters.servers().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    assert_eq!(masters.url(), format!("redlock://{}", ports.join(",")));
    masters.servers()[0].command(&["SET", "a", "b"])?;
    for server in &masters.servers()[1..] {
        assert_eq!(server.command(&["EXISTS", "a"])?.integer()?, 0);
    }
    Ok(())
}

#[test]
fn sentinels_name_another_master() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let set = Sentinels::over(&Setup::new().password("of all"), 2)?;
    let ports: Vec<_> =
        set.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    assert_eq!(set.url(), format!("redis+sentinel://:of%20all@{}/tenure", ports.join(",")));
    let old = set.master()?;
    assert_eq!((old.port(), set.servers().len()), (set.servers()[0].port(), 3));
    old.command(&["SET", "a", "b"])?;
    assert_eq!(old.command(&["WAIT", "2", "5000"])?.integer()?, 2);

    old.kill()?;
    let new = set.next_master(old)?;
    assert_ne!(new.port(), old.port());
    assert_eq!(new.command(&["GET", "a"])?.text()?, "b");
    old.restart()?;
    assert_eq!(set.master()?.port(), new.port());
    Ok(())
}

#[test]
fn a_cluster_moves_a_slot_step_by_step() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let cluster = Cluster::start()?;
    let ports: Vec<_> =
        cluster.nodes().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));

    let slot = cluster.slot_of("{tenure}:a")?;
    let from = cluster.owner_of(slot)?;
    let to = cluster.nodes().iter().find(|it| it.port() != from.port()).expect("there are three");
    let third = cluster.nodes().iter().find(|it| ![from.port(), to.port()].contains(&it.port()));
    let third = third.expect("there are three");
    from.command(&["SET", "{tenure}:a", "b"])?;
    let said = |node: &Server, key: &str| match node.command(&["GET", key]) {
        Ok(reply) => format!("{reply:?}"),
        Err(why) => why,
    };
    let (ask, moved) = (format!("ASK {slot} 127.0.0.1:{}", to.port()), format!("MOVED {slot} "));
    assert!(said(to, "{tenure}:a").contains(&moved));

    let relocation = cluster.relocate(slot, to)?;
    assert_eq!((relocation.from().port(), relocation.to().port()), (from.port(), to.port()));
    assert!(said(from, "{tenure}:a").starts_with("Bytes"));
    assert!(said(from, "{tenure}:none").contains(&ask));
    assert_eq!(relocation.carry()?, 1);
    assert!(said(from, "{tenure}:a").contains(&ask));
    assert!(said(third, "{tenure}:a").contains(&format!("MOVED {slot} 127.0.0.1:{}", from.port())));
    relocation.finish()?;
    for node in [from, third] {
        assert!(said(node, "{tenure}:a").contains(&format!("{moved}127.0.0.1:{}", to.port())));
    }
    assert!(said(to, "{tenure}:a").starts_with("Bytes"));
    assert_eq!(cluster.owner_of(slot)?.port(), to.port());
    assert!(cluster.relocate(slot, to).is_err());
    Ok(())
}

#[test]
fn a_cluster_may_require_a_password() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let cluster = Cluster::of(&Setup::new().password("secret"), 0)?;
    assert!(cluster.url().starts_with("redis+cluster://:secret@127.0.0.1:"));
    let slot = cluster.slot_of("a")?;
    let from = cluster.owner_of(slot)?;
    from.command(&["SET", "a", "b"])?;
    let to = cluster.nodes().iter().find(|it| it.port() != from.port()).expect("there are three");
    cluster.relocate(slot, to)?.finish()?;
    assert_eq!(to.command(&["GET", "a"])?.text()?, "b");
    Ok(())
}

#[test]
fn a_replica_in_a_cluster_takes_over() -> Result<()> {
    if !have(&[REDIS]) {
        return Ok(());
    }
    let cluster = Cluster::with_replicas(1)?;
    assert_eq!(cluster.nodes().len(), 6);
    let slot = cluster.slot_of("a")?;
    let old = cluster.owner_of(slot)?;
    old.command(&["SET", "a", "b"])?;
    assert_eq!(old.command(&["WAIT", "1", "5000"])?.integer()?, 1);
    old.kill()?;
    let new = cluster.next_owner(slot, old)?;
    assert_eq!(new.command(&["GET", "a"])?.text()?, "b");
    Ok(())
}
