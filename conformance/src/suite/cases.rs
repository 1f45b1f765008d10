//! All cases, by chapter. Each is listed once here: the compiler warns of a function that is not.

mod acts;
mod all;
mod authority;
mod breaking;
mod cancel;
mod closing;
mod counters;
mod crowd;
mod election;
mod events;
mod exclusive;
mod inspection;
mod kind;
mod model;
mod names;
mod numbers;
mod once;
mod order;
mod processes;
mod rule;
mod shares;
mod ttl;
mod twice;
mod values;
mod waking;

use std::sync::LazyLock;

use self::kind::Kind;
use super::case::Case;

/// Passes the list of all cases, by chapter, to the named macro of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! each_case {
    ($then:ident) => {
        $crate::$then! {
            order: [
                a_ticket_joins_at_the_back,
                the_first_to_join_is_served_first,
                of_parallel_joins_only_one_is_served,
                a_leave_from_the_middle_keeps_the_order,
                a_leave_serves_the_waiter_behind,
                lines_do_not_touch_each_other,
            ]
            numbers: [
                numbers_grow_from_holder_to_holder,
                numbers_grow_from_client_to_client,
                numbers_survive_an_empty_line,
                numbers_grow_after_an_expiry,
                numbers_grow_after_a_break,
                numbers_grow_along_the_line,
                parallel_joins_get_distinct_numbers,
                a_number_stays_as_long_as_its_ticket,
                a_waiter_keeps_its_number_when_it_is_served,
                a_number_is_not_below_its_floor,
                numbers_grow_above_the_floor_of_a_renewal,
                numbers_grow_when_the_store_comes_back_with_older_data,
            ]
            rule: [
                the_front_is_served_as_long_as_it_fits,
                exactly_the_capacity_is_served,
                a_join_that_may_not_wait_leaves_no_trace,
                a_join_that_may_not_wait_does_not_overtake,
                another_capacity_is_refused_and_changes_nothing,
                a_semaphore_of_another_size_is_refused,
                a_renewal_may_shrink_a_share,
                a_renewal_never_grows_a_share,
                a_writer_that_becomes_a_reader_admits_readers,
            ]
            twice: [
                joining_twice_is_joining_once,
                two_attempts_of_a_ticket_hold_once,
                leaving_twice_is_leaving_once,
                a_late_release_does_not_free_the_next_holder,
                a_stranger_is_nowhere,
                a_renewal_does_not_revive_a_ticket_that_left,
                a_renewal_does_not_revive_a_ticket_that_was_removed,
                a_renewal_does_not_revive_a_ticket_that_expired,
                a_renewal_does_not_take_a_lock_that_others_held_meanwhile,
                renewing_twice_is_renewing_once,
                only_the_id_distinguishes_tickets,
                an_id_of_another_owner_is_refused,
            ]
            ttl: [
                the_dead_leave_by_themselves,
                a_holder_without_a_renewal_expires,
                a_ticket_does_not_expire_early,
                a_renewed_ticket_stays,
                joining_again_renews,
                looking_does_not_renew,
                an_end_never_moves_backwards,
                a_dead_waiter_does_not_block_the_line,
                a_waiter_that_dies_when_it_is_served_does_not_block_the_line,
                a_waiter_without_a_renewal_expires,
                a_ticket_behind_an_expired_one_is_served,
                a_place_has_the_rest_of_the_ttl,
                a_waiter_learns_when_to_look_again,
                a_ticket_of_a_kernel_session_needs_no_ttl,
                a_client_that_closes_removes_only_its_own_tickets,
            ]
            authority: [
                every_client_sees_at_once_what_another_did,
                a_ticket_that_one_client_removes_is_gone_for_every_other,
                every_client_continues_the_count_of_another,
            ]
            waking: [
                a_ticket_that_is_served_is_notified,
                a_change_before_the_watch_counts,
                the_bell_rings_for_one_after_the_other,
                a_waiter_that_is_broken_is_notified,
                a_holder_that_is_asked_to_leave_is_notified,
                a_holder_that_is_forced_out_is_notified_by_a_watch,
                a_watch_that_is_given_up_takes_nothing_along,
            ]
            events: [
                a_line_is_reported_in_order,
                every_event_is_reported_once,
                every_change_is_reported_by_its_kind,
                an_expiry_is_reported,
                only_the_scope_is_reported,
                an_observer_waits_until_something_happens,
                a_lasting_change_is_seen,
                two_observers_see_the_same,
                an_old_cursor_repeats_events,
            ]
            counters: [
                a_sequence_begins_at_one_and_grows,
                no_number_of_a_sequence_is_given_twice,
                a_sequence_does_not_end,
                a_sequence_refuses_more_numbers_than_it_has,
                a_count_stops_at_its_limit,
                a_limit_holds_for_parallel_callers,
                a_count_starts_anew_after_its_window,
                counting_does_not_prolong_a_window,
                another_window_counts_in_the_running_one,
                a_refused_count_opens_no_window,
                looking_at_a_count_opens_no_window,
                locks_sequences_and_counts_of_one_name_are_strangers,
            ]
            values: [
                a_value_is_replaced_by_a_caller_that_has_seen_it,
                a_swap_that_is_sent_twice_is_one_swap,
                of_parallel_swaps_one_is_done,
                an_empty_value_is_none,
                a_value_does_not_end,
                a_value_comes_back_as_it_was_given,
                locks_sequences_and_values_of_one_name_are_strangers,
            ]
            once: [
                a_slot_succeeds_once,
                a_failed_run_frees_its_slot,
                a_run_that_is_dropped_frees_its_slot,
                a_caller_during_the_run_waits_and_does_not_run,
                a_success_after_a_loss_does_not_count,
                a_reset_during_the_run_does_not_lose_its_end,
                slots_that_cannot_be_are_refused,
                a_schedule_names_its_slots_by_time,
                the_slot_that_ran_last_is_kept_until_another_runs,
                each_slot_of_three_machines_succeeds_once,
            ]
            names: [
                distinct_names_are_distinct_locks,
                equal_names_are_the_same_lock,
                names_come_back_as_they_were_given,
                a_prefix_is_taken_literally,
                a_name_is_listed_as_long_as_it_has_a_ticket,
                a_sequence_of_every_name_is_its_own,
                a_name_that_cannot_be_is_refused,
                owners_and_notes_come_back_as_they_were_given,
            ]
            breaking: [
                a_waiter_is_out_at_once,
                a_holder_keeps_its_place_until_it_leaves,
                a_renewal_does_not_change_a_holder_that_was_asked_to_leave,
                a_holder_that_was_asked_to_leave_expires,
                an_id_and_a_key_are_enough,
                a_ticket_that_is_forced_out_is_gone_at_once,
                a_holder_is_asked_to_leave_and_the_next_waits_until_it_has,
                a_broken_holder_stops_its_work_before_the_next_begins,
                a_broken_waiter_learns_that_it_was_broken,
                a_holder_that_is_forced_out_is_notified,
                an_absent_ticket_cannot_be_broken,
            ]
            mutex last_permit writer: [
                at_most_one_of_a_hundred_holds,
                a_held_lock_is_refused_to_every_caller,
                a_waiter_gets_the_lock_after_the_release,
                a_dropped_guard_is_given_back,
                a_guard_may_be_dropped_by_another_thread_and_in_a_panic,
                no_time_to_wait_is_a_try,
                waiting_in_vain_leaves_nothing_behind,
                the_whole_wait_has_one_time_limit,
                any_time_limit_will_do,
                a_wait_that_is_dropped_leaves_nothing_behind,
                a_waiter_outlives_its_own_ttl,
                a_release_says_whether_it_was_held,
                a_late_drop_does_not_free_the_next_holder,
                a_release_is_no_loss,
                a_loss_is_reported_to_all_and_is_final,
                it_is_renewed_for_as_long_as_it_is_held,
                by_hand_it_ends_unless_it_is_extended,
                it_is_lost_when_it_was_held_for_long_enough,
                other_terms_make_no_other_lock,
                a_note_changes_in_place,
            ]
            shares: [
                readers_read_together_and_keep_writers_out,
                a_writer_excludes_all_others,
                a_writer_is_not_starved_by_readers,
                a_writer_that_gives_up_admits_the_readers_behind_it,
                a_downgrade_keeps_writers_out_and_lets_readers_in,
                readers_and_writers_never_meet,
                a_mutex_is_the_writer_of_its_key,
                a_mutex_and_a_semaphore_of_one_name_are_refused,
                another_number_of_permits_is_refused,
                never_more_permits_are_out_than_there_are,
                permits_are_taken_all_or_none,
                a_request_for_many_permits_is_not_overtaken,
                the_permits_of_the_dead_come_back,
                the_release_of_a_lost_permit_adds_none,
                permits_that_cannot_be_are_refused,
                no_two_holders_have_a_permit_of_the_same_number,
                a_permit_that_is_gone_has_no_number,
            ]
            all: [
                opposite_orders_do_not_wait_for_each_other,
                a_name_given_twice_is_taken_once,
                all_or_none,
                they_are_waited_for_under_one_time_limit,
                the_loss_of_one_is_the_loss_of_all,
                a_wait_for_all_that_is_dropped_releases_the_locks_that_it_had,
                all_of_nothing_is_refused,
            ]
            election: [
                there_are_never_two_leaders,
                work_is_stopped_before_the_seat_is_given_up,
                a_leader_may_resign,
                a_candidate_that_gives_up_is_not_elected,
                a_stop_takes_a_follower_out_of_the_line,
                a_stop_ends_the_work_of_a_leader_before_the_next_leads,
                the_note_of_a_leader_changes_in_place,
                an_observer_sees_every_term_in_order,
                an_observer_sees_the_leader_and_its_successor,
                a_leader_is_notified_of_its_fall_without_a_check,
            ]
            inspection: [
                a_line_shows_the_holder,
                a_line_shows_the_waiters_and_their_shares,
                a_view_gives_no_right_to_release,
                keys_are_listed_by_prefix_and_in_order,
                an_observer_sees_lasting_changes,
                an_owner_has_a_name,
            ]
            processes: [
                a_holder_that_is_killed_frees_the_lock,
                a_waiter_that_is_killed_does_not_block_the_line,
                a_holder_that_is_stopped_loses_the_lock_only_if_tickets_expire,
                a_waiter_that_is_stopped_blocks_no_free_lock,
                processes_keep_each_other_out,
            ]
            closing: [
                a_lock_that_is_held_is_lost_before_another_is_served,
                a_guard_that_is_dropped_is_given_back_first,
                waiters_and_later_callers_are_refused,
            ]
            cancel: [
                a_future_that_takes_a_free_lock_may_be_dropped,
                a_future_that_waits_may_be_dropped,
                a_join_that_goes_on_while_its_ticket_leaves_does_not_come_in,
                a_waiter_that_is_served_while_it_is_dropped_releases_the_lock,
                a_release_may_be_dropped,
                a_manual_renewal_may_be_dropped,
                an_inspection_may_be_dropped,
                an_observer_that_is_dropped_and_continues_misses_nothing,
                a_count_may_be_dropped,
            ]
            model: [
                the_engine_does_what_the_model_does,
            ]
        }
    };
}

/// The cases of each chapter, one slice after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_cases {
    ($($($chapter:ident)+: $names:tt)*) => { [$($(chapter_cases!($chapter $names)),+),*].concat() };
}

/// One chapter. Those of exclusive locks run the same cases, each for another kind of lock.
macro_rules! chapter_cases {
    (mutex $names:tt) => { chapter_cases!(mutex, Kind::Mutex; $names) };
    (last_permit $names:tt) => { chapter_cases!(last_permit, Kind::LastPermit; $names) };
    (writer $names:tt) => { chapter_cases!(writer, Kind::Writer; $names) };
    ($chapter:ident [$($name:ident),* $(,)?]) => {
        &[$(Case {
            name: concat!(stringify!($chapter), "::", stringify!($name)),
            story: |arena| Box::pin($chapter::$name(arena)),
        }),*][..]
    };
    ($chapter:ident, $kind:expr; [$($name:ident),* $(,)?]) => {
        &[$(Case {
            name: concat!(stringify!($chapter), "::", stringify!($name)),
            story: |arena| Box::pin(exclusive::$name(arena, $kind)),
        }),*][..]
    };
}

/// All cases.
pub fn all() -> &'static [Case] {
    static ALL: LazyLock<Vec<Case>> = LazyLock::new(|| crate::each_case!(suite_cases));
    &ALL
}

/// The case of this name.
pub fn named(name: &str) -> Case {
    *all().iter().find(|case| case.name == name).expect("the case exists")
}
