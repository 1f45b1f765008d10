//! Refusals: each is one sentence with the server and the way out, and without a password.

use tenure_core::{Engine as _, ErrorKind, LeaveMode, Reason, WaitMode};
use tenure_servers::have;
use tenure_servers::mariadb::{GALERA, Server, Setup};

use super::stage::{LONG, assert_refused, connect, engine, key, play, ticket, until};

#[test]
fn servers_that_cannot_keep_locks_are_refused_with_the_reason() {
    play(async || {
        let refused = async |setting: &str, kind, parts: &[&str]| {
            let setup = Setup::new().limited_user("locks", "se/cret");
            let settings = setting.split(' ').fold(setup, Setup::setting);
            let server = settings.start().unwrap();
            let refused = tenure_mysql::connect(server.url()).await.map(drop);
            assert_refused(refused, kind, &[&["127.0.0.1"], parts].concat());
        };
        refused("sysdate_is_now=1", ErrorKind::Rejected, &["sysdate_is_now"]).await;
        let statements = "log_bin=log server_id=7 binlog_format=STATEMENT";
        refused(statements, ErrorKind::Rejected, &["binlog_format", "ROW or MIXED"]).await;
        let read_only = ["read_only is on", "name the primary's host"];
        refused("read_only=1", ErrorKind::Unavailable, &read_only).await;
    });
}

#[test]
fn a_node_of_galera_is_refused() {
    play(async || {
        if !have(&[GALERA]) {
            return;
        }
        let server = Setup::new().galera().start().unwrap();
        let ready = "SHOW STATUS LIKE 'wsrep_ready'";
        until("the node is ready", async || server.sql(ready).unwrap().ends_with("ON")).await;
        let refused = tenure_mysql::connect(server.url()).await.map(drop);
        assert_refused(refused, ErrorKind::Unsupported, &["127.0.0.1", "Galera", "of its own"]);
    });
}

#[test]
fn a_server_that_becomes_read_only_is_told_and_comes_back() {
    play(async || {
        let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        server.sql("SET GLOBAL read_only = 1").unwrap();
        until("the refusal is told", async || {
            let tried = locks.mutex("b").ttl(LONG).try_lock().await;
            tried.is_err_and(|error| error.reason() == Some(Reason::NoPrimary))
        })
        .await;
        until("a listing is refused as well", async || {
            locks.keys("").await.is_err_and(|error| error.reason() == Some(Reason::NoPrimary))
        })
        .await;
        server.sql("SET GLOBAL read_only = 0").unwrap();
        until("it is still held", async || guard.extend().await.is_ok()).await;
    });
}

#[test]
fn settings_that_weaken_locks_are_warned_of() {
    play(async || {
        let warned = async |setup: Setup, part: &str| {
            let server = setup.start().unwrap();
            let guarantees = connect(server.url()).await.guarantees().clone();
            assert!(!guarantees.survives.store_crash);
            let is_told = guarantees.warnings.iter().any(|warning| warning.contains(part));
            assert!(is_told, "{:?}", guarantees.warnings);
        };
        warned(Setup::new(), "innodb_flush_log_at_trx_commit").await;
        let logs = Setup::new().durable().setting("log_bin=log").setting("server_id=7");
        warned(logs, "sync_binlog").await;
        let server = Setup::new().durable().start().unwrap();
        let guarantees = connect(server.url()).await.guarantees().clone();
        assert!(guarantees.survives.store_crash && guarantees.warnings.is_empty());
    });
}

#[test]
fn a_table_that_was_dropped_is_told_and_made_by_the_next_client() {
    play(async || {
        let server = Server::start().unwrap();
        for table in ["line", "hold", "meta", "sequence", "count", "value"] {
            let locks = connect(server.url()).await;
            server.sql(&format!("DROP TABLE locks.tenure_{table}")).unwrap();
            let told = ["the tables or procedures of the locks", "tenure_", "connect again"];
            let rejected = ErrorKind::Rejected;
            match table {
                "sequence" => assert_refused(locks.sequence("s").next().await, rejected, &told),
                "count" => {
                    assert_refused(locks.counter("c").window(LONG).add(1).await, rejected, &told);
                }
                "value" => {
                    let once = locks.once("o").slot("1");
                    assert_refused(once.run(async |_, _| Ok::<_, ()>(())).await, rejected, &told);
                }
                "hold" => assert_refused(locks.mutex("a").try_lock().await, rejected, &told),
                _ => {
                    assert_refused(locks.mutex("a").try_lock().await, rejected, &told);
                    assert_refused(locks.line("a").await, rejected, &told);
                }
            }
            let again = connect(server.url()).await;
            assert!(again.mutex("a").try_lock().await.unwrap().is_some(), "{table}");
            again.sequence("s").next().await.unwrap();
            assert!(again.counter("c").window(LONG).add(1).await.unwrap().allowed);
            again.flush().await;
        }
    });
}

#[test]
fn a_meta_table_without_its_row_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        server.sql("DELETE FROM locks.tenure_meta").unwrap();
        let told = ["tenure_meta", "127.0.0.1", "drop the tables"];
        let refused = [
            locks.mutex("b").try_lock().await.map(drop),
            locks.line("a").await.map(drop),
            guard.extend().await,
            tenure_mysql::connect(server.url()).await.map(drop),
        ];
        for refused in refused {
            let reason = refused.as_ref().unwrap_err().reason();
            assert_eq!(reason, Some(Reason::ForeignData));
            assert_refused(refused, ErrorKind::Rejected, &told);
        }
    });
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    play(async || {
        let server = Server::start().unwrap();
        drop(connect(server.url()).await);
        server.sql("UPDATE locks.tenure_meta SET format = 2").unwrap();
        let refused = tenure_mysql::connect(server.url()).await;
        let told = ["format 2", "knows format 1", "update this program"];
        assert_refused(refused.map(drop), ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_row_that_was_edited_by_hand_lets_no_ticket_in_and_is_kept() {
    play(async || {
        const ROW: &str = "SELECT version, hex(tickets) FROM locks.tenure_line";
        let server = Server::start().unwrap();
        let engine = engine(&server.url()).await;
        let (own, other) = (ticket("a", LONG), ticket("a", LONG));
        engine.join(&own, WaitMode::Wait).await.unwrap();
        for tickets in ["x'00'", "x'ff'", "x'01'", "x'0100'", "left(tickets, 20)"] {
            server.sql(&format!("UPDATE locks.tenure_line SET tickets = {tickets}")).unwrap();
            let kept = server.sql(ROW).unwrap();
            let refused = [
                engine.join(&other, WaitMode::NoWait).await.map(drop),
                engine.join(&other, WaitMode::Wait).await.map(drop),
                engine.renew(&own).await.map(drop),
                engine.leave(&own, LeaveMode::Now).await.map(drop),
                engine.line(&key("a")).await.map(drop),
            ];
            for refused in refused {
                let reason = refused.as_ref().expect_err(tickets).reason();
                assert_eq!(reason, Some(Reason::UnreadableTicket), "{tickets}");
                assert_refused(refused, ErrorKind::Rejected, &["\"a\""]);
            }
            assert_eq!(server.sql(ROW).unwrap(), kept);
        }
        // Another line goes on.
        engine.join(&ticket("b", LONG), WaitMode::NoWait).await.unwrap().expect("it is free");
    });
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    play(async || {
        let server = Setup::new().limited_user("locks", "r1ght").start().unwrap();
        let url = server.url().replace("r1ght", "wr0ngpw");
        for url in [url.clone(), url.replace("locks:", "nobody-here:"), url.replace(":wr0ngpw", "")]
        {
            let error = tenure_mysql::connect(&url).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert_eq!(error.reason(), Some(Reason::LoginRequired), "{error:?}");
            assert!(error.to_string().contains("127.0.0.1"), "{error}");
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
        }
        let settings = tenure_mysql::Settings::from_url(&url).unwrap();
        assert!(!format!("{settings:?}").contains("wr0ng"), "{settings:?}");
        let nowhere = format!("{}/nowhere", server.url().strip_suffix("/locks").unwrap());
        let refused = tenure_mysql::connect(nowhere).await.map(drop);
        assert_refused(refused, ErrorKind::Rejected, &["127.0.0.1", "does not have this database"]);
    });
}

#[test]
fn an_account_with_ed25519_logs_in() {
    play(async || {
        let server = Server::start().unwrap();
        let create = "CREATE USER signer IDENTIFIED VIA ed25519 USING PASSWORD('se/cret')";
        let grant = "GRANT ALL ON locks.* TO signer";
        server.sql(&format!("INSTALL SONAME 'auth_ed25519'; {create}; {grant}")).unwrap();
        let url = server.url().replace("root@", "signer:se%2Fcret@");
        connect(&url).await.mutex("a").lock().await.unwrap().release().await.unwrap();
        let wrong = tenure_mysql::connect(url.replace("cret@", "cert@")).await.map(drop);
        assert_refused(wrong, ErrorKind::Rejected, &["127.0.0.1", "does not let this user in"]);
    });
}

#[test]
fn a_user_needs_the_rights_of_the_readme_and_no_others() {
    play(async || {
        let server = Server::start().unwrap();
        server.sql("CREATE USER clerk").unwrap();
        let url = server.url().replace("root@", "clerk@");
        let refused = async || tenure_mysql::connect(&url).await.map(drop);
        let grant = |what: &str| server.sql(&format!("GRANT {what} TO clerk")).unwrap();
        grant("SELECT ON locks.*");
        let told = ["127.0.0.1", "does not let this user do what a lock needs", "README"];
        assert_refused(refused().await, ErrorKind::Rejected, &told);
        drop(connect(server.url()).await);
        assert_refused(refused().await, ErrorKind::Rejected, &told);
        grant("SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.*");
        let locks = connect(&url).await;
        let guard = locks.mutex("a").lock().await.unwrap();
        guard.release().await.unwrap();
        locks.sequence("s").next().await.unwrap();
    });
}
