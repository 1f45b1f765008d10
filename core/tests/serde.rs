//! Public types can be serialized; keys, ids and shares can be deserialized.

#![cfg(feature = "serde")]

use serde_json::{Value, from_str, from_value, json, to_value};
use tenure_core::blocking::{Blocking, block_on};
use tenure_core::event::{EventKind, Scope};
use tenure_core::{
    ErrorKind, Guarantee, Guarantees, Key, LeaveOutcome, Locks, Loss, Memory, Reason, Share,
    TicketId, TicketState, WatchEvent,
};

fn locks() -> Blocking<Locks> {
    Locks::new(Memory::new()).with_owner("alice").unwrap().blocking()
}

fn written(value: &impl serde::Serialize) -> Value {
    to_value(value).expect("everything can be written")
}

#[test]
fn a_key_is_its_name_and_is_refused_where_it_cannot_be_one() {
    let key = Key::new("invoices/\u{0}\"42\"").unwrap();
    assert_eq!(written(&key), json!("invoices/\u{0}\"42\""));
    assert_eq!(from_value::<Key>(written(&key)).unwrap(), key);
    let refused = from_str::<Key>("\"\"").unwrap_err().to_string();
    assert!(refused.contains("a key must not be empty"), "{refused}");
    assert!(from_value::<Key>(json!("x".repeat(1025))).is_err());
}

#[test]
fn an_id_is_32_hexadecimal_digits() {
    let id = TicketId::from_u128(0xabc);
    assert_eq!(written(&id), json!("00000000000000000000000000000abc"));
    assert_eq!(from_value::<TicketId>(written(&id)).unwrap(), id);
    for garbage in [json!("abc"), json!(2748), json!("+0000000000000000000000000000abc")] {
        assert!(from_value::<TicketId>(garbage.clone()).is_err(), "{garbage}");
    }
}

#[test]
fn a_share_that_cannot_be_is_refused() {
    let share = Share::new(2, 5).unwrap();
    assert_eq!(written(&share), json!({"kind": "permits", "take": 2, "of": 5}));
    for (share, kind) in [(Share::WHOLE, "exclusive"), (Share::READER, "shared")] {
        assert_eq!(written(&share), json!({"kind": kind}));
        assert_eq!(from_value::<Share>(written(&share)).unwrap(), share);
    }
    assert_eq!(from_value::<Share>(written(&share)).unwrap(), share);
    let refused = from_value::<Share>(json!({"kind": "permits", "take": 6, "of": 5}))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("6 of 5 cannot be taken"), "{refused}");
}

#[test]
fn a_line_is_written_as_it_stands() {
    let locks = locks();
    let guard = locks.mutex("a").note("here").lock().unwrap();
    let holder = written(&locks.line("a").unwrap()[0]);
    assert_eq!(holder["id"], json!(guard.id().to_string()));
    assert_eq!(holder["key"], json!("a"));
    assert_eq!((&holder["kind"], &holder["permits"]), (&json!("exclusive"), &Value::Null));
    let permits = locks.semaphore("s", 5).acquire_many(2).unwrap();
    let of_permits = written(&locks.line("s").unwrap()[0]);
    assert_eq!(of_permits["kind"], json!("permits"));
    assert_eq!(of_permits["permits"], json!({"take": 2, "of": 5}));
    drop(permits);
    assert_eq!((&holder["owner"], &holder["note"]), (&json!("alice"), &json!("here")));
    assert_eq!(holder["token"], json!(guard.token()));
    assert_eq!(holder["state"], json!("holding"));
    assert!(holder["expires_in_ms"].as_u64().unwrap() <= 30_000);
    assert!(holder["since_ms"].as_u64().is_some(), "the numbers of this store are times");
    locks.break_ticket("a", guard.id()).unwrap();
    assert_eq!(written(&locks.line("a").unwrap()[0])["state"], json!("leaving"));
}

#[test]
fn events_leaders_and_counts_are_written() {
    let locks = locks();
    let mut watch = locks.watch(Scope::Prefix(String::new())).unwrap();
    let seat = locks.election("a").note("10.0.0.7").campaign().unwrap();
    let seen = watch.wait().unwrap();
    let WatchEvent::Event(event) = &seen else { panic!("nothing was missed") };
    assert_eq!(written(&seen)["event"], written(event));
    assert_eq!(written(event)["event"], json!("joined"));
    assert_eq!(written(event)["token"], json!(event.number));
    assert_eq!(written(&event.ticket)["ttl_ms"], json!(30_000));
    assert_eq!(written(event)["at_us"], json!(event.at_us));
    assert_eq!(written(event)["ticket"]["key"], json!("a"));
    assert_eq!(written(&WatchEvent::Gap), json!("gap"));
    let leader = written(&locks.election("a").leader().unwrap());
    assert_eq!(leader["token"], json!(seat.token()));
    assert_eq!((&leader["note"], &leader["owner"]), (&json!("10.0.0.7"), &json!("alice")));
    let count = written(&locks.counter("b").limit(1).add(2).unwrap());
    assert_eq!((&count["value"], &count["allowed"]), (&json!(0), &json!(false)));
    assert!(count["resets_in_ms"].is_u64());
}

#[test]
fn a_profile_is_written_with_its_parts() {
    let locks = locks();
    let profile: &Guarantees = locks.guarantees();
    let profile = written(profile);
    assert_eq!((&profile["name"], &profile["fair"]), (&json!("memory"), &json!(true)));
    assert_eq!(profile["liveness"], json!("process"));
    assert_eq!((&profile["events"], &profile["fencing"]), (&json!("every"), &json!("volatile")));
    assert_eq!(profile["survives"]["holder_pause"], json!(true));
    assert_eq!(profile["warnings"], json!([]));
    assert_eq!(written(&Guarantee::HolderCrash), json!("holder_crash"));
}

#[test]
fn words_are_written_in_snake_case() {
    assert_eq!(written(&TicketState::Waiting), json!("waiting"));
    assert_eq!(written(&EventKind::Served), json!("served"));
    assert_eq!(written(&Loss::HeldTooLong), json!("held_too_long"));
    assert_eq!(written(&LeaveOutcome::Requested), json!("requested"));
    assert_eq!(written(&ErrorKind::Unavailable), json!("unavailable"));
    assert_eq!(written(&Reason::LineFull), json!("line_full"));
}

#[test]
fn a_warning_is_written() {
    block_on(async {
        let locks = Locks::new(Memory::new());
        let guard = locks.mutex("a").lock().await.unwrap();
        let warned = guard.warned();
        guard.release().await.unwrap();
        let warning = written(&warned.await);
        assert_eq!(warning, json!({"failed": 0, "remaining": {"secs": 0, "nanos": 0}}));
    });
}
