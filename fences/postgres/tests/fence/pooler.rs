//! Guarded writes through a pooler that gives each transaction another connection.

use tenure_fence_postgres::set_token;
use tenure_servers::postgres::PGBOUNCER;

use super::*;

#[test]
fn a_token_never_reaches_another_client_of_a_pooler() {
    let needs = [POSTGRES, PGBOUNCER];
    let Some(url) = url("TENURE_TEST_POSTGRES_PGBOUNCER_URL", &needs) else { return };
    block_on(async {
        let schema = format!("fence_pooled_{}", std::process::id());
        let (mut client, other) = (connect(&url).await, connect(&url).await);
        let create = format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.accounts (id int, amount int);
             INSERT INTO {schema}.accounts VALUES (1, 0)"
        );
        client.batch_execute(&create).await.unwrap();
        let fence = Fence::new(schema.as_str(), "accounts").unwrap();
        fence.install(&client).await.unwrap();
        fence.check(&other).await.unwrap();

        let update = format!("UPDATE {schema}.accounts SET amount = $1");
        for _ in 0..10 {
            execute(&mut client, &update, &[(&1, Type::INT4)], numbered(42)).await.unwrap();
            let late = execute(&mut client, &update, &[(&2, Type::INT4)], numbered(41)).await;
            assert_stale(late, 41, 42);
            let tx = client.transaction().await.unwrap();
            set_token(&tx, numbered(42)).await.unwrap();
            tx.execute_typed(&update, &[(&3, Type::INT4)]).await.unwrap();
            tx.commit().await.unwrap();
            let plain = other.execute_typed(&update, &[(&4, Type::INT4)]).await;
            assert_failed(plain.map_err(into_error), ErrorKind::Invalid, "needs the token");
        }
        client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
    });
}
