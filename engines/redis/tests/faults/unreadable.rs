//! Keys that this version of Tenure cannot read, because a later version or a stranger wrote them.
//! The engine does not know who may hold there, so it admits no ticket. It derives no number from a
//! value that is not a number.

use tenure_core::toolbox::known_keys;
use tenure_core::{Engine as _, ErrorKind, LeaveMode, WaitMode, WatchEvent, Window};
use tenure_servers::redis::Server;

use super::stage::{LONG, ask, assert_refused, connect, head, play, soon, store, ticket};

#[test]
fn nobody_is_let_in_over_a_head_that_cannot_be_read() {
    play(async || {
        let server = Server::start().unwrap();
        let mut client = server.client().unwrap();
        // A head begins with a number, and the letter behind it names its kind.
        let number = |number: f64| number.to_le_bytes().to_vec();
        let with = |kind: &[u8]| [number(7.0), kind.to_vec()].concat();
        let cases = [
            ("another kind", with(b"x and what a later version keeps there")),
            ("nothing", Vec::new()),
            ("a number cut short", b"1234567".to_vec()),
            ("a ticket cut short", with(b"a0123456789abcdef")),
            ("a mutex cut short", with(b"m012345")),
            ("a full line cut short", with(b"f012345")),
            ("what is none", number(f64::NAN)),
            ("a number without end", number(f64::INFINITY)),
            ("a number below none", number(-7.0)),
            ("half a number", number(7.5)),
        ];
        let mut faults = Vec::new();
        for (at, (what, bytes)) in cases.iter().enumerate() {
            let key = format!("k{at}");
            client.command(&[b"SET".as_slice(), head(&key).as_bytes(), bytes]).unwrap();
            for patience in [WaitMode::NoWait, WaitMode::Wait] {
                let store = store(&server.url()).await;
                let joined = store.join(&ticket(&key, LONG), patience).await;
                assert_refused(joined, ErrorKind::Rejected, &["cannot be read"]);
            }
            let length = client.command(&["STRLEN", &head(&key)]).unwrap().integer().unwrap();
            if usize::try_from(length).unwrap() != bytes.len() {
                faults.push(format!("{what}: it is {length} long now"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}

#[test]
fn a_sequence_whose_number_is_none_gives_no_number_again() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let name = head("a") + ":n";
        for value in [
            "",
            "007",
            "00",
            "rubbish",
            "-5",
            "1.5",
            "1e3",
            "0x10",
            "nan",
            " 7",
            "99999999999999999999",
        ] {
            server.command(&["SET", &name, value]).unwrap();
            for _ in 0..2 {
                let told = ["a stored number cannot be read", &name];
                assert_refused(locks.sequence("a").next().await, ErrorKind::Rejected, &told);
                assert_refused(locks.sequence("a").last().await, ErrorKind::Rejected, &told);
            }
            assert_eq!(server.command(&["GET", &name]).unwrap().text().unwrap(), value);
        }
        server.command(&["SET", &name, "7"]).unwrap();
        assert_eq!(locks.sequence("a").next().await.unwrap(), 8);
    });
}

#[test]
fn whoever_leaves_or_looks_is_told_of_which_key_it_is() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let ticket = ticket("a", LONG);
        server.command(&["SET", &head("a"), "1234567xx"]).unwrap();
        let told = ["cannot be read", "\"a\"", &head("a")];
        for how in [LeaveMode::Now, LeaveMode::Graceful] {
            assert_refused(store.leave(&ticket, how).await, ErrorKind::Rejected, &told);
        }
        assert_refused(store.renew(&ticket).await, ErrorKind::Rejected, &told);
        assert_refused(store.line(&ticket.key).await, ErrorKind::Rejected, &told);
        let window = Window { per: LONG, limit: None };
        for number in ["rubbish", "007"] {
            server.command(&["SET", &(head("a") + ":c"), number]).unwrap();
            let counted = store.add(&ticket.key, 1, Some(window)).await;
            let told = [
                "a stored number cannot be read",
                "\"a\"",
                &(head("a") + ":c"),
                "delete that name, and the count",
            ];
            assert_refused(counted, ErrorKind::Rejected, &told);
        }
        server.command(&["DEL", &(head("a") + ":c")]).unwrap();
        let counted = store.add(&ticket.key, 1, Some(window)).await.unwrap();
        assert_eq!(counted.value, 1);
    });
}

#[test]
fn a_value_of_another_type_is_told_with_the_lock_and_its_names() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let ticket = ticket("a", LONG);
        let window = Window { per: LONG, limit: None };
        for name in [head("a"), head("a") + ":n", head("a") + ":c"] {
            server.command(&["HSET", &name, "field", "value"]).unwrap();
        }
        let told =
            ["not Tenure's", "`prefix`", "\"a\"", &head("a"), "when no client holds the lock"];
        assert_refused(store.line(&ticket.key).await, ErrorKind::Rejected, &told);
        assert_refused(store.leave(&ticket, LeaveMode::Now).await, ErrorKind::Rejected, &told);
        for window in [None, Some(window)] {
            assert_refused(store.add(&ticket.key, 1, window).await, ErrorKind::Rejected, &told);
        }
        assert_refused(store.join(&ticket, WaitMode::Wait).await, ErrorKind::Rejected, &told);
    });
}

#[test]
fn a_listing_reports_what_cannot_be_read_and_shows_the_others() {
    play(async || {
        let server = Server::start().unwrap();
        let mut client = server.client().unwrap();
        let store = store(&server.url()).await;
        for key in ["alone", "many", "many"] {
            store.join(&ticket(key, LONG), WaitMode::Wait).await.unwrap();
        }
        let keys = async || {
            let (keys, error) = known_keys(store.keys("").await).unwrap();
            let keys = keys.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>();
            (keys, error.map_or(String::new(), |error| error.to_string()))
        };
        // Without a lease, it would be an empty line.
        let body = [&[0; 8], &b"a"[..], &[255; 80]].concat();
        let strange: [&[&[u8]]; 7] = [
            &[b"SET", b"a later version's", b"1234567\0x and what a later version keeps there"],
            &[b"SET", b"short", b"12"],
            &[b"SET", b"a mutex cut short", b"1234567\0m1234"],
            &[b"SET", b"a ticket cut short", b"1234567\0a0123456789abcdef"],
            &[b"HSET", b"a hash", b"a", b"b"],
            &[b"SET", b"a stranger's body", &body, b"PX", b"100000000"],
            &[b"ZADD", b"a sorted set", b"1", b"a"],
        ];
        for words in strange {
            let name = head(std::str::from_utf8(words[1]).unwrap());
            let words = [&[words[0], name.as_bytes()], &words[2..]].concat();
            client.command(&words).unwrap();
            let (known, error) = keys().await;
            assert_eq!(known, ["alone", "many"], "{name}");
            assert!(error.contains("cannot read") && error.contains(&name), "{error}");
            client.command(&[b"DEL", name.as_bytes()]).unwrap();
            assert_eq!(keys().await, (known, String::new()), "{name}");
        }
        // No version of Tenure writes a name that is not UTF-8.
        let mut name = head("k").into_bytes();
        name.insert(name.len() - 1, 0xff);
        client.command(&[b"SET", &name[..], b"12"]).unwrap();
        let (known, error) = keys().await;
        let shown = String::from_utf8_lossy(&name);
        assert!(known == ["alone", "many"] && error.contains(&*shown), "{known:?} {error}");
        client.command(&[b"DEL", &name[..]]).unwrap();
        // An unreadable part of a line hides that line alone.
        for part in [":l", ":e", ":t"] {
            let name = head("many") + part;
            client.command(&["DEL", &name]).unwrap();
            client.command(&["SET", &name, "x"]).unwrap();
            assert!(keys().await.0.contains(&"alone".to_owned()), "{part}");
        }
    });
}

#[test]
fn an_unreadable_head_hides_the_events_of_no_other_line() {
    play(async || {
        let server = Server::start().unwrap();
        server.command(&["SET", &head("unreadable"), "1234567xx"]).unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let mut watch = locks.watch_prefix("").await.unwrap();
        let held = other.mutex("a").lock().await.unwrap();
        let event = soon("the lock is seen", watch.next()).await.unwrap();
        assert!(matches!(event, WatchEvent::Event(event) if event.ticket.key.as_str() == "a"));
        held.release().await.unwrap();
    });
}

#[test]
fn a_server_that_was_made_a_replica_says_that_first() {
    play(async || {
        let (server, gone) = (Server::start().unwrap(), Server::start().unwrap());
        // Each client learns of the change by its first request.
        let mut stores = Vec::new();
        for _ in 0..6 {
            let store = store(&server.url()).await;
            assert!(store.line(&ticket("other", LONG).key).await.unwrap().is_empty());
            stores.push(store);
        }
        let mut next = || stores.pop().expect("there are enough");
        let ticket = ticket("a", LONG);
        server.command(&["SET", &head("a"), "1234567\0x"]).unwrap();
        for part in [":n", ":c"] {
            server.command(&["SET", &(head("a") + part), "rubbish"]).unwrap();
        }
        gone.kill().unwrap();
        ask(&server, &format!("REPLICAOF 127.0.0.1 {}", gone.port()));
        // Its data may be older than its master's, or be left over from another data set.
        let told = ["is a replica"];
        for patience in [WaitMode::NoWait, WaitMode::Wait] {
            assert_refused(next().join(&ticket, patience).await, ErrorKind::Unavailable, &told);
        }
        assert_refused(next().renew(&ticket).await, ErrorKind::Unavailable, &told);
        assert_refused(next().leave(&ticket, LeaveMode::Now).await, ErrorKind::Unavailable, &told);
        let window = Window { per: LONG, limit: None };
        for window in [None, Some(window)] {
            let counted = next().add(&ticket.key, 1, window).await;
            assert_refused(counted, ErrorKind::Unavailable, &told);
        }
    });
}
