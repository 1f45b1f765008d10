//! The proxy between clients and a small server that speaks the protocol of Redis.

#[path = "proxy/ends.rs"]
mod ends;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use ends::{Client, END, FOREVER, PATIENCE, Redis, Server, framed, soon};
use tenure_conformance::fault::{Act, Direction, Match, Protocol, Proxy, Rule};

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let server = Server::start();
    let proxy = server.proxy();
    let (mut one, mut other) = (Client::of(&proxy), Client::of(&proxy));
    assert_eq!(one.ask("INCR a"), "1");
    assert_eq!(other.ask("incr a"), "ERR what?");
    assert_eq!(other.ask("INCR a"), "2");
    other.say_bytes(&[framed("GET a"), framed("ECHO b")].concat());
    assert_eq!([other.hear(), other.hear()], ["2", "b"]);
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.requests, counts.ended), (2, 5, 0));
    assert_eq!((counts.of("INCR"), counts.of("GET"), counts.of("SET")), (3, 1, 0));
    let said = ["INCR a", "incr a", "INCR a", "GET a", "ECHO b"].map(|words| framed(words).len());
    assert_eq!(counts.bytes_to_server, said.iter().sum::<usize>() as u64);
    assert_eq!(counts.bytes_to_clients, ":1\r\n-ERR what?\r\n:2\r\n:2\r\n$1\r\nb\r\n".len() as u64);
    proxy.reset_counts();
    assert_eq!(one.ask("GET a"), "2");
    assert_eq!((proxy.counts().requests, proxy.counts().connections), (1, 0));
}

#[test]
fn a_request_may_come_in_parts() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    let rule = proxy.on(Match::request_containing("abc"), Act::CutAfter);
    let asked = framed("INCR abc");
    let (length, sent) = (asked.len(), |bytes: &[u8]| client.say_bytes(bytes));
    for end in 1..length {
        sent(&asked[end - 1..end]);
    }
    assert_eq!(proxy.counts().requests, 0);
    sent(&asked[length - 1..]);
    assert_eq!(client.hear(), END);
    assert!(rule.is_hit());
}

#[test]
fn any_protocol_passes_as_bytes() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).expect("a port is free");
    let mut client = Client::of(&proxy);
    assert_eq!(client.ask("INCR a"), "1");
    let rule = proxy.on(Match::request_containing("INCR"), Act::CutAfter);
    assert_eq!(client.ask("INCR a"), END);
    assert!(rule.wait_until_hit(PATIENCE));
    assert_eq!(server.done().len(), 2);
}

#[test]
fn delayed_bytes_come_later() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    proxy.delay(FOREVER);
    client.say("INCR a");
    assert!(proxy.wait_until(PATIENCE, |counts| counts.requests == 1));
    server.is_asked_much();
    assert!(server.done().is_empty());
    proxy.delay(Duration::from_millis(1));
    assert_eq!(client.hear(), "1");
    proxy.delay(Duration::MAX);
    client.say("INCR a");
    assert!(proxy.wait_until(PATIENCE, |counts| counts.requests == 2));
    proxy.heal();
    assert_eq!(client.hear(), "2");
}

#[test]
fn a_slow_way_lets_little_pass() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    proxy.slow(0);
    let text = "x".repeat(4_000_000);
    client.say(&format!("ECHO {text}"));
    assert!(proxy.wait_until(PATIENCE, |counts| counts.bytes_to_server > 10));
    assert!(proxy.counts().bytes_to_server < 4_000_000);
    proxy.slow(usize::MAX);
    assert!(client.hear() == text, "the whole message has passed");
    proxy.heal();
    assert_eq!(client.ask("ECHO a"), "a");
}

#[test]
fn nothing_passes_a_black_hole_until_it_is_healed() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut old = Client::of(&proxy);
    assert_eq!(old.ask("INCR a"), "1");
    proxy.black_hole();
    let mut new = Client::of(&proxy);
    old.say("INCR a");
    new.say("INCR b");
    assert!(proxy.wait_until(PATIENCE, |counts| (counts.connections, counts.requests) == (2, 2)));
    server.is_asked_much();
    old.has_nothing();
    new.has_nothing();
    assert_eq!((server.done().len(), proxy.counts().requests), (1, 2));
    proxy.heal();
    assert_eq!([old.hear(), new.hear()], ["2", "1"]);
}

#[test]
fn not_even_an_end_passes_a_black_hole() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    assert_eq!(client.ask("INCR a"), "1");
    proxy.black_hole();
    client.say("INCR a");
    drop(client);
    assert!(proxy.wait_until(PATIENCE, |counts| counts.requests == 2));
    server.is_asked_much();
    assert_eq!(proxy.counts().ended, 0);
    proxy.heal();
    assert!(proxy.wait_until(PATIENCE, |counts| counts.ended == 1));
    server.has_done(2);
}

#[test]
fn one_way_may_be_black_alone() {
    let server = Server::start();
    let proxy = server.proxy();
    proxy.black_hole_for(Direction::Replies);
    let mut client = Client::of(&proxy);
    client.say("INCR a");
    server.has_done(1);
    server.is_asked_much();
    client.has_nothing();
    proxy.heal();
    assert_eq!(client.hear(), "1");
    proxy.black_hole_for(Direction::Requests);
    client.say("INCR a");
    assert!(proxy.wait_until(PATIENCE, |counts| counts.requests == 2));
    assert_eq!(server.done().len(), 1);
    proxy.cut();
    proxy.heal();
    assert_eq!(client.hear(), END);
    assert_eq!(Client::of(&proxy).ask("GET a"), "1");
}

#[test]
fn a_cut_ends_all_that_is_connected() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut old = Client::of(&proxy);
    assert_eq!(old.ask("INCR a"), "1");
    for cut in [Proxy::cut, Proxy::reset] {
        let mut unknown = [0; 20].map(|_| Client::of(&proxy));
        cut(&proxy);
        assert!(unknown.iter_mut().all(|client| client.ask("INCR a") == END));
        assert_eq!(old.hear(), END);
        assert_eq!(proxy.counts().connections, proxy.counts().ended);
        old = Client::of(&proxy);
        assert_eq!(old.ask("GET a"), "1");
    }
}

#[cfg(unix)]
#[test]
fn a_reset_is_an_error_and_wakes_a_writer() {
    let server = Server::start();
    let proxy = server.proxy();
    let (mut idle, busy) = (Client::of(&proxy), Client::of(&proxy));
    assert_eq!(idle.ask("INCR a"), "1");
    // No client reads these replies, so the proxy blocks in a write.
    let asked = framed(&format!("ECHO {}", "x".repeat(1_000_000)));
    for _ in 0..32 {
        busy.say_bytes(&asked);
    }
    server.has_done(2);
    proxy.reset();
    let heard = idle.0.get_ref().read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::ConnectionReset));
    drop(proxy);
}

#[test]
fn new_connections_are_refused() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut old = Client::of(&proxy);
    proxy.refuse();
    assert_eq!(Client::of(&proxy).ask("INCR a"), END);
    assert_eq!(old.ask("INCR a"), "1");
    proxy.heal();
    assert_eq!(Client::of(&proxy).ask("INCR a"), "2");
    assert_eq!(proxy.counts().connections, 2);
}

#[test]
fn a_request_is_cut_before_it_is_done() {
    let server = Server::start();
    let proxy = server.proxy();
    let (mut one, mut other) = (Client::of(&proxy), Client::of(&proxy));
    let rule = proxy.on(Match::request_containing(b"INCR").nth(3), Act::CutBefore);
    assert_eq!(one.ask("INCR a"), "1");
    assert_eq!(other.ask("INCR a"), "2");
    assert!(!rule.is_hit());
    one.say_bytes(&[framed("ECHO b"), framed("INCR a"), framed("GET a")].concat());
    while one.hear() != END {}
    assert!(rule.wait_until_hit(PATIENCE));
    assert_eq!(other.ask("INCR a"), "3");
    soon("what came before is done", || server.done().contains(&"ECHO b".into()));
    assert!(!server.done().contains(&"GET a".into()));
    assert_eq!(proxy.counts().of("GET"), 0);
}

#[test]
fn a_reply_is_cut_after_the_request_is_done() {
    let server = Server::start();
    let proxy = server.proxy();
    let sha = "6b1bf486c81ceb7edf3c093f4b48582e38c0e791";
    let rule = proxy.on(Match::request_containing(sha), Act::CutAfter);
    let mut client = Client::of(&proxy);
    let all = ["INCR a", &format!("EVALSHA {sha} 1 a"), "INCR a"].map(framed).concat();
    client.say_bytes(&all);
    assert_eq!([client.hear(), client.hear()], ["1", END]);
    assert!(rule.wait_until_hit(PATIENCE));
    assert_eq!(server.done().len(), 2, "and nothing after it");
    assert_eq!(Client::of(&proxy).ask(&format!("EVALSHA {sha} 1 a")), "3");
}

#[test]
fn a_cut_waits_for_the_servers_reply() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    let rule = proxy.on(Match::request_containing("INCR"), Act::CutAfter);
    let busy = server.state.lock().expect("no test panics under this lock");
    client.say("INCR a");
    assert!(proxy.wait_until(PATIENCE, |counts| counts.bytes_to_server > 0));
    client.has_nothing();
    assert!(!rule.is_hit());
    drop(busy);
    assert!(rule.wait_until_hit(PATIENCE));
    assert_eq!(client.hear(), END);
    assert_eq!(server.done().len(), 1);
}

#[test]
fn a_push_is_no_reply() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    assert_eq!(client.ask("SUBSCRIBE c"), "subscribe c 1");
    let rule = proxy.on(Match::request_containing("PUBLISH"), Act::CutAfter);
    assert_eq!(client.ask("PUBLISH news"), "message news");
    assert_eq!(client.hear(), END);
    assert!(rule.is_hit());
    assert_eq!(proxy.counts().pushes, 1);
}

#[test]
fn a_held_reply_holds_the_bytes_behind_it() {
    let server = Server::start();
    let proxy = server.proxy();
    let (mut one, mut other) = (Client::of(&proxy), Client::of(&proxy));
    let rule = proxy.on(Match::request_containing("SUBSCRIBE"), Act::HoldReply);
    one.say_bytes(&[framed("SUBSCRIBE c"), framed("GET a")].concat());
    assert!(rule.wait_until_hit(PATIENCE));
    server.has_done(2);
    assert_eq!(other.ask("PUBLISH news"), "1");
    assert!(proxy.wait_until(PATIENCE, |counts| counts.pushes == 1));
    proxy.heal();
    server.is_asked_much();
    one.has_nothing();
    rule.release();
    let heard = [one.hear(), one.hear(), one.hear()];
    assert_eq!(heard, ["subscribe c 1", "0", "message news"]);
}

#[test]
fn a_late_reply_delays_the_bytes_behind_it() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    let soon = proxy.on(Match::request_containing("a"), Act::Delay(Duration::from_millis(1)));
    let late = proxy.on(Match::request_containing("b"), Act::Delay(FOREVER));
    assert_eq!(client.ask("ECHO a"), "a");
    assert!(soon.is_hit() && !late.is_hit());
    client.say_bytes(&[framed("ECHO b"), framed("ECHO c")].concat());
    assert!(late.wait_until_hit(PATIENCE));
    server.has_done(3);
    assert_eq!(Client::of(&proxy).ask("ECHO b"), "b");
    client.has_nothing();
}

#[test]
fn of_two_rules_for_one_request_the_second_takes_the_next() {
    let server = Server::start();
    let proxy = server.proxy();
    let rules =
        [1, 1].map(|nth| proxy.on(Match::request_containing("INCR").nth(nth), Act::CutBefore));
    for hit in [[true, false], [true, true]] {
        assert_eq!(Client::of(&proxy).ask("INCR a"), END);
        soon("they are hit in turn", || rules.each_ref().map(Rule::is_hit) == hit);
    }
    assert_eq!(Client::of(&proxy).ask("INCR a"), "1");
}

#[test]
fn garbage_passes_as_bytes() {
    let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = echo.local_addr().expect("the socket has an address");
    let proxy = Proxy::to(address).expect("a port is free").speaking(Protocol::Resp);
    let client = TcpStream::connect(proxy.address()).expect("the proxy accepts");
    let (mut far, _) = echo.accept().expect("the proxy connects");
    for end in [&client, &far] {
        end.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    }
    let mut bytes = [0; 12];
    for (mut from, mut to) in [(&client, &far), (&far, &client)] {
        from.write_all(b"\x16\x03\x01\0$x\r\n*-7\r").expect("the proxy reads");
        to.read_exact(&mut bytes).expect("the proxy writes");
        assert_eq!(&bytes, b"\x16\x03\x01\0$x\r\n*-7\r");
    }
    far.shutdown(Shutdown::Write).expect("the socket is open");
    assert_eq!((&client).read(&mut bytes).ok(), Some(0));
    assert_eq!(far.read(&mut bytes).ok(), Some(0));
}

#[test]
fn half_an_end_is_an_end_and_the_proxy_goes_on() {
    let server = Server::start();
    let proxy = server.proxy();
    let mut client = Client::of(&proxy);
    client.say_bytes(&[framed("INCR a"), b"*1".to_vec()].concat());
    client.0.get_ref().shutdown(Shutdown::Write).expect("the socket is open");
    while client.hear() != END {}
    server.has_done(1);
    assert_eq!(Client::of(&proxy).ask("QUIT"), END);
    assert!(proxy.wait_until(PATIENCE, |counts| counts.ended == 2));
    assert_eq!(Client::of(&proxy).ask("GET a"), "1");
}

#[test]
fn an_absent_server_is_an_end() {
    let absent = (Ipv4Addr::LOCALHOST, 0).into();
    let proxy = Proxy::to(absent).expect("a port is free");
    assert_eq!(Client::of(&proxy).ask("INCR a"), END);
    assert!(proxy.wait_until(PATIENCE, |counts| counts.ended == 1));
}

#[test]
fn everything_ends_with_the_proxy() {
    let server = Server::start();
    let proxy = server.proxy();
    let rule = proxy.on(Match::request_containing("INCR"), Act::HoldReply);
    let never = proxy.on(Match::request_containing("GET"), Act::CutBefore);
    let mut clients = [0; 9].map(|_| Client::of(&proxy));
    clients[0].say("INCR a");
    assert!(rule.wait_until_hit(PATIENCE));
    proxy.black_hole();
    clients[1].say("INCR a");
    drop(proxy);
    assert!(clients.iter_mut().all(|client| client.hear() == END));
    assert!(!never.wait_until_hit(FOREVER), "no rule of a dropped proxy is waited for");
}

#[test]
fn a_real_server_is_understood() {
    let Some(redis) = Redis::start() else {
        println!("SKIPPED: there is no redis-server on the PATH");
        return;
    };
    for version in ["2", "3"] {
        let proxy = Proxy::to(redis.1).expect("a port is free").speaking(Protocol::Resp);
        let (mut one, mut other) = (Client::of(&proxy), Client::of(&proxy));
        let rule = proxy.on(Match::request_containing("UNSUBSCRIBE"), Act::HoldReply);
        let cut = proxy.on(Match::request_containing("INCR").nth(2), Act::CutAfter);
        assert!(one.ask(&format!("HELLO {version}")).contains("redis"));
        assert_eq!(one.ask("SUBSCRIBE c"), "subscribe c 1");
        assert_eq!(other.ask("PUBLISH c news"), "1");
        assert_eq!(one.hear(), "message c news");
        one.say("UNSUBSCRIBE c");
        assert!(rule.wait_until_hit(PATIENCE));
        one.has_nothing();
        rule.release();
        assert_eq!(one.hear(), "unsubscribe c 0");
        let key = format!("k{version}");
        assert_eq!(one.ask(&format!("INCR {key}")), "1");
        assert_eq!(one.ask(&format!("INCR {key}")), END);
        assert!(cut.is_hit());
        assert_eq!(other.ask(&format!("GET {key}")), "2");
        assert_eq!((proxy.counts().pushes, proxy.counts().of("HELLO")), (1, 1));
    }
}
