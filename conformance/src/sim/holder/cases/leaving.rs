//! The tickets that a holder leaves behind, and the outcome of its release.

use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::{ErrorKind, Runtime as _};

use crate::fault::{Verb, Weather};
use crate::sim::holder::case::holder_cases;
use crate::sim::holder::scene::{KEY, Scene, TTL, Verdict, ensure};

holder_cases![
    a_released_lock_is_not_renewed_any_more,
    a_release_reports_no_loss,
    a_release_after_the_loss_says_so,
    a_dropped_claim_is_given_back,
    giving_up_a_wait_leaves_nothing_behind,
    giving_up_before_the_answer_leaves_nothing_behind,
    a_join_whose_answer_was_lost_neither_holds_nor_blocks,
    an_answer_that_comes_after_the_lease_grants_nothing,
];

/// Much shorter than the ttl: a ticket that is gone by then did not expire.
const SOON: Duration = Duration::from_millis(900);

/// The release overtakes a renewal on its way.
async fn a_released_lock_is_not_renewed_any_more(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    let id = claim.id();
    let slow = Weather { delay: Duration::from_millis(300), ..Weather::STILL };
    actor.network.set_for(Verb::Renew, slow);
    let before = actor.asked(Verb::Renew, None);
    scene.until(Duration::from_millis(5), || actor.asked(Verb::Renew, None) > before).await?;
    let released = claim.release();
    let renewals = actor.asked(Verb::Renew, Some(id));
    released.await.map_err(|error| error.to_string())?;
    scene.pass(SOON).await;
    ensure(scene.line(KEY).is_empty(), "it is still in the line")?;
    scene.pass(TTL * 3).await;
    ensure(actor.asked(Verb::Renew, Some(id)) == renewals, "it was renewed after its release")
}

async fn a_release_reports_no_loss(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    let (before, after) = (claim.view(), claim.view());
    let mut lost = before.lost();
    ensure((&mut lost).now_or_never().is_none(), "a loss was reported before there was one")?;
    let asks_on = before.clone();
    actor.host.spawn(Box::pin(async move { asks_on.lost().await }));
    scene.pass(TTL).await;
    claim.release().await.map_err(|error| error.to_string())?;
    let reported = actor.within(TTL * 3, lost).await;
    ensure(reported.is_none(), "a release was reported as a loss")?;
    let reported = actor.within(TTL, after.lost()).await;
    ensure(reported.is_none(), "a loss is reported after a release")
}

async fn a_release_after_the_loss_says_so(scene: Scene) -> Verdict {
    let actor = scene.actor_with(SOON);
    for heals in [true, false] {
        actor.network.heal();
        let claim = actor.get(KEY).await?;
        actor.network.cut();
        scene.pass(TTL * 2).await;
        if heals {
            actor.network.heal();
        }
        let released = actor.within(TTL, claim.release()).await;
        match released {
            Some(Ok(())) => return Err("the release claims that all was well".to_owned()),
            Some(Err(error)) if error.kind() != ErrorKind::Lost => {
                return Err(format!("the release does not report the loss: {error}"));
            }
            _ => {}
        }
    }
    Ok(())
}

async fn a_dropped_claim_is_given_back(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    // The first release is lost.
    actor.network.set_for(Verb::Leave, Weather { lost_requests: 500, ..Weather::STILL });
    drop(claim);
    scene.pass(SOON / 2).await;
    actor.network.set(Weather::STILL);
    ensure(actor.asked(Verb::Leave, None) > 0, "it was not given back")?;
    scene.pass(TTL * 2).await;
    ensure(scene.line(KEY).is_empty(), "it is still in the line")
}

async fn giving_up_a_wait_leaves_nothing_behind(scene: Scene) -> Verdict {
    let (holder, waiter) = (scene.actor(), scene.actor());
    let claim = holder.get(KEY).await?;
    let gave_up = waiter.within(SOON, waiter.lock(KEY, None)).await;
    ensure(gave_up.is_none(), "there are two")?;
    scene.pass(SOON).await;
    ensure(scene.line(KEY).len() == 1, "the caller that gave up is still in the line")?;
    let renewals = waiter.asked(Verb::Renew, None);
    scene.pass(TTL * 2).await;
    ensure(waiter.asked(Verb::Renew, None) == renewals, "the caller that gave up still renews")?;
    ensure(claim.view().check().is_ok(), "the holder lost its lock to a caller that gave up")
}

async fn giving_up_before_the_answer_leaves_nothing_behind(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let delay = Duration::from_millis(200);
    actor.network.set_for(Verb::Join, Weather { delay, ..Weather::STILL });
    for _ in 0..10 {
        let gave_up = actor.within(Duration::from_millis(50), actor.lock(KEY, None)).await;
        drop(gave_up);
        scene.pass(SOON).await;
        ensure(scene.line(KEY).is_empty(), "the caller that gave up joined the line")?;
    }
    Ok(())
}

async fn a_join_whose_answer_was_lost_neither_holds_nor_blocks(scene: Scene) -> Verdict {
    for weather in [Weather::DEAF, Weather::DEAD] {
        let (actor, other) = (scene.actor_with(SOON / 3), scene.actor());
        actor.network.set_for(Verb::Join, weather);
        let asked = actor.ask(KEY);
        scene.pass(SOON * 2 / 3).await;
        if let Some(Ok(Some(claim))) = asked.outcome() {
            let view = claim.view();
            scene.watch(TTL * 2, &[(KEY, claim.id(), &*view)]).await?;
        }
        drop(asked);
        actor.network.set(Weather::STILL);
        let got = other.within(SOON, other.lock(KEY, None)).await;
        ensure(
            matches!(got, Some(Ok(Some(_)))),
            "no client waits behind the ticket that blocks the line",
        )?;
        drop(got);
        scene.pass(SOON).await;
    }
    Ok(())
}

/// The join is carried out, the program pauses, and the reply is there when it continues: too late.
async fn an_answer_that_comes_after_the_lease_grants_nothing(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let delay = Duration::from_millis(200);
    actor.network.set_for(Verb::Join, Weather { delay, ..Weather::STILL });
    let asked = actor.ask(KEY);
    scene.until(Duration::from_millis(1), || actor.asked(Verb::Join, None) > 0).await?;
    actor.host.pause();
    scene.pass(TTL * 2).await;
    actor.host.resume();
    let end = scene.world.passed() + TTL;
    while scene.world.passed() < end {
        if let Some(Ok(Some(claim))) = asked.outcome() {
            let view = claim.view();
            let believes = view.check().is_ok();
            ensure(!believes || scene.serves(KEY, claim.id()), "it believes what is long over")?;
            return scene.watch(TTL, &[(KEY, claim.id(), &*view)]).await;
        }
        scene.pass(Duration::from_millis(1)).await;
    }
    Ok(())
}
