//! The creation of a fence: names, rights, settings of the session, and its check.

use super::*;

#[test]
fn any_name_of_a_table_gets_a_fence_of_its_own() {
    let long = "x".repeat(63);
    let names = [
        "a",
        "A",
        "a b",
        "a.b",
        "a\"b",
        "\"",
        "'",
        "';--",
        "$tenure$",
        "{table}",
        "%I",
        "é",
        "锁",
        "select",
        "\\",
        long.as_str(),
    ];
    Bench::run(async |bench| {
        for (at, name) in names.into_iter().enumerate() {
            let schema = format!("{} {at} \"{}", bench.schema, &name[..name.len().min(3)]);
            let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
            let table = format!("{}.{}", quoted(&schema), quoted(name));
            bench.sql(&format!("CREATE SCHEMA {}", quoted(&schema))).await;
            bench.sql(&format!("CREATE TABLE {table} (id int)")).await;
            let fence = Fence::new(schema.as_str(), name).unwrap();
            assert_failed(fence.check(&bench.client).await, ErrorKind::Rejected, "has no fence");
            fence.install(&bench.client).await.unwrap();
            fence.check(&bench.client).await.unwrap();

            bench.write(&format!("INSERT INTO {table} VALUES (1)"), 42).await.unwrap();
            let late = bench.write(&format!("DELETE FROM {table}"), 41).await;
            assert_stale(late, 41, 42);
            let plain = bench.client.batch_execute(&format!("DELETE FROM {table}")).await;
            assert_failed(plain.map_err(into_error), ErrorKind::Invalid, "needs the token");
            bench.sql(&format!("DROP SCHEMA {} CASCADE", quoted(&schema))).await;
        }
    });
    let too_long = "x".repeat(64);
    for (schema, table) in [("", "a"), ("a", ""), ("a\0", "a"), ("a", too_long.as_str())] {
        let refused = Fence::new(schema, table);
        assert_failed(refused, ErrorKind::Invalid, "cannot be the name");
    }
}

#[test]
fn a_second_installation_keeps_the_tokens() {
    Bench::run(async |bench| {
        bench.set(1, 42).await.unwrap();
        bench.fence("accounts").install(&bench.client).await.unwrap();
        bench.sql(&bench.fence("accounts").sql()).await;
        assert_stale(bench.set(2, 41).await, 41, 42);
        assert_eq!(bench.account().await, (1, 42));

        // In a transaction of the caller's it is rolled back with it.
        bench.sql("CREATE TABLE bills (id int)").await;
        let fence = bench.fence("bills");
        let tx = bench.client.transaction().await.unwrap();
        fence.install(&tx).await.unwrap();
        fence.check(&tx).await.unwrap();
        tx.rollback().await.unwrap();
        assert_failed(fence.check(&bench.client).await, ErrorKind::Rejected, "has no fence");
    });
}

#[test]
fn installations_at_once_all_succeed() {
    Bench::run(async |bench| {
        bench.sql("CREATE TABLE bills (id int)").await;
        let mut tasks = Vec::new();
        for at in 0..8 {
            let client = bench.connect().await;
            let fence = bench.fence(if at % 2 == 0 { "accounts" } else { "bills" });
            tasks.push(tokio::spawn(async move { fence.install(&client).await }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn the_settings_of_a_session_do_not_change_the_check() {
    Bench::run(async |bench| {
        bench.set(1, 42).await.unwrap();
        // Operators in front of those of PostgreSQL, which find every token new.
        bench
            .sql(
                "CREATE FUNCTION never(bigint, bigint) RETURNS bool LANGUAGE sql AS 'SELECT false';
                 CREATE OPERATOR < (FUNCTION = never, LEFTARG = bigint, RIGHTARG = bigint);
                 CREATE FUNCTION current_setting(text, bool) RETURNS text
                 LANGUAGE sql AS $$ SELECT '99' $$",
            )
            .await;
        let schema = bench.schema.clone();
        let update = format!("UPDATE {schema}.accounts SET amount = 9");
        for setting in [
            format!("search_path = {schema}, pg_catalog"),
            "search_path = ''".to_owned(),
            "standard_conforming_strings = off".to_owned(),
            "default_transaction_isolation = serializable".to_owned(),
            "default_transaction_deferrable = on".to_owned(),
            "DateStyle = 'SQL, DMY'".to_owned(),
            "plan_cache_mode = force_generic_plan".to_owned(),
            "lc_numeric = 'C'".to_owned(),
        ] {
            bench.sql(&format!("SET {setting}")).await;
            bench.fence("accounts").install(&bench.client).await.unwrap();
            bench.fence("accounts").check(&bench.client).await.unwrap();
            assert_stale(bench.write(&update, 41).await, 41, 42);
            assert_eq!(bench.write(&update, 42).await.unwrap(), 1, "{setting}");
        }
    });
}

#[test]
fn a_disabled_fence_is_found() {
    Bench::run_as_superuser(async |bench| {
        let fence = bench.fence("accounts");
        bench.sql("ALTER TABLE accounts DISABLE TRIGGER tenure_fence").await;
        let answer = fence.check(&bench.client).await;
        assert_failed(answer, ErrorKind::Rejected, "ENABLE TRIGGER tenure_fence");
        bench.sql("UPDATE accounts SET amount = 3").await;

        bench.sql("ALTER TABLE accounts ENABLE TRIGGER tenure_fence").await;
        fence.check(&bench.client).await.unwrap();
        bench.sql("SET session_replication_role = replica").await;
        assert_failed(fence.check(&bench.client).await, ErrorKind::Rejected, "is disabled");
        bench.sql("UPDATE accounts SET amount = 4").await;
        bench.sql("RESET session_replication_role").await;
        fence.check(&bench.client).await.unwrap();
    });
}

#[test]
fn a_writer_needs_no_rights_but_those_on_the_table() {
    Bench::run_as_superuser(async |bench| {
        let (schema, role) = (bench.schema.clone(), format!("{}_writer", bench.schema));
        bench
            .sql(&format!(
                "CREATE ROLE {role};
                 GRANT USAGE ON SCHEMA {schema} TO {role};
                 GRANT SELECT, UPDATE (amount) ON accounts TO {role};
                 REVOKE ALL ON FUNCTION tenure_fence() FROM PUBLIC"
            ))
            .await;
        let mut writer = bench.connect().await;
        writer.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
        let update = "UPDATE accounts SET amount = 5";
        assert_eq!(execute(&mut writer, update, &[], numbered(42)).await.unwrap(), 1);
        assert_stale(execute(&mut writer, update, &[], numbered(41)).await, 41, 42);
        bench.fence("accounts").check(&writer).await.unwrap();

        let refused = bench.fence("accounts").install(&writer).await;
        assert_failed(refused, ErrorKind::Rejected, "must be owner");
        let missing = bench.fence("nothing").install(&bench.client).await;
        assert_failed(missing, ErrorKind::Invalid, "does not exist");
        drop(writer);
        bench.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    });
}
