//! Records that this version of Tenure cannot read: a later version wrote them, or an operator
//! changed them. It is not known which tickets hold there, so no ticket is served.

use mongodb::bson::{Bson, DateTime};
use tenure_core::{
    Engine as _, ErrorKind, Key, LeaveMode, NUMBER_MAX, Reason, Share, Ticket, TicketState,
    WaitMode, Window,
};
use tenure_servers::mongodb::{Document, Server, doc};

use super::stage::{LONG, ask, connect, join, look_at, play, record, store, ticket};

/// Returns a seat as this version keeps it.
fn seat() -> Document {
    doc! {
        "id": "0123456789abcdef0123456789abcdef", "n": 7_i64, "ends": i64::MAX >> 12, "take": i64::from(Share::WHOLE.of()), "told": false,
        "inbox": "", "ttl_us": 1_000_000_i64, "owner": "o", "note": "",
    }
}

/// The same with another value in one field.
fn seat_with(field: &str, value: impl Into<Bson>) -> Document {
    let mut seat = seat();
    seat.insert(field, value);
    seat
}

/// The same without a field.
fn seat_without(field: &str) -> Document {
    let mut seat = seat();
    seat.remove(field);
    seat
}

/// Writes this in the place of the record of a line.
fn put(server: &Server, key: &str, fields: &Document) {
    let change = doc! { "q": { "_id": record(key) }, "u": fields, "upsert": true };
    ask(server, doc! { "update": "locks", "updates": [change] });
}

/// Returns the only record of the store.
fn only(server: &Server) -> Document {
    let found = ask(server, doc! { "find": "locks", "filter": {} });
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch.len(), 1, "{batch:?}");
    batch[0].as_document().unwrap().clone()
}

/// The numbers of a line.
const NUMBERS: [&str; 5] = ["at", "last", "next_expiry", "of", "step"];

/// Returns values that are none of them.
fn no_numbers() -> [Bson; 5] {
    let of = i64::from(Share::WHOLE.of());
    ["noon".into(), vec![of].into(), (-1_i64).into(), (4e12 + 0.5).into(), i64::MAX.into()]
}

#[test]
fn nobody_is_served_by_a_holder_who_leaves_a_line_that_cannot_be_read() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        let fields = NUMBERS.iter().chain(&["waiting.0.take", "waiting.0.ends"]);
        for (at, field) in fields.enumerate() {
            for (nth, value) in no_numbers().into_iter().enumerate() {
                if *field == "waiting.0.ends" && matches!(value, Bson::Int64(_) | Bson::Double(_)) {
                    // The end of a life may be any number.
                    continue;
                }
                let key = format!("k{at}.{nth}");
                let [held, next] = [(); 2].map(|()| ticket(&key, LONG));
                join(&here, &held).await;
                assert_eq!(join(&there, &next).await.state, TicketState::Waiting);
                put(&server, &key, &doc! { "$set": { *field: &value } });
                let left = here.leave(&held, LeaveMode::Now).await;
                if let Err(error) = &left {
                    assert_eq!(error.kind(), ErrorKind::Rejected, "{field}: {value}: {error}");
                    assert!(error.to_string().contains("cannot be read"), "{field}: {error}");
                }
                // A ticket with a share that is too large waits.
                assert!(left.is_err() || *field == "waiting.0.take", "{field}: {value}");
                let record = look_at(&server, &key).unwrap();
                let holders = record.get_array("held").unwrap();
                let is_next = |seat: &Bson| {
                    seat.as_document().unwrap().get_str("id").unwrap() == next.id.to_string()
                };
                assert!(!holders.iter().any(is_next), "{field}: {value}: {record}");
            }
        }
    });
}

/// A client that left a line empty sends a shorter step first.
#[test]
fn nobody_joins_by_a_short_step_where_a_number_cannot_be_read() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        for (at, field) in NUMBERS.into_iter().enumerate() {
            for (nth, value) in no_numbers().into_iter().enumerate() {
                let key = format!("k{at}.{nth}");
                let [own, next] = [(); 2].map(|()| ticket(&key, LONG));
                assert_eq!(join(&store, &own).await.state, TicketState::Holding);
                store.leave(&own, LeaveMode::Now).await.unwrap();
                put(&server, &key, &doc! { "$set": { field: &value } });
                let joined = store.join(&next, WaitMode::NoWait).await;
                let error = joined.expect_err(&format!("{field}: {value}"));
                assert_eq!(error.kind(), ErrorKind::Rejected, "{field}: {value}: {error}");
                assert!(error.to_string().contains("cannot be read"), "{field}: {error}");
            }
        }
    });
}

/// The take of the second ticket is the first one in the list of takes.
#[test]
fn a_ticket_without_a_share_is_not_served_by_a_short_step() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let [held, next, last] = [(); 3].map(|()| ticket("k", LONG));
        for ticket in [&held, &next, &last] {
            join(&store, ticket).await;
        }
        put(&server, "k", &doc! { "$unset": { "waiting.0.take": "" } });
        let before = look_at(&server, "k");
        let error = store.leave(&held, LeaveMode::Now).await.unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        assert_eq!(look_at(&server, "k"), before);
    });
}

#[test]
fn nobody_is_let_in_beside_tickets_that_cannot_be_read() {
    play(async || {
        let server = Server::start().unwrap();
        let line = |held: Bson| {
            doc! { "key": "k", "of": i64::from(Share::WHOLE.of()), "held": held, "waiting": [], "last": 7_i64, "at": 1_i64, "step": 1_i64 }
        };
        let cases = [
            ("tickets by their ids", line(doc! { "an id": seat() }.into())),
            ("a text", line("somebody".into())),
            ("a number", line(7.into())),
            ("a text for a ticket", line(vec!["somebody"].into())),
            ("no end", line(vec![seat_without("ends")].into())),
            ("an end that is none", line(vec![seat_with("ends", f64::NAN)].into())),
            ("an end of null", line(vec![seat_with("ends", Bson::Null)].into())),
            ("no share", line(vec![seat_without("take")].into())),
            ("a share that is a text", line(vec![seat_with("take", "all")].into())),
            ("a share below none", line(vec![seat_with("take", -1_i64)].into())),
            ("a share that is not whole", line(vec![seat_with("take", 1.5)].into())),
            (
                "no share behind",
                doc! {
                    "key": "k", "of": i64::from(Share::WHOLE.of()), "held": [], "waiting": [seat_without("take")],
                    "last": 7_i64, "at": 1_i64, "step": 1_i64, "next_expiry": i64::MAX >> 12,
                },
            ),
            (
                "a waiting line that is a text",
                doc! { "key": "k", "of": i64::from(Share::WHOLE.of()), "held": [], "waiting": "w" },
            ),
            ("a number too large", doc! { "key": "k", "last": 1e300 }),
            ("a number below none", doc! { "key": "k", "last": -1_i64 }),
            ("an end that is a text", line(vec![seat_with("ends", "noon")].into())),
            ("a date before which none ends that is a text", {
                let mut fields = line(vec![seat()].into());
                fields.insert("next_expiry", "noon");
                fields
            }),
            ("a number that is not whole", doc! { "key": "k", "last": 4e15 + 0.5 }),
            ("a clock that is not whole", doc! { "key": "k", "last": 7_i64, "at": 4e12 + 0.5 }),
            ("numbers in an array", doc! { "key": "k", "last": [7_i64] }),
            ("clocks in an array", doc! { "key": "k", "last": 7_i64, "at": [7_i64] }),
            ("steps that are a text", doc! { "key": "k", "last": 7_i64, "step": "x" }),
            ("a number that is a text", doc! { "key": "k", "last": "7" }),
            ("a number that is a date", doc! { "key": "k", "last": DateTime::MAX }),
            ("a number that is none", doc! { "key": "k", "last": f64::NAN }),
            ("a clock that is a text", doc! { "key": "k", "last": 7_i64, "at": "noon" }),
            ("a clock that is a date", doc! { "key": "k", "last": 7_i64, "at": DateTime::now() }),
            (
                "a capacity that is a text",
                doc! { "key": "k", "of": "1", "held": [seat()], "waiting": [], "last": 7_i64 },
            ),
        ];
        let mut faults = Vec::new();
        for (at, (what, fields)) in cases.iter().enumerate() {
            let key = format!("k{at}");
            put(&server, &key, fields);
            for patience in [WaitMode::NoWait, WaitMode::Wait] {
                let store = store(&server.url()).await;
                match store.join(&ticket(&key, LONG), patience).await {
                    Err(error) => {
                        let said = error.to_string();
                        if error.kind() != ErrorKind::Rejected
                            || !said.contains("cannot be read")
                            || !said.contains(&record(&key))
                        {
                            faults.push(format!("{what}: told by {:?} {said}", error.kind()));
                        }
                    }
                    joined => faults.push(format!("{what}: {patience:?} {joined:?}")),
                }
            }
            let mut kept = look_at(&server, &key).unwrap();
            kept.remove("_id");
            if format!("{kept:?}") != format!("{fields:?}") {
                faults.push(format!("{what}: it is now {kept}"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}

/// The client knows the line, and would send a shorter step.
#[test]
fn nobody_comes_in_behind_the_last_number() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let highest = Ticket { floor: NUMBER_MAX, ..ticket("k", LONG) };
        assert_eq!(join(&store, &highest).await.number, NUMBER_MAX);
        store.leave(&highest, LeaveMode::Now).await.unwrap();
        for _ in 0..2 {
            let error = store.join(&ticket("k", LONG), WaitMode::Wait).await.unwrap_err();
            assert_eq!(error.reason(), Some(Reason::NumbersUsedUp), "{error}");
        }
    });
}

#[test]
fn nobody_comes_in_where_the_clock_leaves_no_number() {
    play(async || {
        let server = Server::start().unwrap();
        let most = i64::try_from(NUMBER_MAX).unwrap();
        for (key, last, at) in [("last", most, 5), ("clock", 5, most / 1000 + 1)] {
            let fields = doc! {
                "key": key, "held": [], "waiting": [], "last": last, "at": at, "step": 1_i64,
            };
            put(&server, key, &fields);
            let store = store(&server.url()).await;
            let joined = store.join(&ticket(key, LONG), WaitMode::NoWait).await;
            let error = joined.expect_err("there is no number");
            assert_eq!(error.reason(), Some(Reason::NumbersUsedUp), "{key}: {error}");
            let kept = look_at(&server, key).unwrap();
            assert!(kept.get_array("held").unwrap().is_empty(), "{key}: {kept}");
        }
    });
}

#[test]
fn a_sequence_whose_number_is_none_gives_no_number_again() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        assert_eq!(locks.sequence("a").next().await.unwrap(), 1);
        let id = only(&server).get_str("_id").unwrap().to_owned();
        let mut faults = Vec::new();
        for value in [
            Bson::Null,
            "7".into(),
            f64::NAN.into(),
            1.5.into(),
            (-5_i64).into(),
            1e300.into(),
            doc! {}.into(),
        ] {
            let change = doc! { "q": { "_id": &id }, "u": { "$set": { "value": value.clone() } } };
            ask(&server, doc! { "update": "locks", "updates": [change] });
            for _ in 0..2 {
                match locks.sequence("a").next().await {
                    Err(error) => {
                        let said = error.to_string();
                        if !said.contains("a stored number cannot be read") || !said.contains(&id) {
                            faults.push(format!("{value}: told by {said}"));
                        }
                    }
                    Ok(number) => faults.push(format!("{value}: {number}")),
                }
            }
            let record = only(&server);
            let kept = record.get("value");
            if format!("{kept:?}") != format!("{:?}", Some(&value)) {
                faults.push(format!("{value}: it is now {kept:?}"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}

#[test]
fn whoever_waits_before_the_record_is_spoiled_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        join(&store, &held).await;
        join(&store, &waits).await;
        let spoil = doc! { "q": { "_id": record("a") }, "u": { "$set": { "held": "somebody" } } };
        ask(&server, doc! { "update": "locks", "updates": [spoil] });
        for ticket in [&held, &waits] {
            let error = store.renew(ticket).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.to_string().contains("cannot be read"), "{error}");
        }
        let error = store.line(&held.key).await.unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    });
}

// A window that ends too soon would admit more than its limit. If its times are not whole numbers,
// no answer can be given.
#[test]
fn a_window_that_cannot_be_read_lets_nobody_in() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let key = Key::new("k").unwrap();
        let window = Some(Window { per: LONG, limit: Some(2) });
        for _ in 0..2 {
            assert!(store.add(&key, 1, window).await.unwrap().allowed);
        }
        let whole = only(&server);
        let cases: [(&str, Bson); 14] = [
            ("per", "an hour".into()),
            ("per", (-5_i64).into()),
            ("per", 0_i64.into()),
            ("per", 0.5.into()),
            ("per", f64::NAN.into()),
            ("per", DateTime::now().into()),
            ("ends", 4e12.into()),
            ("ends", (4e12 + 0.5).into()),
            ("ends", f64::NAN.into()),
            ("ends", (-1_i64).into()),
            ("value", 1.5.into()),
            ("value", "2".into()),
            ("value", Bson::Null),
            ("step", "x".into()),
        ];
        let mut faults = Vec::new();
        for (field, odd) in cases {
            let mut spoilt = whole.clone();
            spoilt.insert(field, odd.clone());
            let change = doc! { "q": { "_id": whole.get("_id").unwrap() }, "u": &spoilt };
            ask(&server, doc! { "update": "locks", "updates": [change] });
            for by in [1, 1, 0] {
                match store.add(&key, by, window).await {
                    Ok(count) if odd == Bson::Double(4e12) && count.value == 2 => {}
                    Err(error) if error.to_string().contains("a stored number cannot be read") => {}
                    other => faults.push(format!("{field} {odd}: {other:?}")),
                }
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}

#[test]
fn whoever_holds_ahead_of_a_ticket_that_cannot_be_read_goes_on_holding() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        for (at, ends) in [f64::NAN.into(), Bson::Null, "noon".into()].into_iter().enumerate() {
            let held = ticket(&format!("k{at}"), LONG);
            join(&store, &held).await;
            // No end is known to be later than this step, so all are checked.
            let spoil = doc! { "$set": { "waiting": [seat_with("ends", ends.clone())], "next_expiry": 0_i64 } };
            let change = doc! { "q": { "_id": record(held.key.as_str()) }, "u": spoil };
            ask(&server, doc! { "update": "locks", "updates": [change] });
            for _ in 0..3 {
                let place =
                    store.renew(&held).await.unwrap_or_else(|error| panic!("{ends}: {error}"));
                assert!(place.is_some_and(|place| place.state == TicketState::Holding), "{ends}");
            }
            let error = store.leave(&held, LeaveMode::Now).await.unwrap_err();
            assert!(error.to_string().contains("cannot be read"), "{ends}: {error}");
        }
    });
}
