//! Writes that an old holder cannot make.

use tenure_zookeeper::StillHeld;
use zookeeper_client::{Acls, CheckWriteError, Client, CreateMode, Error};

use super::stage::{TTL, connect, operator, play, soon, tickets};

/// Writes if the lock is still held, and returns whether it was.
async fn writes(client: &Client, still_held: &StillHeld, data: &[u8]) -> bool {
    let mut writer = still_held.writer(client).unwrap();
    writer.add_set_data("/state", data, None).unwrap();
    match writer.commit().await {
        Ok(_) => true,
        Err(CheckWriteError::CheckFailed { source: Error::NoNode }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_write_is_refused_once_the_lock_is_lost_whatever_its_holder_believes() {
    play(1, async |ensemble| {
        let (locks, client) = (connect(&ensemble).await, operator(&ensemble).await);
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/state", b"", &open).await.unwrap();
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let still_held = StillHeld::find(&client, &guard.handle()).await.unwrap();
        assert_eq!(still_held.path(), tickets(&client).await[0]);
        assert!(writes(&client, &still_held, b"mine").await);
        guard.set_note("another").await.unwrap();
        assert!(writes(&client, &still_held, b"mine again").await, "a note changes nothing");
        client.delete(still_held.path(), None).await.unwrap();
        let next = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        assert!(!writes(&client, &still_held, b"too late").await);
        assert_eq!(client.get_data("/state").await.unwrap().0, b"mine again");
        let theirs = StillHeld::find(&client, &next.handle()).await.unwrap();
        assert!(writes(&client, &theirs, b"theirs").await);
        soon("the old holder is told", guard.lost()).await;
        StillHeld::find(&client, &guard.handle()).await.unwrap_err();
        next.release().await.unwrap();
        assert!(!writes(&client, &theirs, b"released").await);
    });
}

#[test]
fn readers_and_permits_have_checks_of_their_own() {
    play(1, async |ensemble| {
        let (locks, client) = (connect(&ensemble).await, operator(&ensemble).await);
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.create("/state", b"", &open).await.unwrap();
        let (one, two) =
            (locks.rwlock("k").read().await.unwrap(), locks.rwlock("k").read().await.unwrap());
        let checks = [
            StillHeld::find(&client, &one.handle()).await.unwrap(),
            StillHeld::find(&client, &two.handle()).await.unwrap(),
        ];
        one.release().await.unwrap();
        assert!(!writes(&client, &checks[0], b"1").await);
        assert!(writes(&client, &checks[1], b"2").await);
        let writer = {
            two.release().await.unwrap();
            locks.rwlock("k").write().await.unwrap()
        };
        let check = StillHeld::find(&client, &writer.handle()).await.unwrap();
        let reader = writer.downgrade().await.unwrap();
        assert!(writes(&client, &check, b"3").await, "it is the same ticket");
        reader.release().await.unwrap();
        assert_eq!(tickets(&client).await, Vec::<String>::new(), "nothing is left of it");
    });
}
