//! Refusals: each is one sentence with the server and the way out, and without a password.

use tenure_core::{Engine as _, ErrorKind, LeaveMode, Reason, WaitMode};
use tenure_servers::postgres::{Server, Setup};

use super::stage::{LONG, Stranger, assert_refused, connect, engine, key, play, ticket};

#[test]
fn a_table_that_was_dropped_is_told_and_made_by_the_next_client() {
    play(async || {
        let server = Server::start().unwrap();
        for table in ["line", "meta", "sequence", "count", "value"] {
            let locks = connect(server.url()).await;
            server.sql(&format!("DROP TABLE tenure.{table}")).unwrap();
            let told = ["the tables of the locks", "\"tenure\"", "connect again"];
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
        let locks = connect(server.url()).await;
        server.sql("DROP SCHEMA tenure CASCADE").unwrap();
        let told = ["the tables of the locks", "connect again"];
        assert_refused(locks.mutex("a").try_lock().await, ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_subscriber_to_the_tables_of_another_server_is_refused() {
    play(async || {
        let publisher = Setup::new().setting("wal_level=logical").start().unwrap();
        let subscriber = Server::start().unwrap();
        for server in [&publisher, &subscriber] {
            connect(server.url()).await;
        }
        publisher.sql("CREATE PUBLICATION everything FOR ALL TABLES").unwrap();
        let from =
            format!("host=127.0.0.1 port={} user=postgres dbname=postgres", publisher.port());
        let subscribe = "PUBLICATION everything WITH (copy_data = false)";
        subscriber
            .sql(&format!("CREATE SUBSCRIPTION everything CONNECTION '{from}' {subscribe}"))
            .unwrap();
        let refused = tenure_postgres::connect(subscriber.url()).await.map(drop);
        let parts = ["127.0.0.1", "subscribes to the tables of the locks", "\"tenure\""];
        assert_refused(refused, ErrorKind::Unavailable, &parts);
        connect(format!("{}?schema=own", subscriber.url())).await;
        connect(publisher.url()).await;
    });
}

#[test]
fn a_meta_table_without_its_row_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        server.sql("DELETE FROM tenure.meta").unwrap();
        let told = ["meta", "\"tenure\"", "127.0.0.1", "drop the schema"];
        let refused = [
            locks.mutex("b").try_lock().await.map(drop),
            locks.line("a").await.map(drop),
            guard.extend().await,
            tenure_postgres::connect(server.url()).await.map(drop),
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
        server.sql("UPDATE tenure.meta SET format = 2").unwrap();
        let refused = tenure_postgres::connect(server.url()).await;
        let told = ["format 2", "knows format 1", "update this program"];
        assert_refused(refused.map(drop), ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_row_or_a_table_that_another_transaction_has_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=500ms", server.url())).await;
        let name = key("n");
        assert!(engine.add(&name, 1, None).await.unwrap().allowed);
        let stranger = Stranger::of(&server).await;
        stranger.sql("BEGIN; SELECT FROM tenure.sequence FOR UPDATE").await;
        let told = ["\"n\"", "127.0.0.1", "pg_locks"];
        let refused = engine.add(&name, 1, None).await;
        assert_refused(refused, ErrorKind::Unavailable, &told);
        stranger.sql("ROLLBACK; BEGIN; LOCK TABLE tenure.line").await;
        assert_refused(engine.keys("").await, ErrorKind::Unavailable, &told[1..]);
        stranger.sql("ROLLBACK").await;
        assert_eq!(engine.add(&name, 1, None).await.unwrap().value, 2);
    });
}

#[test]
fn a_full_disk_is_told_and_a_holder_outlives_it() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        // The error of a server whose disk is full.
        server
            .sql(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION ''No space left on device'' USING ERRCODE = ''53100''; END'; \
                 CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON tenure.line \
                 FOR EACH ROW EXECUTE FUNCTION full_disk()",
            )
            .unwrap();
        let told = ["127.0.0.1", "disk", "full"];
        assert_refused(locks.mutex("b").try_lock().await, ErrorKind::Rejected, &told);
        assert_refused(guard.extend().await, ErrorKind::Rejected, &told);
        server.sql("DROP TRIGGER full_disk ON tenure.line").unwrap();
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        locks.mutex("b").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_row_that_was_edited_by_hand_lets_no_ticket_in_and_is_kept() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&server.url()).await;
        let own = ticket("a", LONG);
        let other = ticket("a", LONG);
        engine.join(&own, WaitMode::Wait).await.unwrap();
        for tickets in
            ["\\x00", "\\xff", "\\x01", "\\x0100", "\\x02", "substring(tickets FROM 1 FOR 20)"]
        {
            let value = if tickets.starts_with('\\') {
                format!("'{tickets}'::bytea")
            } else {
                tickets.to_owned()
            };
            server.sql(&format!("UPDATE tenure.line SET tickets = {value}")).unwrap();
            let kept = server.sql("SELECT version, tickets FROM tenure.line").unwrap();
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
            assert_eq!(server.sql("SELECT version, tickets FROM tenure.line").unwrap(), kept);
        }
        // Another line goes on.
        engine.join(&ticket("b", LONG), WaitMode::NoWait).await.unwrap().expect("it is free");
    });
}

#[test]
fn numbers_and_values_that_were_edited_by_hand_are_told() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&server.url()).await;
        let name = key("a");
        engine.swap(&name, "", "value").await.unwrap();
        server.sql("UPDATE tenure.value SET value = '\\xff'").unwrap();
        let refused = engine.swap(&name, "", "another").await;
        assert_eq!(refused.as_ref().unwrap_err().reason(), Some(Reason::UnreadableValue));
        assert_refused(refused, ErrorKind::Rejected, &["not UTF-8", "\"a\""]);
        assert_eq!(engine.add(&name, 1, None).await.unwrap().value, 1);
        server.sql("UPDATE tenure.sequence SET value = 9223372036854775807").unwrap();
        assert!(engine.add(&name, 1, None).await.is_err(), "the sum is too large");
        server
            .sql("INSERT INTO tenure.line SELECT '\\xff', 1, 0, 1, 0, 9007199254740991, '\\x01', 0")
            .unwrap();
        let told = ["key is not UTF-8", "\"tenure\""];
        assert_refused(engine.keys("").await, ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    play(async || {
        let server = Setup::new().limited_user("locks", "r1ght").start().unwrap();
        let url = server.url().replace("r1ght", "wr0ngpw");
        assert!(url.contains("wr0ngpw"), "{url}");
        for url in [url.clone(), url.replace("locks:", "nobody-here:"), url.replace(":wr0ngpw", "")]
        {
            let error = tenure_postgres::connect(&url).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert_eq!(error.reason(), Some(Reason::LoginRequired), "{error:?}");
            assert!(error.to_string().contains("127.0.0.1"), "{error}");
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
        }
        let settings = tenure_postgres::Settings::from_url(&url).unwrap();
        assert!(!format!("{settings:?}").contains("wr0ng"), "{settings:?}");
    });
}

#[test]
fn a_user_without_rights_is_told_what_to_grant() {
    play(async || {
        let server = Server::start().unwrap();
        server.sql("CREATE ROLE clerk LOGIN").unwrap();
        let url = server.url().replace("postgres@", "clerk@");
        let refused = async || tenure_postgres::connect(&url).await.map(drop);
        let told = ["\"tenure\"", "GRANT CREATE ON DATABASE"];
        assert_refused(refused().await, ErrorKind::Rejected, &told);
        drop(connect(server.url()).await);
        let told = ["127.0.0.1", "does not let this user do what a lock needs", "rights"];
        assert_refused(refused().await, ErrorKind::Rejected, &told);
        server.sql("GRANT USAGE ON SCHEMA tenure TO clerk; GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO clerk")
            .unwrap();
        let locks = connect(&url).await;
        assert_refused(locks.mutex("a").try_lock().await, ErrorKind::Rejected, &told);
        server.sql("ALTER ROLE clerk SET default_transaction_read_only = on").unwrap();
        let told = ["127.0.0.1", "read-only", "default_transaction_read_only"];
        assert_refused(refused().await, ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_standby_alone_is_told_as_what_it_is() {
    play(async || {
        let server = Server::start().unwrap();
        let standby = server.standby(false).unwrap();
        let refused = tenure_postgres::connect(standby.url()).await.map(drop);
        assert_eq!(refused.as_ref().unwrap_err().reason(), Some(Reason::NoPrimary));
        assert_refused(refused, ErrorKind::Unavailable, &["is a standby", "the primary's host"]);
    });
}
