//! The creation of a fence: names, rights, settings of the session, and its check.

use super::*;

#[test]
fn any_name_of_a_table_gets_a_fence_of_its_own() {
    let long = "x".repeat(50);
    let names = [
        "a",
        "a b",
        "a.b",
        "a\"b",
        "a`b",
        "'",
        "';--",
        "{table}",
        "{",
        "}",
        "é",
        "锁",
        "select",
        "\\",
        ";;",
        long.as_str(),
    ];
    Bench::run(async |bench| {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        for (at, name) in names.into_iter().enumerate() {
            let database = format!("{} {at} `{}", bench.database, name.chars().next().unwrap());
            let table = format!("{}.{}", quoted(&database), quoted(name));
            bench.sql(&format!("CREATE DATABASE {}", quoted(&database))).await;
            bench.sql(&format!("CREATE TABLE {table} (id INT)")).await;
            let fence = Fence::new(database.as_str(), name).unwrap();
            let none = fence.check(&mut bench.connection).await;
            assert_failed(none, ErrorKind::Rejected, "has no fence");
            fence.install(&mut bench.connection).await.unwrap();
            fence.check(&mut bench.connection).await.unwrap();
            let connection = &mut bench.connection;
            let insert = format!("INSERT INTO {table} (id) VALUES (1)");
            write(&fence, connection, &insert, 42, TxOpts::default()).await.unwrap();
            let delete = format!("DELETE FROM {table}");
            let late = write(&fence, connection, &delete, 41, TxOpts::default()).await;
            assert_stale(late, 41, 42);
            assert_failed(bench.plain(&delete).await, ErrorKind::Invalid, "needs the token");
        }
    });
    let too_long = "x".repeat(51);
    for (database, table) in [("", "a"), ("a", ""), ("a\0", "a"), ("a", too_long.as_str())] {
        let refused = Fence::new(database, table);
        assert_failed(refused, ErrorKind::Invalid, "cannot be the name");
    }
}

#[test]
fn a_second_installation_keeps_the_tokens_also_beside_others() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET amount = 1", 42).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (mut connection, fence) = (bench.connect().await, bench.fence.clone());
            tasks.push(tokio::spawn(async move { fence.install(&mut connection).await }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_stale(bench.write("UPDATE accounts SET amount = 2", 41).await, 41, 42);
        assert_eq!(bench.account().await, (1, 42));
    });
}

#[test]
fn the_settings_of_a_session_do_not_change_the_check() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET amount = 1", 42).await.unwrap();
        for (at, setting) in [
            "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
            "sql_mode = ''",
            "NAMES utf8mb4 COLLATE utf8mb4_bin",
            "NAMES latin1",
            "collation_connection = 'ucs2_general_ci'",
            "collation_connection = 'utf32_general_ci'",
            "sql_safe_updates = ON",
            "sql_select_limit = 0",
            "autocommit = OFF",
        ]
        .into_iter()
        .enumerate()
        {
            let mut connection = bench.connect().await;
            connection.query_drop(format!("SET {setting}")).await.unwrap();
            let table = format!("other_{at}");
            let create = format!("CREATE TABLE {table} (id INT PRIMARY KEY)");
            connection.query_drop(create).await.unwrap();
            let fence = bench.fence_of(&table);
            // The server does not understand its own SQLSTATE in these character sets.
            if setting.contains("collation_connection") {
                fence.install(&mut bench.connection).await.unwrap();
            } else {
                fence.install(&mut connection).await.unwrap();
            }
            fence.check(&mut bench.connection).await.unwrap();
            for table in ["accounts", &table] {
                let insert = format!("INSERT INTO {table} (id) VALUES (7)");
                let insert = insert
                    .replace("accounts (id) VALUES (7)", "accounts (id, amount) VALUES (7, 1)");
                let delete = format!("DELETE FROM {table} WHERE id = 7");
                let mut answers = Vec::new();
                for (statement, token) in [(&insert, 42), (&delete, 41), (&delete, 42)] {
                    let options = TxOpts::default();
                    let answer =
                        write(&bench.fence, &mut connection, statement, token, options).await;
                    answers.push(answer);
                }
                assert_eq!(answers.pop().unwrap().expect(setting), 1);
                assert_stale(answers.pop().unwrap(), 41, 42);
                answers.pop().unwrap().expect(setting);
            }
            connection.query_drop("ROLLBACK").await.unwrap();
        }
    });
}

#[test]
fn a_fence_that_lacks_a_trigger_or_innodb_is_found() {
    Bench::run(async |bench| {
        let fence = bench.fence.clone();
        fence.check(&mut bench.connection).await.unwrap();
        bench.sql("DROP TRIGGER tenure_delete_accounts").await;
        let answer = fence.check(&mut bench.connection).await;
        assert_failed(answer, ErrorKind::Rejected, "has no fence");
        fence.install(&mut bench.connection).await.unwrap();
        bench.sql("ALTER TABLE accounts ENGINE=Aria").await;
        let answer = fence.check(&mut bench.connection).await;
        assert_failed(answer, ErrorKind::Rejected, "ENGINE=InnoDB");
    });
}

#[test]
fn a_writer_needs_the_rights_of_the_readme_and_no_others() {
    Bench::run(async |bench| {
        let (database, user) = (bench.database.clone(), format!("writer_{}", bench.database));
        bench
            .sql(&format!(
                "CREATE USER {user}; GRANT SELECT, UPDATE (amount) ON {database}.accounts TO {user};
                 GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.tenure_fence_session TO {user}"
            ))
            .await;
        let mut writer = connect(bench.port, &user, Some(&database)).await;
        let update = "UPDATE accounts SET amount = 5";
        let options = TxOpts::default;
        assert_eq!(write(&bench.fence, &mut writer, update, 42, options()).await.unwrap(), 1);
        let late = write(&bench.fence, &mut writer, update, 41, options()).await;
        assert_stale(late, 41, 42);
        bench.fence.check(&mut writer).await.unwrap();
        let refused = bench.fence.install(&mut writer).await;
        assert_failed(refused, ErrorKind::Rejected, "denied");
        let missing = bench.fence_of("nothing").install(&mut bench.connection).await;
        assert_failed(missing, ErrorKind::Invalid, "doesn't exist");
    });
}

#[test]
fn the_script_runs_twice_in_the_command_line_client() {
    Bench::run(async |bench| {
        bench.sql("CREATE TABLE bills (id INT PRIMARY KEY); INSERT INTO bills VALUES (1)").await;
        let fence = bench.fence_of("bills");
        for _ in 0..2 {
            let mut client = std::process::Command::new("mariadb");
            client.args(["--no-defaults", "--host=127.0.0.1", "--user=root"]);
            client.arg(format!("--port={}", bench.port)).arg("--execute").arg(fence.sql());
            let output = client.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        fence.check(&mut bench.connection).await.unwrap();
        bench.write("UPDATE bills SET id = 1", 42).await.unwrap();
        assert_stale(bench.write("DELETE FROM bills", 41).await, 41, 42);
    });
}
