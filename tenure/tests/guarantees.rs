//! Every cell about failures in the README's table has a test or a reason.

use std::fs;
use std::path::Path;

/// The evidence for a cell.
enum Shown {
    /// This test in this file.
    By(&'static str, &'static str),
    /// No test, for this reason.
    Reason(&'static str),
}

use Shown::{By, Reason};

const PROCESSES: &str = "conformance/src/suite/cases/processes.rs";
const CRASH: Shown = By(PROCESSES, "a_holder_that_is_killed_frees_the_lock");
const PAUSE: Shown =
    By(PROCESSES, "a_holder_that_is_stopped_loses_the_lock_only_if_tickets_expire");

/// The cells of each engine, in the order of the columns: holder crash, holder pause, store crash,
/// fail-over, clock step, full memory.
const CELLS: [(&str, [Shown; 6]); 9] = [
    (
        "file",
        [
            CRASH,
            PAUSE,
            By("engines/file/tests/processes.rs", "only_one_is_in_while_others_are_killed"),
            Reason("a directory belongs to one machine: nothing can take its place"),
            Reason("no rule of the file engine reads a clock"),
            By(
                "engines/file/tests/processes.rs",
                "a_full_disk_refuses_those_who_join_and_changes_nothing",
            ),
        ],
    ),
    (
        "mongodb",
        [
            CRASH,
            PAUSE,
            By("engines/mongodb/tests/faults/silence.rs", "a_killed_server_keeps_its_locks"),
            By(
                "engines/mongodb/tests/faults/members.rs",
                "a_lock_outlives_the_primary_and_a_hand_over_is_heard_afterwards",
            ),
            By(
                "engines/mongodb/tests/faults/clocks.rs",
                "a_clock_that_is_set_forward_ends_lives_and_numbers_grow",
            ),
            Reason("mongod keeps records on its disk, and drops none for want of memory"),
        ],
    ),
    (
        "mysql",
        [
            CRASH,
            PAUSE,
            By(
                "engines/mysql/tests/faults/crash.rs",
                "a_killed_server_has_everything_that_was_answered",
            ),
            By(
                "engines/mysql/tests/faults/other_server.rs",
                "a_holder_that_another_server_does_not_know_has_ended_before_the_next_is_served",
            ),
            Reason("the server's clock ends leases, and a clock that is set moves their ends"),
            Reason("InnoDB keeps rows on its disk, and drops none for want of memory"),
        ],
    ),
    (
        "postgres",
        [
            CRASH,
            PAUSE,
            By(
                "engines/postgres/tests/faults/crash.rs",
                "a_killed_server_has_everything_that_was_answered_whatever_its_role_is_set_to",
            ),
            By(
                "engines/postgres/tests/faults/promotion.rs",
                "without_the_quarantine_two_hold_after_a_promotion",
            ),
            Reason("the server's clock ends leases, and a clock that is set moves their ends"),
            Reason("PostgreSQL keeps rows on its disk, and drops none for want of memory"),
        ],
    ),
    (
        "redis",
        [
            CRASH,
            PAUSE,
            By(
                "engines/redis/tests/faults/crash.rs",
                "a_server_that_has_forgotten_all_is_found_out_by_the_next_renewal",
            ),
            By(
                "engines/redis/tests/faults/failover.rs",
                "without_acknowledgements_a_fail_over_may_lose_a_lock_and_tokens_save_the_data",
            ),
            By(
                "engines/redis/tests/faults/clocks.rs",
                "a_clock_set_forward_ends_locks_early_and_their_tokens_save_the_data",
            ),
            By(
                "engines/redis/tests/faults/refusals.rs",
                "a_full_server_takes_no_new_tickets_and_serves_those_it_has",
            ),
        ],
    ),
    (
        "redlock",
        [
            CRASH,
            PAUSE,
            By(
                "engines/redlock/tests/faults/minority.rs",
                "one_bad_store_of_three_changes_nothing",
            ),
            Reason("its servers know nothing of each other: none takes another's place"),
            Reason("a majority of servers whose clocks are set forward ends leases early"),
            By(
                "engines/redis/tests/faults/redlock.rs",
                "a_server_that_refuses_is_like_one_that_is_silent",
            ),
        ],
    ),
    (
        "etcd",
        [
            CRASH,
            PAUSE,
            By(
                "engines/etcd/tests/faults/members.rs",
                "a_lock_outlives_the_restart_of_every_member",
            ),
            By("engines/etcd/tests/faults/members.rs", "a_lock_outlives_the_leader"),
            Reason("etcd counts leases by a clock that cannot be set"),
            By(
                "engines/etcd/tests/faults/disks.rs",
                "a_full_member_takes_no_new_tickets_and_serves_those_it_has",
            ),
        ],
    ),
    (
        "zookeeper",
        [
            CRASH,
            PAUSE,
            By(
                "engines/zookeeper/tests/faults/members.rs",
                "a_lock_outlives_the_restart_of_every_server",
            ),
            By("engines/zookeeper/tests/faults/members.rs", "a_lock_outlives_the_leader"),
            Reason("ZooKeeper counts sessions by a clock that cannot be set"),
            Reason("a server without memory ends; its ensemble forgets no node"),
        ],
    ),
    (
        "memory",
        [
            Reason("the store is in its holder's process, and ends with it"),
            By("conformance/src/suite/cases/ttl.rs", "a_holder_without_a_renewal_expires"),
            Reason("the store is in its holder's process, and ends with it"),
            Reason("nothing can take the place of a process"),
            Reason("ttls are counted by a clock that cannot be set"),
            Reason("a process without memory ends, and its holders with it"),
        ],
    ),
];

#[test]
fn every_cell_about_failures_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = include_str!("../STORES.md");
    let table = page.split("<!-- engines -->\n").nth(1).unwrap();
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), CELLS.len(), "every engine of the table is here");
    for (row, (engine, shown)) in rows.into_iter().zip(CELLS) {
        assert!(row.starts_with(&format!("| `{engine}` |")), "{row} is not {engine}");
        for shown in shown {
            match shown {
                By(file, test) => {
                    let source = fs::read_to_string(root.join(file)).unwrap();
                    assert!(source.contains(&format!("fn {test}(")), "{file} lacks {test}");
                }
                Reason(reason) => assert!(!reason.is_empty()),
            }
        }
    }
}
