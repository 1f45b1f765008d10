//! The words of the contract: what they promise by themselves, without an engine.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tenure_core::event::{Event, EventKind, Scope};
use tenure_core::{
    ErrorKind, EventDelivery, FaultTolerance, Guarantee, Guarantees, Key, Liveness, Locks, Memory,
    NOTE_BYTES_MAX, NUMBER_MAX, OWNER_BYTES_MAX, Result, Share, Stale, Ticket, TicketId,
    TokenDurability, blocking::block_on, errors,
};

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn is_invalid<T>(outcome: Result<T>) {
    assert_eq!(outcome.map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_number_fits_into_a_double() {
    assert_eq!(NUMBER_MAX, 9_007_199_254_740_991);
}

#[test]
fn a_key_is_found_by_its_text() {
    let known = HashMap::from([(key("a"), 1)]);
    assert_eq!((known.get("a"), known.get("b")), (Some(&1), None));
    assert_eq!(key("a").to_string(), "a");
}

#[test]
fn attempts_have_their_own_bits_and_leave_the_others_as_they_are() {
    let id = TicketId::from_u128(u128::MAX);
    assert_eq!(id.whole().to_u128(), u128::MAX ^ (0xf_ffff << 44));
    assert_eq!(id.attempt(0), id.whole());
    assert_eq!(id.attempt(0xf_ffff), id);
    assert_eq!(
        id.attempt(0x10_0001).to_u128(),
        id.attempt(1).to_u128(),
        "a million, and then anew"
    );
    assert_eq!(format!("{:?}", TicketId::from_u128(0xab)), "000000000000000000000000000000ab");
}

#[test]
fn an_owner_and_a_note_have_so_many_bytes() {
    let ticket = || Ticket::new(key("a"), Share::WHOLE);
    let long = |bytes: usize| "x".repeat(bytes);
    assert_eq!(&*ticket().with_owner("worker-7").unwrap().owner, "worker-7");
    assert_eq!(&*ticket().with_note("on it").unwrap().note, "on it");
    let full = ticket().with_owner(long(OWNER_BYTES_MAX)).unwrap();
    full.with_note(long(NOTE_BYTES_MAX)).unwrap();
    is_invalid(ticket().with_owner(long(OWNER_BYTES_MAX + 1)));
    is_invalid(ticket().with_note(long(NOTE_BYTES_MAX + 1)));

    let locks = Locks::new(Memory::new());
    is_invalid(locks.with_owner(&long(OWNER_BYTES_MAX + 1)));
    is_invalid(block_on(locks.mutex("a").note(long(NOTE_BYTES_MAX + 1)).lock()));
    assert_eq!(block_on(locks.line("a")).unwrap(), []);
}

#[cfg(unix)]
#[test]
fn an_owner_is_a_process_of_a_machine() {
    let machine = rustix::system::uname();
    let here = format!("[{}]@{}", std::process::id(), machine.nodename().to_string_lossy());
    let owner = Ticket::new(key("a"), Share::WHOLE).owner;
    assert!(owner.ends_with(&here), "{owner}");
}

#[test]
fn a_scope_is_a_key_or_what_begins_alike() {
    let covers = |scope: &Scope| ["a", "ab", "b"].map(|text| scope.covers(&key(text)));
    assert_eq!(covers(&Scope::Key(key("a"))), [true, false, false]);
    assert_eq!(covers(&Scope::Prefix("a".to_owned())), [true, true, false]);
    assert_eq!(covers(&Scope::Prefix(String::new())), [true, true, true]);
}

#[test]
fn an_event_has_a_time_by_the_calendar() {
    let ticket = Ticket::new(key("a"), Share::WHOLE);
    let event = Event::new(EventKind::Left, 1_500_000, ticket, 1);
    assert_eq!(event.at(), SystemTime::UNIX_EPOCH + Duration::from_millis(1500));
}

#[test]
fn a_need_is_met_by_what_promises_it_and_by_nothing_else() {
    /// Adds one guarantee to a store that has none.
    type Promise = fn(&mut Guarantees);
    let needs: [(Guarantee, Promise); 9] = [
        (Guarantee::Fair, |profile| profile.fair = true),
        (Guarantee::Push, |profile| profile.push = true),
        (Guarantee::EveryEvent, |profile| profile.events = EventDelivery::Every),
        (Guarantee::HolderCrash, |profile| profile.survives.holder_crash = true),
        (Guarantee::HolderPause, |profile| profile.survives.holder_pause = true),
        (Guarantee::StoreCrash, |profile| profile.survives.store_crash = true),
        (Guarantee::Failover, |profile| profile.survives.failover = true),
        (Guarantee::ClockStep, |profile| profile.survives.clock_step = true),
        (Guarantee::FullMemory, |profile| profile.survives.full_memory = true),
    ];
    let nothing = || {
        let mut profile = Guarantees::new("nothing", Liveness::Lease);
        (profile.fair, profile.push, profile.events) = (false, false, EventDelivery::Sampled);
        profile.survives = FaultTolerance::default();
        profile.fencing = TokenDurability::None;
        profile
    };
    for (need, promise) in needs {
        let mut profile = nothing();
        assert!(!profile.meets(need) && need.to_string().len() > 10, "{need:?}");
        let refused = profile.require(&[need]).unwrap_err().to_string();
        assert!(refused.contains(&format!("does not promise {need}: ")), "{refused}");
        promise(&mut profile);
        assert!(profile.meets(need), "{need:?}");
        profile.require(&[need]).unwrap();
    }
    let fencing = [TokenDurability::None, TokenDurability::Volatile, TokenDurability::Durable];
    for (given, has) in fencing.into_iter().enumerate() {
        let mut profile = nothing();
        profile.fencing = has;
        let met = fencing.map(|wanted| profile.meets(Guarantee::Fencing(wanted)));
        assert_eq!(met, [true, given >= 1, given >= 2]);
    }
}

#[test]
fn a_refused_share_is_called_by_its_name() {
    let said = |kept: u64, asked: Share| errors::other_capacity(&key("a"), kept, asked).to_string();
    let permits = Share::new(1, 3).unwrap();
    let whole = u64::from(Share::WHOLE.of());
    assert!(said(whole, permits).starts_with(
        "\"a\" is in use as a mutex or reader-writer lock, and was asked for as a semaphore of 3: "
    ));
    assert!(
        said(3, Share::WHOLE)
            .starts_with("\"a\" is in use as a semaphore of 3, and was asked for as a mutex: ")
    );
    assert!(said(3, Share::READER).starts_with(
        "\"a\" is in use as a semaphore of 3, and was asked for as a reader-writer lock: "
    ));
}

#[test]
fn a_stale_token_names_the_newest() {
    let stale = Stale { token: 41, newest: 42 };
    assert_eq!(stale.to_string(), "token 41 is stale: the fence has seen 42");
}
