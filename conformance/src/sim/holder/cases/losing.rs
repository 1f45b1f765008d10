//! When a holder must report a loss, and when it must not.

use std::time::Duration;

use crate::fault::{Verb, Weather};
use crate::sim::holder::case::holder_cases;
use crate::sim::holder::scene::{KEY, Scene, TTL, Verdict, ensure};

holder_cases![
    a_holder_that_does_nothing_keeps_its_lock,
    a_holder_that_is_cut_off_stops_before_the_store_lets_go,
    the_lease_is_counted_from_before_the_question,
    clocks_that_run_apart_within_the_promise_never_make_two,
    setting_the_wall_clock_changes_nothing,
    a_paused_holder_learns_of_its_loss_first,
    an_answer_that_waited_out_a_pause_revives_nothing,
    a_machine_that_slept_wakes_up_without_its_lock,
    a_loss_is_reported_once_and_is_final,
    a_cut_shorter_than_the_lease_is_no_loss,
    a_renewal_that_hangs_hides_no_loss_and_delays_no_other,
    renewing_twice_at_once_is_no_loss,
];

/// The step of a case.
const STEP: Duration = Duration::from_millis(5);

async fn a_holder_that_does_nothing_keeps_its_lock(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    scene.pass(TTL * 5).await;
    ensure(claim.view().check().is_ok(), "it lost the lock though nothing was wrong")?;
    ensure(scene.serves(KEY, claim.id()), "the store has let it go")
}

async fn a_holder_that_is_cut_off_stops_before_the_store_lets_go(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    scene.pass(TTL).await;
    actor.network.cut();
    let view = claim.view();
    scene.watch(TTL * 2, &[(KEY, claim.id(), &*view)]).await?;
    ensure(view.check().is_err(), "it believes without end")?;
    let loss = actor.within(Duration::from_millis(100), view.lost()).await;
    ensure(loss.is_some(), "the loss was not reported")
}

/// Late replies must not extend the lease.
async fn the_lease_is_counted_from_before_the_question(scene: Scene) -> Verdict {
    let actor = scene.actor();
    actor.network.set(Weather { delay: Duration::from_millis(400), ..Weather::STILL });
    let claim = actor.get(KEY).await?;
    let view = claim.view();
    scene.watch(TTL * 2, &[(KEY, claim.id(), &*view)]).await?;
    actor.network.cut();
    scene.watch(TTL * 2, &[(KEY, claim.id(), &*view)]).await
}

async fn clocks_that_run_apart_within_the_promise_never_make_two(scene: Scene) -> Verdict {
    scene.world.store().set_drift_ppm(4_900);
    let actor = scene.actor();
    actor.host.set_drift_ppm(-4_900);
    let claim = actor.get(KEY).await?;
    scene.pass(TTL).await;
    actor.network.cut();
    let view = claim.view();
    scene.watch(TTL * 2, &[(KEY, claim.id(), &*view)]).await
}

async fn setting_the_wall_clock_changes_nothing(scene: Scene) -> Verdict {
    const HOUR_US: i64 = 3_600_000_000;
    let (early, late) = (scene.actor(), scene.actor());
    early.host.step_wall_clock(HOUR_US);
    late.host.step_wall_clock(-HOUR_US);
    let first = early.get(KEY).await?;
    early.host.step_wall_clock(-2 * HOUR_US);
    scene.pass(TTL * 2).await;
    ensure(first.view().check().is_ok(), "it lost the lock to a clock that was set back")?;
    early.host.step_wall_clock(4 * HOUR_US);
    scene.pass(TTL * 2).await;
    ensure(first.view().check().is_ok(), "it lost the lock to a clock that was set forward")?;
    let token = first.token();
    first.release().await.map_err(|error| error.to_string())?;
    let second = late.get(KEY).await?;
    ensure(second.token() > token, "the next holder's token is not above the last one's")
}

async fn a_paused_holder_learns_of_its_loss_first(scene: Scene) -> Verdict {
    let (actor, other) = (scene.actor(), scene.actor());
    let claim = actor.get(KEY).await?;
    scene.pass(TTL).await;
    let waits = other.ask(KEY);
    actor.host.pause();
    scene.pass(TTL * 2).await;
    actor.host.resume();
    ensure(claim.view().check().is_err(), "it woke up, and believed")?;
    let next = waits.outcome().and_then(Result::ok).flatten();
    let next = next.ok_or("no client was served after the holder slept")?;
    ensure(next.token() > claim.token(), "a fence could not refuse the sleeper's writes")
}

/// A renewal is sent, the program pauses, and the reply is there when it continues: too late.
async fn an_answer_that_waited_out_a_pause_revives_nothing(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    actor.network.set(Weather { delay: Duration::from_millis(200), ..Weather::STILL });
    let before = actor.asked(Verb::Renew, None);
    scene.until(STEP, || actor.asked(Verb::Renew, None) > before).await?;
    actor.host.pause();
    scene.pass(TTL * 2).await;
    actor.host.resume();
    let view = claim.view();
    scene.watch(TTL, &[(KEY, claim.id(), &*view)]).await?;
    ensure(view.check().is_err(), "it believes again")
}

async fn a_machine_that_slept_wakes_up_without_its_lock(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    scene.pass(TTL).await;
    actor.host.sleep_machine(TTL * 2).await;
    let view = claim.view();
    ensure(view.check().is_err(), "it slept through its own sleep")?;
    let loss = actor.within(TTL / 2, view.lost()).await;
    ensure(loss.is_some(), "the loss was not reported")
}

/// Between the deadline of the holder and the end of the ticket a renewal would still succeed. The
/// holder must not believe it any more.
async fn a_loss_is_reported_once_and_is_final(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    scene.pass(TTL).await;
    let view = claim.view();
    actor.host.pause();
    scene.until(Duration::from_millis(1), || view.check().is_err()).await?;
    actor.host.resume();
    let end = scene.world.passed() + TTL * 2;
    while scene.world.passed() < end {
        ensure(view.check().is_err(), "the loss was reported and revoked")?;
        scene.pass(STEP).await;
    }
    let loss = actor.within(STEP, view.lost()).await;
    ensure(loss.is_some(), "a later caller does not get the loss")
}

async fn a_cut_shorter_than_the_lease_is_no_loss(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let claim = actor.get(KEY).await?;
    let view = claim.view();
    for _ in 0..3 {
        actor.network.set(Weather::DEAD);
        let end = scene.world.passed() + TTL / 2;
        while scene.world.passed() < end {
            ensure(view.check().is_ok(), "it gave up with most of its lease to go")?;
            scene.pass(STEP).await;
        }
        actor.network.set(Weather::STILL);
        scene.pass(TTL).await;
    }
    ensure(view.check().is_ok(), "it gave up")?;
    ensure(scene.serves(KEY, claim.id()), "the store has let it go")
}

async fn a_renewal_that_hangs_hides_no_loss_and_delays_no_other(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let stuck = actor.get("stuck").await?;
    let sound = actor.get("sound").await?;
    actor.network.set_for_ticket(stuck.id(), Weather::DEAD);
    let (stuck_view, sound_view) = (stuck.view(), sound.view());
    let both = [("stuck", stuck.id(), &*stuck_view), ("sound", sound.id(), &*sound_view)];
    scene.watch(TTL * 3, &both).await?;
    ensure(stuck_view.check().is_err(), "a renewal that hangs is waited for without end")?;
    ensure(sound_view.check().is_ok(), "a renewal that hangs kept another from being renewed")
}

async fn renewing_twice_at_once_is_no_loss(scene: Scene) -> Verdict {
    let actor = scene.actor();
    let delay = Duration::from_millis(1);
    actor.network.set(Weather { doubled: 1000, delay, ..Weather::STILL });
    let claim = actor.get(KEY).await?;
    let view = claim.view();
    scene.watch(TTL * 3, &[(KEY, claim.id(), &*view)]).await?;
    ensure(view.check().is_ok(), "it lost the lock though nothing was wrong")?;
    claim.release().await.map_err(|error| error.to_string())
}
