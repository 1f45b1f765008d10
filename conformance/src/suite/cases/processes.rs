//! Other processes, which are killed and stopped while they hold and while they wait.

use tenure_core::layers::AnyEngine;
use tenure_core::{Liveness, Locks, Ticket, TicketState, TokenDurability};

use super::acts::{Acts as _, MUTEX, needs};
use crate::Arena;
use crate::suite::helper::Helper;

const ALONE: &str = "no other process can reach this store";
const STOOD_STILL: &str = "this machine stood still for a whole ttl";

/// Makes a helper take the lock.
fn lock(arena: &Arena, helper: &mut Helper) {
    helper.tell(&format!("lock k {}", arena.ttl().as_millis()));
}

/// Waits until the line has this length.
async fn grown(arena: &Arena, locks: &Locks, length: usize) {
    let grown = async {
        while locks.line("k").await.expect("the line can be seen").len() != length {
            arena.pass(arena.beat() / 4).await;
        }
    };
    arena.soon("the line is so long", grown).await;
}

/// Joins behind the helper. Returns `false` if this machine was too busy to renew the helper's
/// lock, and the helper knows it.
async fn is_behind(arena: &Arena, helper: &mut Helper, client: &AnyEngine, next: &Ticket) -> bool {
    if client.joins(next).await.state == TicketState::Waiting {
        return true;
    }
    helper.tell("check");
    assert_eq!(helper.hear(), "lost", "two hold at once");
    arena.skip(STOOD_STILL);
    false
}

pub(crate) async fn a_holder_that_is_killed_frees_the_lock(arena: &Arena) {
    needs!(arena, arena.is_shared(), ALONE);
    let mut helper = arena.helper();
    lock(arena, &mut helper);
    let token = helper.hear_token();
    let (client, next) = (arena.client().await, arena.ticket("k", MUTEX));
    if !is_behind(arena, &mut helper, &client, &next).await {
        return;
    }
    helper.kill();
    let place = client.is_served(arena, &next).await;
    assert!(place.number > token || arena.profile().await.fencing == TokenDurability::None);
    assert_eq!(client.ids("k").await, [next.id]);
}

pub(crate) async fn a_waiter_that_is_killed_does_not_block_the_line(arena: &Arena) {
    needs!(arena, arena.is_shared(), ALONE);
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let locks = arena.locks().await;
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    let mut helper = arena.helper();
    lock(arena, &mut helper);
    grown(arena, &locks, 2).await;
    let (client, next) = (arena.client().await, arena.ticket("k", MUTEX));
    client.waits(&next).await;
    helper.kill();
    guard.release().await.unwrap();
    client.is_served(arena, &next).await;
}

pub(crate) async fn a_holder_that_is_stopped_loses_the_lock_only_if_tickets_expire(arena: &Arena) {
    needs!(arena, arena.is_shared() && cfg!(unix), ALONE);
    let mut helper = arena.helper();
    lock(arena, &mut helper);
    let token = helper.hear_token();
    let (client, next) = (arena.client().await, arena.ticket("k", MUTEX));
    if !is_behind(arena, &mut helper, &client, &next).await {
        return;
    }
    helper.stop();
    let frees = arena.profile().await.survives.holder_pause;
    assert_eq!(frees, arena.profile().await.liveness != Liveness::Kernel, "only a ttl can expire");
    if !frees {
        arena.pass(arena.ttl() * 3).await;
        assert_eq!(client.tries(&arena.ticket("k", MUTEX)).await, None, "the holder lives");
        helper.tell("check");
        helper.go_on();
        assert_eq!(helper.hear(), "held");
        helper.tell("release");
        assert_eq!(helper.hear(), "released");
        client.is_served(arena, &next).await;
        return;
    }
    let place = client.is_served(arena, &next).await;
    assert!(place.number > token || arena.profile().await.fencing == TokenDurability::None);
    helper.tell("check");
    helper.tell("release");
    helper.go_on();
    assert_eq!(helper.hear(), "lost", "the helper first learns of its loss");
    assert_eq!(helper.hear(), "lost");
    assert!(client.stands(&next).await.is_some(), "its release changes nothing");
}

pub(crate) async fn a_waiter_that_is_stopped_blocks_no_free_lock(arena: &Arena) {
    needs!(arena, arena.is_shared() && cfg!(unix), ALONE);
    let locks = arena.locks().await;
    let guard = locks.mutex("k").renew_every(arena.beat()).lock().await.unwrap();
    let mut helper = arena.helper();
    lock(arena, &mut helper);
    arena.pass(arena.beat()).await;
    helper.stop();
    guard.release().await.unwrap();
    arena.pass(arena.ttl() * 2).await;
    let goes_on = arena.now();
    helper.go_on();
    helper.hear_token();
    helper.tell("check");
    let is_held = helper.hear() == "held";
    if !is_held && goes_on.until(arena.now()) >= arena.ttl() / 2 {
        return arena.skip(STOOD_STILL);
    }
    assert!(is_held, "the waiter gets the lock");
}

pub(crate) async fn processes_keep_each_other_out(arena: &Arena) {
    needs!(arena, arena.is_shared(), ALONE);
    let file =
        std::env::temp_dir().join(format!("tenure-{}-{}", std::process::id(), arena.now().boot_ns));
    std::fs::write(&file, "0").expect("a file can be written");
    let mut helpers = [(); 4].map(|()| arena.helper());
    for helper in &mut helpers {
        helper.tell(&format!("count k 25 {}", file.display()));
    }
    for helper in &helpers {
        assert_eq!(helper.hear(), "counted");
    }
    let counted = std::fs::read_to_string(&file).expect("the number can be read");
    std::fs::remove_file(&file).expect("the file can be removed");
    assert_eq!(counted, "100", "no update was lost");
}
