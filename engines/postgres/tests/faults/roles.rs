//! The settings of the client's role, and its rights.

use tenure_conformance::fault::stories::sql::verbs::call_each_verb;
use tenure_servers::postgres::{Server, Setup};

use super::sql::PostgreSql;
use super::stage::{LONG, Stranger, at_last, connect, play, until};

/// Functions and tables of a stranger with the names of PostgreSQL's and Tenure's.
const HOSTILE: &str = "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() - interval ''1 day''';
    CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() - interval ''1 day''';
    CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
    CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT ''no''';
    CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
    CREATE FUNCTION evil.pg_walfile_name(pg_lsn) RETURNS text LANGUAGE sql AS 'SELECT ''00000009''';
    CREATE FUNCTION evil.substr(text, int, int) RETURNS text LANGUAGE sql AS 'SELECT ''00000009''';
    CREATE FUNCTION evil.cardinality(bytea[]) RETURNS int LANGUAGE sql AS 'SELECT 0';
    CREATE FUNCTION evil.cardinality(text[]) RETURNS int LANGUAGE sql AS 'SELECT 0';
    CREATE FUNCTION evil.length(bytea) RETURNS int LANGUAGE sql AS 'SELECT 0';
    CREATE TABLE evil.line (key int); CREATE TABLE evil.meta (format int); CREATE TABLE evil.value (n int)";

#[test]
fn the_settings_of_a_role_do_no_harm() {
    play(async || {
        let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
        server.sql(HOSTILE).unwrap();
        let settings = [
            "default_transaction_isolation = 'repeatable read'",
            "default_transaction_isolation = 'serializable'",
            "default_transaction_deferrable = on",
            "search_path = evil, public",
            "TimeZone = 'Asia/Kathmandu'",
            "DateStyle = 'German, DMY'",
            "IntervalStyle = 'sql_standard'",
            "standard_conforming_strings = off",
            "bytea_output = 'escape'",
            "statement_timeout = '100ms'",
            "lock_timeout = '1ms'",
            "idle_in_transaction_session_timeout = '10ms'",
            "idle_session_timeout = '200ms'",
            "synchronous_commit = off",
            "client_encoding = 'LATIN1'",
            "client_min_messages = 'debug5'",
            "plan_cache_mode = 'force_generic_plan'",
            "enable_indexscan = off",
            "row_security = off",
        ];
        for (at, setting) in settings.iter().enumerate() {
            println!("{setting}");
            server.sql(&format!("ALTER ROLE locks SET {setting}")).unwrap();
            let url = format!("{}?schema=case-{at}", server.url());
            assert!(connect(&url).await.guarantees().push);
            call_each_verb::<PostgreSql>(&url).await;
            server.sql("ALTER ROLE locks RESET ALL").unwrap();
        }
    });
}

#[test]
fn an_operator_of_a_stranger_in_the_search_path_is_not_used() {
    play(async || {
        let server = Server::start().unwrap();
        for types in ["numeric, integer", "numeric, bigint", "bigint, integer"] {
            let (left, right) = types.split_once(", ").unwrap();
            server
                .sql(&format!(
                    "CREATE OR REPLACE FUNCTION public.evil({types}) RETURNS numeric \
                     LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END'; \
                     CREATE OPERATOR public.* (LEFTARG = {left}, RIGHTARG = {right}, \
                     FUNCTION = public.evil)"
                ))
                .unwrap_or_else(|error| panic!("{types}: {error}"));
        }
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").lock().await.unwrap();
        assert_eq!(locks.keys("").await.unwrap().len(), 1);
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn a_stranger_with_an_old_snapshot_stops_no_verb() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
            let stranger = Stranger::of(&server).await;
            let opens = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT FROM tenure.line");
            stranger.sql(&opens).await;
            for _ in 0..20 {
                let mutex = locks.mutex("a").ttl(LONG);
                let guard = at_last("it is locked", async || mutex.lock().await).await;
                at_last("it renews", async || guard.extend().await).await;
                guard.release().await.unwrap();
            }
            stranger.sql("COMMIT").await;
        }
    });
}

#[test]
fn a_role_that_becomes_read_only_is_told_and_comes_back() {
    play(async || {
        let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        server.sql("ALTER ROLE locks SET default_transaction_read_only = on").unwrap();
        server.sql("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'tenure'").unwrap();
        until("the refusal is told", async || {
            let tried = locks.mutex("b").ttl(LONG).try_lock().await;
            tried.is_err_and(|error| error.to_string().contains("read-only"))
        })
        .await;
        server.sql("ALTER ROLE locks RESET ALL").unwrap();
        until("it is locked", async || {
            locks.mutex("b").ttl(LONG).try_lock().await.is_ok_and(|guard| guard.is_some())
        })
        .await;
        until("it is still held", async || guard.extend().await.is_ok()).await;
    });
}
