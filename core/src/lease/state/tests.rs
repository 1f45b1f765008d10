//! Tests of the state machine of a lease.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::lease::deadline::SafetyMargin;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Time {
    Time { boot_ns: seconds * SECOND, raw_ns: seconds * SECOND }
}

fn schedule() -> RenewalSchedule {
    let margin = SafetyMargin {
        rounding: Duration::ZERO,
        drift_ppm: 0,
        margin: Some(Duration::from_secs(1)),
    };
    let every = Duration::from_secs(10);
    RenewalSchedule { margin, every, manual_renewal: false, max_hold: None, leased: true }
}

fn place(standing: TicketState) -> Place {
    let life = Some(Duration::from_secs(30));
    Place { number: 7, state: standing, ahead: 0, life, look: None, leaving: false }
}

fn silence() -> Result<Option<Place>> {
    Err(Error::unavailable("silence"))
}

/// Held since it was asked for at 0 and answered at 2: until 29.
fn held() -> LeaseState {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(2), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.state(), State::Holding(7));
    lease
}

#[test]
fn the_deadline_counts_from_the_question_not_from_the_answer() {
    let mut lease = held();
    assert_eq!(lease.remaining(at(2)), Some(Duration::from_secs(27)));
    assert_eq!(lease.judge(at(28)), State::Holding(7));
    assert_eq!(lease.judge(at(29)), State::Lost(Loss::Expired));
}

#[test]
fn an_answer_that_comes_after_the_life_it_grants_holds_nothing() {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(29), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.state(), State::Waiting);
    assert!(lease.is_due(at(29)), "it asks again at once");
}

#[test]
fn what_a_store_grants_less_than_asked_is_renewed_so_much_sooner() {
    let mut lease = LeaseState::new(schedule());
    let life = Some(Duration::from_secs(6));
    lease.apply(at(0), at(0), Ok(Some(Place { life, ..place(TicketState::Holding) })));
    assert_eq!(lease.remaining(at(0)), Some(Duration::from_secs(5)));
    assert!(lease.is_due(at(2)), "two renewals may fail before 5");
    lease.begin_renewal();
    lease.apply(at(2), at(2), silence());
    assert!(lease.is_due(at(3)), "and the next is sent soon");
}

#[test]
fn a_late_renewal_does_not_bring_it_back() {
    let mut lease = held();
    lease.apply(at(20), at(29), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.state(), State::Lost(Loss::Expired));
    lease.apply(at(30), at(31), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.state(), State::Lost(Loss::Expired), "a loss is final");
    assert!(lease.release(at(31)).is_err());
}

#[test]
fn an_earlier_renewal_does_not_take_back_what_a_later_one_gave() {
    let mut lease = held();
    lease.apply(at(10), at(11), Ok(Some(place(TicketState::Holding))));
    lease.apply(at(5), at(12), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.remaining(at(12)), Some(Duration::from_secs(27)));
}

#[test]
fn silence_is_not_a_loss_until_the_deadline() {
    let mut lease = held();
    for second in 3..28 {
        lease.apply(at(second), at(second), silence());
        assert_eq!(lease.judge(at(second)), State::Holding(7));
    }
    assert_eq!(lease.failed(), 25);
    assert_eq!(lease.judge(at(29)), State::Lost(Loss::Unreachable));
}

#[test]
fn gone_before_its_end_is_broken_and_after_it_expired() {
    let mut lease = held();
    lease.apply(at(5), at(6), Ok(None));
    assert_eq!(lease.state(), State::Lost(Loss::Broken));
    let mut waiting = LeaseState::new(schedule());
    waiting.apply(at(0), at(0), Ok(Some(place(TicketState::Waiting))));
    waiting.apply(at(40), at(41), Ok(None));
    assert_eq!(waiting.state(), State::Lost(Loss::Expired));
}

#[test]
fn a_machine_that_slept_is_told_by_the_boot_clock_alone() {
    let mut lease = held();
    let woken = Time { boot_ns: 3600 * SECOND, raw_ns: 3 * SECOND };
    assert_eq!(lease.judge(woken), State::Lost(Loss::Expired));
}

#[test]
fn a_push_is_believed_only_within_the_life_of_the_last_sign() {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(0), Ok(Some(place(TicketState::Waiting))));
    lease.apply_served(at(29), 9);
    assert_eq!(lease.state(), State::Waiting);
    lease.apply(at(29), at(29), Ok(Some(place(TicketState::Waiting))));
    lease.apply_served(at(30), 9);
    assert_eq!(lease.state(), State::Holding(9));
}

#[test]
fn a_push_without_a_life_is_believed_only_where_lives_have_no_end() {
    let endless = Place { life: None, ..place(TicketState::Waiting) };
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(0), Ok(Some(endless)));
    lease.apply_served(at(1), 9);
    assert_eq!(lease.state(), State::Waiting);
    assert!(lease.is_due(at(1)), "it asks at once");
    let mut lease = LeaseState::new(RenewalSchedule { leased: false, ..schedule() });
    lease.apply(at(0), at(0), Ok(Some(endless)));
    lease.apply_served(at(1), 9);
    assert_eq!(lease.state(), State::Holding(9));
    assert_eq!(lease.judge(at(1_000_000)), State::Holding(9));
}

#[test]
fn what_was_held_for_long_enough_is_lost_and_renewed_no_more() {
    let max_hold = Some(Duration::from_secs(15));
    let mut lease = LeaseState::new(RenewalSchedule { max_hold, ..schedule() });
    lease.apply(at(0), at(2), Ok(Some(place(TicketState::Holding))));
    lease.apply(at(10), at(10), Ok(Some(place(TicketState::Holding))));
    assert_eq!(lease.judge(at(16)), State::Holding(7));
    assert_eq!(lease.judge(at(17)), State::Lost(Loss::HeldTooLong));
    assert_eq!(lease.next(at(17)), None);
}

#[test]
fn what_is_renewed_by_hand_is_never_due_while_it_is_held() {
    let mut lease = LeaseState::new(RenewalSchedule { manual_renewal: true, ..schedule() });
    lease.apply(at(0), at(0), Ok(Some(place(TicketState::Waiting))));
    assert!(lease.is_due(at(10)), "a waiter gives signs of life all the same");
    lease.apply_served(at(5), 3);
    lease.apply(at(6), at(6), silence());
    assert!(!lease.is_due(at(28)));
    assert_eq!(lease.next(at(6)), Some(at(29)), "its loss is still noticed in time");
}

#[test]
fn a_waiter_looks_again_when_the_one_ahead_ends() {
    let mut lease = LeaseState::new(schedule());
    let look = Some(Duration::from_secs(4));
    lease.apply(at(0), at(1), Ok(Some(Place { look, ..place(TicketState::Waiting) })));
    assert_eq!(lease.next(at(1)), Some(at(5)));
}

#[test]
fn a_holder_looks_when_its_own_renewal_is_due() {
    let mut lease = LeaseState::new(schedule());
    let look = Some(Duration::from_secs(1));
    lease.apply(at(0), at(0), Ok(Some(Place { look, ..place(TicketState::Holding) })));
    assert!(!lease.is_due(at(8)));
    assert!(lease.is_due(at(10)));
}

#[test]
fn what_was_locked_together_is_renewed_up_to_a_tenth_sooner() {
    let every = Duration::from_secs(10);
    let sent = |n: u64| Time { boot_ns: n * 1_234_567, raw_ns: 0 };
    let pauses: HashSet<_> = (0..100).map(|n| jittered(every, sent(n))).collect();
    assert!(pauses.iter().all(|pause| (every * 9 / 10..=every).contains(pause)));
    assert!(pauses.len() > 90, "they differ: {}", pauses.len());
}

#[test]
fn a_waiter_gives_up_on_a_store_that_refuses_or_is_silent_for_a_whole_life() {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(0), Ok(Some(place(TicketState::Waiting))));
    lease.apply(at(10), at(12), silence());
    assert!(lease.reason_to_give_up(at(28)).is_none());
    assert!(lease.reason_to_give_up(at(29)).is_some());
    lease.apply(at(13), at(13), Err(Error::rejected("no")));
    assert!(lease.reason_to_give_up(at(14)).is_some());
}

#[test]
fn a_waiter_whose_life_has_no_end_gives_up_after_a_few_silences() {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(0), Ok(Some(Place { life: None, ..place(TicketState::Waiting) })));
    for second in 1..=3 {
        lease.apply(at(second), at(second), silence());
        assert!(lease.reason_to_give_up(at(100)).is_none());
    }
    lease.apply(at(4), at(4), silence());
    assert!(lease.reason_to_give_up(at(4)).is_some());
}

#[test]
fn while_a_renewal_is_on_its_way_no_other_is_due_and_an_end_is_looked_at_once() {
    let mut lease = LeaseState::new(schedule());
    lease.apply(at(0), at(0), Ok(Some(place(TicketState::Waiting))));
    assert!(lease.is_due(at(10)));
    lease.begin_renewal();
    assert!(!lease.is_due(at(20)));
    assert_eq!(lease.next(at(20)), Some(at(29)));
    assert_eq!(lease.next(at(29)), Some(Time::NEVER), "it would be looked at again and again");
}

#[test]
fn trouble_is_told_to_whom_it_is_news() {
    let mut lease = held();
    lease.apply(at(3), at(3), silence());
    assert!(lease.trouble_since(0).is_some());
    assert!(lease.trouble_since(lease.failed()).is_none());
}

#[test]
fn a_store_that_forgot_having_served_it_is_believed() {
    let mut lease = held();
    lease.apply(at(1), at(3), Ok(Some(place(TicketState::Waiting))));
    assert_eq!(lease.state(), State::Holding(7), "that was asked before it was served");
    let other = Place { number: 8, ..place(TicketState::Holding) };
    lease.apply(at(4), at(5), Ok(Some(other)));
    assert_eq!(lease.state(), State::Lost(Loss::Broken));
    let mut lease = held();
    lease.apply(at(4), at(5), Ok(Some(place(TicketState::Waiting))));
    assert_eq!(lease.state(), State::Lost(Loss::Broken));
}

#[test]
fn the_reason_that_an_engine_gives_is_told() {
    let mut lease = held();
    lease.apply(at(3), at(3), Err(Error::lost(Loss::SessionGone)));
    assert_eq!(lease.state(), State::Lost(Loss::SessionGone));
}

/// An event of a lease: time passes, then an answer arrives to a request that was sent earlier.
#[derive(Clone, Debug)]
enum Step {
    Answer { later: u64, asked_before: u64, holding: bool },
    Gone { later: u64 },
    Silence { later: u64 },
    Served { later: u64 },
    Look { later: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let later = 0..12_u64;
    prop_oneof![
        (later.clone(), 0..12_u64, any::<bool>()).prop_map(|(later, asked_before, holding)| {
            Step::Answer { later, asked_before, holding }
        }),
        later.clone().prop_map(|later| Step::Silence { later }),
        later.clone().prop_map(|later| Step::Served { later }),
        later.clone().prop_map(|later| Step::Look { later }),
        (later).prop_map(|later| Step::Gone { later }),
    ]
}

proptest! {
    /// It is believed only while some answer's own question was asked less than a usable life ago.
    #[test]
    fn it_is_never_believed_longer_than_the_last_question_allows(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut lease = LeaseState::new(schedule());
        let (mut now, mut last_asked, mut lost) = (100, 0, false);
        for step in steps {
            match step {
                Step::Answer { later, asked_before, holding } => {
                    now += later;
                    let standing = if holding { TicketState::Holding } else { TicketState::Waiting };
                    lease.apply(at(now - asked_before), at(now), Ok(Some(place(standing))));
                    last_asked = last_asked.max(now - asked_before);
                }
                Step::Gone { later } => {
                    now += later;
                    lease.apply(at(now), at(now), Ok(None));
                }
                Step::Silence { later } => {
                    now += later;
                    lease.apply(at(now), at(now), silence());
                }
                Step::Served { later } => {
                    now += later;
                    lease.apply_served(at(now), 7);
                }
                Step::Look { later } => now += later,
            }
            let state = lease.judge(at(now));
            if let State::Holding(_) = state {
                prop_assert!(!lost, "a loss was reverted");
                prop_assert!(now - last_asked < 29, "believed too long");
            }
            lost |= matches!(state, State::Lost(_));
        }
    }
}
