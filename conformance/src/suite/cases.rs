//! All cases, a chapter for each noun. The list stands here once; a story that is not in it is a
//! warning of the compiler.

mod acts;
mod all;
mod authority;
mod breaking;
mod cancel;
mod closing;
mod crowd;
mod election;
mod events;
mod exclusive;
mod inspection;
mod kind;
mod life;
mod model;
mod names;
mod numbers;
mod order;
mod processes;
mod rule;
mod shares;
mod tally;
mod twice;
mod waking;

use std::sync::LazyLock;

use self::kind::Kind;
use super::case::Case;

/// The list of all cases, by chapter, for the macro of this crate that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! each_case {
    ($then:ident) => {
        $crate::$then! {
            order: [
                a_ticket_joins_at_the_back,
                whoever_came_first_is_served_first,
                only_one_of_all_who_come_at_once_is_served,
                whoever_leaves_from_the_middle_leaves_the_others_in_order,
                who_leaves_frees_the_line_for_whoever_waits,
                lines_do_not_touch_each_other,
            ]
            numbers: [
                numbers_grow_from_holder_to_holder,
                numbers_grow_from_client_to_client,
                numbers_survive_an_empty_line,
                numbers_grow_after_an_expiry,
                numbers_grow_after_a_break,
                numbers_grow_along_the_line,
                no_number_is_given_twice_to_those_who_come_at_once,
                a_number_stays_as_long_as_its_ticket,
                a_waiter_keeps_its_number_when_it_is_served,
                a_number_is_not_below_its_floor,
                numbers_grow_above_the_floor_of_a_renewal,
                numbers_grow_when_the_store_comes_back_with_older_data,
            ]
            rule: [
                the_front_is_served_as_long_as_it_fits,
                exactly_the_capacity_is_served,
                who_would_not_wait_leaves_no_trace,
                who_would_not_wait_does_not_overtake,
                another_capacity_is_refused_and_changes_nothing,
                a_semaphore_of_another_size_is_refused,
                a_renewal_may_shrink_a_share,
                a_renewal_never_grows_a_share,
                a_writer_who_becomes_a_reader_lets_readers_in,
            ]
            twice: [
                joining_twice_is_joining_once,
                who_tries_twice_holds_once,
                leaving_twice_is_leaving_once,
                a_late_release_does_not_free_the_next_holder,
                a_stranger_is_nowhere,
                a_renewal_does_not_bring_back_who_has_left,
                a_renewal_does_not_bring_back_who_was_taken_out,
                a_renewal_does_not_bring_back_who_has_expired,
                a_renewal_does_not_take_back_what_others_held_meanwhile,
                renewing_twice_is_renewing_once,
                only_the_id_tells_tickets_apart,
                an_id_of_another_owner_is_refused,
            ]
            life: [
                the_dead_leave_by_themselves,
                who_gives_no_sign_of_life_leaves_by_itself,
                nobody_leaves_sooner,
                who_gives_signs_of_life_stays,
                joining_again_is_a_sign_of_life,
                looking_is_no_sign_of_life,
                an_end_never_moves_backwards,
                a_dead_waiter_does_not_block_the_line,
                a_waiter_who_dies_when_its_turn_comes_does_not_block_the_line,
                a_waiter_who_gives_no_sign_of_life_leaves_by_itself,
                who_follows_the_dead_is_served_though_it_leaves_at_once,
                a_place_says_how_much_life_is_left,
                a_waiter_is_told_when_to_look_again,
                who_lives_by_the_kernel_needs_no_ttl,
                a_client_who_goes_takes_only_its_own_tickets_along,
            ]
            authority: [
                what_one_client_did_every_other_sees_at_once,
                who_was_taken_out_by_one_client_is_gone_for_every_other,
                what_one_client_counted_every_other_counts_on,
            ]
            waking: [
                the_bell_rings_for_who_is_served,
                what_happened_before_the_watch_counts,
                the_bell_rings_for_one_after_the_other,
                the_bell_rings_for_a_waiter_who_is_broken,
                the_bell_rings_for_a_holder_who_is_told_to_leave,
                the_bell_rings_for_a_holder_who_is_forced_out,
                a_watch_that_is_given_up_takes_nothing_along,
            ]
            events: [
                a_line_is_told_in_order,
                nothing_is_told_twice_and_nothing_is_left_out,
                what_happens_is_told_by_its_name,
                an_expiry_is_told,
                only_the_scope_is_told,
                an_onlooker_waits_until_something_happens,
                what_lasts_is_seen,
                two_onlookers_see_the_same,
                an_old_cursor_tells_again,
            ]
            tally: [
                a_sequence_begins_at_one_and_grows,
                no_number_of_a_sequence_is_given_twice,
                a_sequence_does_not_end,
                a_sequence_refuses_what_it_cannot_give,
                a_count_stops_at_its_limit,
                a_limit_holds_for_all_who_count_at_once,
                a_count_starts_anew_after_its_window,
                counting_does_not_prolong_a_window,
                whoever_asks_for_another_window_counts_in_the_one_that_runs,
                who_is_refused_opens_no_window,
                looking_at_a_count_opens_no_window,
                locks_sequences_and_counts_of_one_name_are_strangers,
            ]
            names: [
                distinct_names_are_distinct_locks,
                equal_names_are_the_same_lock,
                names_come_back_as_they_were_given,
                a_prefix_is_taken_literally,
                a_name_is_listed_as_long_as_somebody_is_there,
                a_sequence_of_every_name_is_its_own,
                a_name_that_cannot_be_is_refused,
                owners_and_notes_come_back_as_they_were_given,
            ]
            breaking: [
                a_waiter_is_out_at_once,
                a_holder_keeps_its_place_until_it_leaves,
                a_renewal_changes_nothing_of_a_holder_who_was_told,
                a_holder_who_was_told_ends_with_its_life,
                an_id_and_a_key_are_enough,
                who_is_forced_out_is_out_at_once,
                a_holder_is_told_and_nobody_comes_in_before_it_has_left,
                a_broken_holder_stops_its_work_before_the_next_begins,
                a_broken_waiter_learns_that_it_was_broken,
                a_holder_who_is_forced_out_is_told,
                who_is_not_there_cannot_be_broken,
            ]
            mutex last_permit writer: [
                at_most_one_of_a_hundred_holds,
                what_is_held_is_refused_to_everybody,
                whoever_waits_gets_it_after_the_release,
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
                a_loss_is_told_to_all_and_never_untold,
                it_is_renewed_for_as_long_as_it_is_held,
                by_hand_it_ends_unless_it_is_extended,
                it_is_lost_when_it_was_held_for_long_enough,
                other_terms_make_no_other_lock,
                a_note_changes_in_place,
            ]
            shares: [
                readers_read_together_and_keep_writers_out,
                a_writer_keeps_everybody_out,
                a_writer_is_not_starved_by_readers,
                a_writer_who_gives_up_lets_the_readers_behind_it_in,
                a_downgrade_keeps_writers_out_and_lets_readers_in,
                readers_and_writers_never_meet,
                a_mutex_is_the_writer_of_its_key,
                a_mutex_and_a_semaphore_of_one_name_are_refused,
                another_number_of_permits_is_refused,
                never_more_permits_are_out_than_there_are,
                permits_are_taken_all_or_none,
                who_asks_for_many_is_not_overtaken,
                the_permits_of_the_dead_come_back,
                releasing_what_was_lost_adds_no_permit,
                permits_that_cannot_be_are_refused,
            ]
            all: [
                opposite_orders_do_not_wait_for_each_other,
                a_name_given_twice_is_taken_once,
                all_or_none,
                they_are_waited_for_under_one_time_limit,
                the_loss_of_one_is_the_loss_of_all,
                a_wait_for_all_that_is_dropped_gives_back_what_it_had,
                all_of_nothing_is_refused,
            ]
            election: [
                there_are_never_two_leaders,
                work_is_stopped_before_the_seat_is_given_up,
                a_leader_may_resign,
                who_gives_up_campaigning_is_not_elected,
                a_stop_takes_a_follower_out_of_the_line,
                a_stop_ends_the_work_of_a_leader_before_the_next_leads,
                the_note_of_a_leader_changes_in_place,
                an_observer_sees_every_term_in_order,
                an_observer_sees_who_leads_and_who_comes_next,
                a_leader_is_told_of_its_fall_even_if_it_never_looked,
            ]
            inspection: [
                a_line_shows_who_holds,
                a_line_shows_who_waits_and_for_what,
                a_view_gives_no_right_to_release,
                keys_are_listed_by_prefix_and_in_order,
                an_onlooker_sees_what_lasts,
                an_owner_has_a_name,
            ]
            processes: [
                a_holder_who_is_killed_frees_the_lock,
                a_waiter_who_is_killed_does_not_block_the_line,
                a_holder_who_is_stopped_is_lost_where_lives_end_and_holds_on_where_they_do_not,
                a_waiter_who_is_stopped_does_not_lose_its_lock_to_nobody,
                processes_keep_each_other_out,
            ]
            closing: [
                a_lock_that_is_held_is_lost_before_another_is_served,
                a_guard_that_is_dropped_is_given_back_first,
                whoever_waits_or_comes_later_is_refused,
            ]
            cancel: [
                whoever_takes_what_is_free_may_be_dropped,
                whoever_waits_may_be_dropped,
                a_join_that_goes_on_while_its_ticket_leaves_does_not_come_in,
                whoever_is_served_while_it_is_dropped_gives_it_back,
                a_release_may_be_dropped,
                whoever_renews_by_hand_may_be_dropped,
                whoever_looks_may_be_dropped,
                an_onlooker_who_is_dropped_and_looks_on_misses_nothing,
                whoever_counts_may_be_dropped,
            ]
            model: [
                the_engine_does_what_the_model_does,
            ]
        }
    };
}

/// The stories of each chapter, one slice behind the other.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_cases {
    ($($($chapter:ident)+: $names:tt)*) => { [$($(chapter_cases!($chapter $names)),+),*].concat() };
}

/// One chapter. Those about being alone tell the same stories, each of another kind of lock.
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

/// Every case there is.
pub fn all() -> &'static [Case] {
    static ALL: LazyLock<Vec<Case>> = LazyLock::new(|| crate::each_case!(suite_cases));
    &ALL
}

/// The case of this name.
pub fn named(name: &str) -> Case {
    *all().iter().find(|case| case.name == name).expect("there is a case of this name")
}
