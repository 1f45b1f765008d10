//! The settings of a server and its sessions do no harm.

use tenure_conformance::fault::stories::sql::verbs::call_each_verb;
use tenure_core::{Engine as _, ErrorKind, WaitMode};
use tenure_servers::mariadb::{Server, Setup};

use super::sql::MariaDb;
use super::stage::{
    LONG, Stranger, assert_refused, connect, connections, engine, key, number, of_transactions,
    play, soon, ticket, transactions, until,
};

#[test]
fn the_settings_of_a_server_do_no_harm() {
    play(async || {
        // The defaults of new sessions.
        let settings = [
            "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
            "sql_mode = ''",
            "sql_mode = 'ORACLE'",
            "time_zone = '+05:45'",
            "tx_isolation = 'SERIALIZABLE'",
            "tx_isolation = 'READ-UNCOMMITTED'",
            "tx_read_only = ON",
            "autocommit = OFF",
            "completion_type = CHAIN",
            "innodb_lock_wait_timeout = 100000",
            "sql_select_limit = 0",
            "sql_safe_updates = ON",
            "wait_timeout = 1",
            "character_set_server = 'ucs2'",
            "collation_server = 'utf8mb4_unicode_ci'",
            "default_storage_engine = 'MyISAM'",
            "binlog_format = 'MIXED'",
            "max_statement_time = 0.5",
            "max_join_size = 1",
            "init_connect = 'SET character_set_results = utf16, collation_connection = utf16_general_ci'",
        ];
        let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
        for (at, setting) in settings.iter().enumerate() {
            println!("{setting}");
            let name = setting.split(' ').next().unwrap();
            let former = server.sql(&format!("SELECT @@global.{name}")).unwrap();
            server.sql(&format!("SET GLOBAL {setting}")).unwrap();
            call_each_verb::<MariaDb>(&format!("{}?prefix=case_{at}_", server.url())).await;
            let number = former.parse::<f64>().is_ok();
            let former = if number { former } else { format!("'{former}'") };
            server.sql(&format!("SET GLOBAL {name} = {former}")).unwrap();
        }
    });
}

#[test]
fn a_binary_log_does_no_harm() {
    play(async || {
        for format in ["ROW", "MIXED"] {
            let setup = Setup::new().setting("log_bin=log").setting("server_id=7");
            let server = setup.setting(&format!("binlog_format={format}")).start().unwrap();
            call_each_verb::<MariaDb>(&server.url()).await;
        }
    });
}

#[test]
fn connections_that_an_operator_kills_are_opened_again() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        for _ in 0..10 {
            server.sql("KILL USER root").unwrap();
            until("it renews", async || guard.extend().await.is_ok()).await;
            assert!(locks.mutex("b").ttl(LONG).try_lock().await.is_ok());
        }
        // One of them listens.
        assert!(connections(&server) <= 2);
    });
}

#[test]
fn a_statement_that_an_operator_kills_leaves_no_transaction_open() {
    play(async || {
        // The verb has inserted the row of its line, and waits for the row of `meta`.
        const KILL: &str = "SELECT concat('KILL QUERY ', trx_mysql_thread_id) \
             FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        let mut stranger = Stranger::of(&server).await;
        stranger.sql("BEGIN; SELECT 1 FROM tenure_meta FOR UPDATE").await;
        let own = engine.clone();
        let joins = async move { own.join(&ticket("a", LONG), WaitMode::Wait).await };
        let joins = tokio::spawn(joins);
        until("the verb is killed", async || {
            let kill = of_transactions(&server, KILL).await;
            // Fails if the wait has ended meanwhile: the verb waits again.
            let _ = server.sql(&kill);
            joins.is_finished()
        })
        .await;
        let error = soon("the verb is answered", joins).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        until("only the stranger's transaction is open", async || transactions(&server).await == 1)
            .await;
        stranger.sql("COMMIT").await;
        assert_eq!(number(&server, "SELECT count(*) FROM locks.tenure_line"), 0);
        engine.line(&key("a")).await.unwrap();
        assert_eq!(number(&server, "SELECT count(*) FROM locks.tenure_line"), 0);
    });
}

#[test]
fn a_unix_socket_does_in_the_place_of_a_host() {
    play(async || {
        let server = Server::start().unwrap();
        let socket = server.folder().join("socket");
        let url = format!("mariadb://root@localhost/locks?socket={}", socket.display());
        call_each_verb::<MariaDb>(&url).await;
        let locks = connect(server.url()).await;
        let guard = locks.mutex("c").ttl(LONG).lock().await.unwrap();
        // Clients of both meet.
        assert!(connect(&url).await.mutex("c").try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        server.kill().unwrap();
        let refused = tenure_mysql::connect(&url).await.map(drop);
        assert_refused(refused, ErrorKind::Unavailable, &["socket", "did not open a connection"]);
    });
}
