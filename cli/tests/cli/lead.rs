//! `tenure lead` in several processes: one of their commands runs at a time.

use rustix::process::Signal;

use crate::kit::{Running, Store, eventually, field, is_alive};
use crate::run::pids;

/// Logs every earlier command that still runs when this one begins.
pub(crate) const WORK: &str = "for pid in $(sed -n 's/^pid //p' $LOG 2>/dev/null); do \
    case $(cut -d' ' -f3 /proc/$pid/stat 2>/dev/null) in ''|Z|X) ;; *) echo overlap $pid >>$LOG;; esac; \
    done; echo pid $$ >>$LOG; exec sleep 600";

fn candidates(store: &Store) -> Vec<Running> {
    (1..=3)
        .map(|count| {
            let one = store.start(&["lead", "k", "--note", "me", "--", "sh", "-c", WORK]);
            store.line_has("k", count);
            one
        })
        .collect()
}

/// Waits until `terms` commands have begun, and returns the pid at the front of the line.
fn leader(store: &Store, terms: usize) -> i32 {
    eventually(&format!("term {terms}"), || pids(&store.log()).len() == terms);
    let front = store.line("k").remove(0);
    assert_eq!(field(&front, "state"), "holding");
    let owner = field(&front, "owner");
    owner[owner.find('[').unwrap() + 1..owner.find(']').unwrap()].parse().unwrap()
}

#[test]
fn a_leader_is_paused_resumed_and_killed() {
    let store = Store::new();
    let mut candidates = candidates(&store);
    assert_eq!(leader(&store, 1), candidates[0].pid());

    // The kernel knows that a paused leader lives: it goes on to lead.
    candidates[0].signal(Signal::STOP);
    assert_eq!(leader(&store, 1), candidates[0].pid());
    candidates[0].signal(Signal::CONT);
    assert_eq!(leader(&store, 1), candidates[0].pid());

    for term in 2..=3 {
        let work = *pids(&store.log()).last().unwrap();
        let old = candidates.remove(0);
        old.signal(Signal::KILL);
        assert_eq!(leader(&store, term), candidates[0].pid());
        eventually("the end of its command", || !is_alive(work));
    }
    candidates[0].signal(Signal::TERM);
    assert_eq!(candidates.remove(0).end().code, 1015);
    assert!(!store.log().contains("overlap"), "{}", store.log());
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn a_broken_leader_campaigns_again() {
    let store = Store::new();
    let mut candidates = candidates(&store);
    for term in 1..=6 {
        let now = leader(&store, term);
        assert_eq!(now, candidates[(term - 1) % 3].pid());
        // The former leader has joined the end of the line.
        store.line_has("k", 3);
        assert!(store.output(&["break", "k", "--holder"]).contains("was asked to leave"));
    }
    leader(&store, 7);
    store.line_has("k", 3);
    // Asked to end while it leads, it does not come back.
    candidates[0].signal(Signal::INT);
    assert_eq!(candidates.remove(0).end().code, 1002);
    leader(&store, 8);
    assert!(!store.log().contains("overlap"), "{}", store.log());
}

#[test]
fn the_end_of_the_command_is_the_end_of_the_term() {
    let store = Store::new();
    assert_eq!(store.end(&["lead", "k", "--", "sh", "-c", "exit 9"]).code, 9);
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn verbose_reports_the_lead_and_the_end() {
    let store = Store::new();
    let end = store.end(&["lead", "-v", "k", "--", "sh", "-c", "exit 3"]);
    assert_eq!(end.code, 3);
    let (led, ended) = end.err.split_once('\n').unwrap();
    assert!(
        led.starts_with("tenure: `k` is led in the store in ") && led.contains(", with token "),
        "{led}"
    );
    assert_eq!(ended, "tenure: the command has ended with 3\n");
}
