//! The duration of a wait.

use std::time::Duration;

use crate::fault::{Verb, Weather};
use crate::sim::holder::case::holder_cases;
use crate::sim::holder::scene::{KEY, Scene, TTL, Verdict, ensure};

holder_cases![
    a_lost_wake_up_costs_no_more_than_a_heartbeat,
    a_wait_is_no_longer_than_its_limit,
    a_wait_on_a_store_that_is_silent_ends_in_time,
    a_waiter_that_slept_is_served_all_the_same,
];

async fn a_lost_wake_up_costs_no_more_than_a_heartbeat(scene: Scene) -> Verdict {
    let (holder, waiter) = (scene.actor(), scene.actor());
    let claim = holder.get(KEY).await?;
    waiter.network.set_for(Verb::Watch, Weather::DEAD);
    let waits = waiter.ask(KEY);
    scene.pass(TTL / 10).await;
    claim.release().await.map_err(|error| error.to_string())?;
    let end = scene.world.passed() + TTL;
    while scene.world.passed() < end {
        if let Some(outcome) = waits.outcome() {
            return ensure(matches!(outcome, Ok(Some(_))), "it was not granted");
        }
        scene.pass(Duration::from_millis(10)).await;
    }
    Err("the waiter missed its notification and does not poll".to_owned())
}

/// Other holders come and go, and each time the waiter may be woken.
async fn a_wait_is_no_longer_than_its_limit(scene: Scene) -> Verdict {
    let (holder, waiter) = (scene.actor(), scene.actor());
    let claim = holder.get(KEY).await?;
    let asked = TTL * 2;
    let before = scene.world.passed();
    let outcome = waiter.within(TTL * 6, waiter.lock(KEY, Some(asked))).await;
    let took = scene.world.passed().saturating_sub(before);
    ensure(matches!(outcome, Some(Ok(None))), "the wait did not end with None")?;
    ensure(took <= asked + Duration::from_millis(100), "it waited longer than was asked for")?;
    ensure(took + Duration::from_millis(100) >= asked, "it did not wait as long as was asked for")?;
    ensure(claim.view().check().is_ok(), "the holder lost its lock to a waiter")
}

async fn a_wait_on_a_store_that_is_silent_ends_in_time(scene: Scene) -> Verdict {
    let waiter = scene.actor();
    waiter.network.set(Weather::DEAD);
    let asked = TTL / 2;
    let outcome = waiter.within(TTL * 2, waiter.lock(KEY, Some(asked))).await;
    ensure(outcome.is_some(), "it waits on for a store that is silent")?;
    ensure(!matches!(outcome, Some(Ok(Some(_)))), "a lock was granted that the holder kept")
}

/// Its ticket expires while it is paused; it joins again.
async fn a_waiter_that_slept_is_served_all_the_same(scene: Scene) -> Verdict {
    let (holder, waiter) = (scene.actor(), scene.actor());
    let claim = holder.get(KEY).await?;
    let waits = waiter.ask(KEY);
    scene.pass(TTL / 10).await;
    waiter.host.pause();
    scene.pass(TTL * 2).await;
    claim.release().await.map_err(|error| error.to_string())?;
    waiter.host.resume();
    scene.pass(TTL).await;
    match waits.outcome() {
        Some(Ok(Some(claim))) => {
            let view = claim.view();
            scene.watch(TTL, &[(KEY, claim.id(), &*view)]).await
        }
        Some(Ok(None)) => Err("it gave up".to_owned()),
        Some(Err(error)) => Err(format!("the waiter gave up: {error}")),
        None => Err("it is not served any more".to_owned()),
    }
}
