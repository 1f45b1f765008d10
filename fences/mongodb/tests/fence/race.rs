//! Many concurrent writers: the accepted tokens never decrease.

use std::sync::atomic::AtomicU64;

use tenure_servers::mongodb::Server;

use super::*;

const TASKS: u64 = 6;
const WRITES: u64 = 25;

/// Returns a pseudo-random number (splitmix64).
fn shuffled(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Appends the token to the log.
async fn append(bench: &Bench, token: u64) -> Result<()> {
    let token_written = i64::try_from(token).expect("it is small");
    let push = doc! { "$push": { "log": token_written } };
    let done =
        bench.fence.update_one(&bench.accounts, doc! { "_id": 1 }, push, numbered(token)).await?;
    assert_eq!(done.modified, 1);
    Ok(())
}

#[test]
fn accepted_writes_never_go_back() {
    Bench::run(async |bench| {
        bench.insert(1, 1).await.expect("it is the first");
        let accepted = AtomicU64::new(0);
        let writers = (0..TASKS).map(|task| {
            let (bench, accepted) = (&bench, &accepted);
            async move {
                for write in 0..WRITES {
                    // Tokens mostly rise, and are often late.
                    let token = 2 + write * 4 + shuffled(task << 32 | write) % 24;
                    match append(bench, token).await {
                        Ok(()) => accepted.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            let stale = Stale::of(&error).unwrap_or_else(|| panic!("{error:?}"));
                            assert!(stale.token == token && stale.newest > token, "{stale:?}");
                            0
                        }
                    };
                }
            }
        });
        let all: Vec<_> = writers.map(Box::pin).collect();
        join(all).await;

        let account = bench.accounts.find_one(doc! {}).await.expect("it answers");
        let account = account.expect("it is there");
        let log: Vec<_> = account.get_array("log").expect("it has one").iter().collect();
        let log: Vec<i64> = log.iter().map(|token| token.as_i64().expect("a token")).collect();
        assert!(log.is_sorted(), "{log:?}");
        assert_eq!(log.len() as u64, accepted.into_inner());
    });
}

/// Polls all futures concurrently until they are done.
async fn join(mut all: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// The new holder claims while the old holder is between its check and its write.
#[test]
fn a_holder_that_is_overtaken_inside_its_transaction_does_not_commit_after_the_claim() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().expect("it starts");
    block_on(async {
        let bench = Bench::at(&server.url()).await;
        bench.insert(1, 41).await.expect("it is the first");
        let hold_up = |ms: i32| {
            doc! { "failCommands": ["update"], "blockConnection": true, "blockTimeMS": ms }
        };
        for (token, ms) in (41..).zip([1, 20, 100, 300]) {
            server.fail_commands(hold_up(ms), 1).expect("the server accepts");
            let claim = async {
                bench.fence.claim(numbered(token + 1)).await.expect("it is newer");
                bench.amount().await
            };
            let (late, seen) = tokio::join!(bench.set(ms, token), claim);
            // The documents are as the new holder read them after its claim.
            assert_eq!(bench.amount().await, seen, "{late:?}");
            if late.is_err() {
                assert_stale(late, token, token + 1);
            } else {
                assert_eq!(seen, ms);
            }
        }
    });
}

#[test]
fn two_writes_of_one_holder_are_both_done() {
    Bench::run(async |bench| {
        bench.insert(1, 1).await.expect("it is the first");
        let both = (0..8).map(|_| async { append(&bench, 1).await.expect("it is the newest") });
        join(both.map(Box::pin).collect()).await;
        let account = bench.accounts.find_one(doc! {}).await.expect("it answers");
        let account = account.expect("it is there");
        assert_eq!(account.get_array("log").expect("it has one").len(), 8);
    });
}
