//! Refusals are reported with their reason, and without a password.

use std::time::Duration;

use tenure_core::{Error, ErrorKind, Loss};
use tenure_servers::Store as _;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

use super::stage::{LINES, TTL, connect, operator, play, soon, tickets};

/// The node that a sign of life writes to.
const NOW: &str = "/tenure/v1/now";

fn is_refused(error: &Error) -> String {
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    error.to_string()
}

#[test]
fn a_chroot_that_is_not_there_is_named() {
    play(1, async |ensemble| {
        let url = format!("{}/no/such", ensemble.url());
        let error = tenure_zookeeper::connect(&url).await.map(drop).unwrap_err();
        let said = is_refused(&error);
        assert!(said.contains("has no node /no/such"), "{said}");
        let operator = operator(&ensemble).await;
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        operator.mkdir("/no/such", &open).await.unwrap();
        let locks = tenure_zookeeper::connect(&url).await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        assert!(operator.check_stat("/no/such/tenure/v1/t").await.unwrap().is_some());
    });
}

#[test]
fn users_are_told_what_they_may_not() {
    play(1, async |ensemble| {
        let url = ensemble.url();
        let of = |login: &str| url.replacen("://", &format!("://{login}@"), 1);
        let mine = tenure_zookeeper::connect(of("locks:hunter2")).await.unwrap();
        let guard = mine.mutex("k").lock().await.unwrap();
        for other in [of("locks:hunter2x"), url.clone()] {
            let error = tenure_zookeeper::connect(other).await.map(drop).unwrap_err();
            let said = is_refused(&error);
            assert!(said.contains("does not let this user"), "{said}");
        }
        tenure_zookeeper::connect(format!("{url}?prefix=elsewhere")).await.expect("it is open");
        guard.check().unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn rights_that_are_taken_away_are_told_and_nothing_is_left_behind() {
    play(1, async |ensemble| {
        let locks = tenure_zookeeper::connect(ensemble.url()).await.unwrap();
        let operator = operator(&ensemble).await;
        operator.auth("digest", b"root:secret").await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        let root = [Acl::new(Permission::ALL, AuthId::authed())];
        let line = operator.list_children("/tenure/v1/t").await.unwrap().remove(0);
        let line = format!("/tenure/v1/t/{line}");
        operator.set_acl(&line, &root, None).await.unwrap();
        let error = locks.mutex("k").lock().await.map(drop).unwrap_err();
        let said = is_refused(&error);
        assert!(said.contains("does not let this user"), "{said}");
        assert_eq!(operator.list_children(&line).await.unwrap(), Vec::<String>::new());
        locks.mutex("other").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_refused_join_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let url = ensemble.url();
        let open = tenure_zookeeper::connect(&url).await.unwrap();
        let user = url.replacen("://", "://locks:hunter2@", 1);
        let user = tenure_zookeeper::connect(&user).await.unwrap();
        let operator = operator(&ensemble).await;
        // All users may join the line, and only the user may read its ticket.
        open.mutex("k").lock().await.unwrap().release().await.unwrap();
        let line = operator.list_children(LINES).await.unwrap().remove(0);
        let line = format!("{LINES}/{line}");
        let all_but_read =
            Permission::CREATE | Permission::WRITE | Permission::DELETE | Permission::ADMIN;
        let let_all = async |rights| {
            operator.set_acl(&line, &[Acl::new(rights, AuthId::anyone())], None).await.unwrap();
        };
        for rights in [Permission::ALL, all_but_read] {
            let held = user.mutex("k").lock().await.unwrap();
            let_all(rights).await;
            for _ in 0..2 {
                let error = open.mutex("k").lock().await.map(drop).unwrap_err();
                let said = is_refused(&error);
                assert!(said.contains("does not let this user"), "{said}");
            }
            let_all(Permission::ALL).await;
            assert_eq!(tickets(&operator).await.len(), 1, "the user's");
            held.release().await.unwrap();
        }
    });
}

#[test]
fn a_holder_whose_signs_of_life_are_refused_is_told_why() {
    play(3, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        operator.auth("digest", b"root:hunter2").await.unwrap();
        let guard = locks.mutex("k").ttl(TTL * 2).lock().await.unwrap();
        assert!(guard.trouble().is_none());
        let root = [Acl::new(Permission::ALL, AuthId::authed())];
        operator.set_acl(NOW, &root, None).await.unwrap();
        let trouble = soon("it is told why", async {
            loop {
                match guard.trouble().filter(|trouble| !trouble.is_retryable()) {
                    Some(trouble) => return trouble,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        let trouble = trouble.await;
        guard.check().expect("it is held until its life is over");
        let said = is_refused(&trouble);
        assert!(said.contains("does not let this user"), "{said}");
        assert_eq!(soon("it is lost", guard.lost()).await, Loss::Unreachable);
        assert_eq!(guard.trouble().map(|trouble| trouble.kind()), Some(ErrorKind::Rejected));
    });
}
