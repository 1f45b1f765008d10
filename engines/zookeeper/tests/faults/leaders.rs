//! A leader that was cut off from the other servers and does not know yet that they have elected
//! another one.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Direction, Proxy};
use tenure_core::{Clock as _, Loss, SystemClock};
use tenure_servers::zookeeper::{Ensemble, Role, Server};
use tokio::time::sleep_until;
use zookeeper_client::{Acls, Client, CreateMode};

use super::stage::{PATIENCE, TTL, at_last, play_on, restart, soon, zxid};

/// Time after which a request that a server cannot answer counts as unanswered.
const SILENCE: Duration = Duration::from_secs(1);

/// A leader waits two minutes for silent servers. On a busy machine they need that time to elect
/// another leader.
const SYNC_LIMIT: &str = "syncLimit=240";

/// The proxies between the leader and each of its followers. The first carries the requests, and
/// the second carries the elections.
struct Between(Vec<(u16, [Proxy; 2])>);

impl Between {
    /// Makes the followers reach their leader through proxies.
    ///
    /// The way between the followers stays as it is: a proxy accepts a connection to a server that
    /// does not listen yet. A new follower would take its end for the end of its new leader, and
    /// ask for another election, while that leader waits for it until `initLimit`.
    fn leader_and_followers(ensemble: &Ensemble) -> Self {
        let leader = ensemble.leader().unwrap();
        let name = own_line(leader);
        let to = |port| Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let followers = others(leader, ensemble).into_iter().map(|follower| {
            let both = peer_ports(leader).map(to);
            let [lead, choose] = both.each_ref().map(Proxy::port);
            configure(follower, &format!("{name}=127.0.0.1:{lead}:{choose}"));
            // One after the other: the leader keeps its majority.
            follower.kill().unwrap();
            follower.restart().unwrap();
            (follower.port(), both)
        });
        Self(followers.collect())
    }

    /// Returns the proxy from a follower to the leader.
    fn way(&self, from: &Server) -> &Proxy {
        let way = self.0.iter().find(|way| way.0 == from.port());
        &way.expect("it is a follower").1[0]
    }

    /// Cuts a leader off. It waits for the other servers for a while, and they elect another leader
    /// at once. All requests to it pass through `clients`.
    ///
    /// All servers have the same transactions then. Otherwise a new follower gets the last one from
    /// the new leader, and acknowledges it beside the leadership. On a busy machine the two change
    /// places, and the leader gives up after `initLimit` (ZOOKEEPER-4685).
    fn cut_off(&self, leader: &Server, ensemble: &Ensemble, clients: &Proxy) {
        clients.black_hole_for(Direction::Requests);
        let began = Instant::now();
        while ensemble.servers().iter().any(|server| zxid(server) != zxid(leader)) {
            assert!(began.elapsed() < PATIENCE, "a follower stays behind");
        }
        for (_, [lead, choose]) in &self.0 {
            lead.black_hole();
            // Servers that elect another leader need not wait for the old one's vote.
            choose.refuse();
        }
        clients.heal();
        restart(&others(leader, ensemble));
        assert_eq!(leader.role(), Ok(Role::Leader), "it does not know it");
    }
}

fn others<'a>(leader: &Server, ensemble: &'a Ensemble) -> Vec<&'a Server> {
    ensemble.servers().iter().filter(|server| server.port() != leader.port()).collect()
}

/// Returns a proxy between the clients and a server.
fn clients_of(server: &Server) -> Proxy {
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap()
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Replaces a setting of a server: the last line counts. It takes effect when the server starts.
fn configure(server: &Server, line: &str) {
    let path = server.folder().join("zoo.cfg");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{before}\n{line}\n")).unwrap();
}

/// Returns the name of a server's own line in all configurations.
fn own_line(server: &Server) -> String {
    let id = std::fs::read_to_string(server.folder().join("myid")).unwrap();
    format!("server.{}", id.trim())
}

/// Returns the ports of a server for the others: for a leader's messages, and for elections.
fn peer_ports(server: &Server) -> [u16; 2] {
    let settings = std::fs::read_to_string(server.folder().join("zoo.cfg")).unwrap();
    let beginning = format!("{}=127.0.0.1:", own_line(server));
    let ports = settings.lines().find_map(|line| line.strip_prefix(&beginning)).unwrap();
    let (lead, choose) = ports.split_once(':').unwrap();
    [lead, choose].map(|port| port.parse().unwrap())
}

/// Plays a story on three servers whose leader waits long for the others.
fn play_with(settings: &[&str], story: impl AsyncFnOnce(Ensemble)) {
    let settings: Vec<&str> = settings.iter().copied().chain([SYNC_LIMIT]).collect();
    play_on(|| Ensemble::with_settings(3, &settings), story);
}

#[test]
fn who_is_connected_to_a_leader_that_was_cut_off_is_told_before_the_lock_is_given_away() {
    play_with(&[], async |ensemble| {
        let between = Between::leader_and_followers(&ensemble);
        let leader = ensemble.leader().unwrap();
        let clients = clients_of(leader);
        let here = format!("zookeeper://{}", clients.address());
        let there: Vec<_> = others(leader, &ensemble).into_iter().map(address).collect();
        let there = format!("zookeeper://{}", there.join(","));
        let mine = at_last("it connects", async || tenure_zookeeper::connect(&here).await).await;
        let lock = async || mine.mutex("k").ttl(TTL).lock().await;
        let guard = at_last("it is locked", lock).await;
        between.cut_off(leader, &ensemble, &clients);
        let next = async {
            let other = at_last("it connects", async || tenure_zookeeper::connect(&there).await);
            let mutex = other.await.mutex("k").ttl(TTL);
            let next = at_last("it is served", async || mutex.lock().await).await;
            (next, Instant::now())
        };
        let told = async { (soon("the holder is told", guard.lost()).await, Instant::now()) };
        let ((loss, told), (next, served)) = tokio::join!(told, next);
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        assert!(told < served, "two held for {:?}", told - served);
        println!("told {:?} before the next was served", served - told);
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_leader_that_was_cut_off_answers_a_sync_and_no_write() {
    play_with(&[], async |ensemble| {
        let between = Between::leader_and_followers(&ensemble);
        let leader = ensemble.leader().unwrap();
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let (way, mut clients) = (clients_of(leader), Vec::new());
        for _ in 0..3 {
            let connector = Client::connector().with_session_timeout(PATIENCE);
            clients.push(connector.connect(&way.address().to_string()).await.unwrap());
        }
        clients[0].create("/n", b"", &open).await.unwrap();
        between.cut_off(leader, &ensemble, &way);
        clients[0].sync("/n").await.expect("it answers by itself");
        for (client, path) in clients.iter().zip(["/n", "/no/such"]) {
            let written = tokio::time::timeout(SILENCE, client.set_data(path, b"", None)).await;
            assert!(written.is_err(), "{path}: {written:?}");
        }
        clients[2].sync("/n").await.expect("it still does");
        assert_eq!(leader.role(), Ok(Role::Leader), "it does not know it");
    });
}

/// The tick of these servers. In each tick, a leader pings its followers twice and looks once for
/// expired sessions.
const LONG_TICK: Duration = Duration::from_secs(2);

#[test]
fn a_sign_of_life_that_travelled_long_is_counted_on_only_when_the_leader_has_heard_of_it() {
    /// Time from a sign of life to the next ping of the leader. The follower receives the sign just
    /// after that ping.
    const BEFORE: Duration = Duration::from_millis(480);
    let (life, every) = (LONG_TICK * 2, LONG_TICK * 2 / 6);
    let before = |moment: Instant, by: Duration| moment.checked_sub(by).unwrap();
    let moment = Duration::from_millis(20);
    // Servers that find no leader look for another one after six seconds.
    let settings = ["tickTime=2000", "minSessionTimeout=2000", "initLimit=3"];
    play_with(&settings, async |ensemble| {
        let between = Between::leader_and_followers(&ensemble);
        let (follower, leader) = (ensemble.follower().unwrap(), ensemble.leader().unwrap());
        let proxy = clients_of(follower);
        let here = format!("zookeeper://127.0.0.1:{}", proxy.port());
        let there = format!("zookeeper://{}", address(leader));
        let way = between.way(follower);
        // A leader that stood still asks as soon as it goes on, and from then on at these moments.
        let begins_anew = before_a_look(asks(way).await + LONG_TICK / 2);
        leader.freeze().unwrap();
        sleep_until(begins_anew.into()).await;
        leader.thaw().unwrap();
        let asked = asks(way).await;
        // The leader receives the sign of life before. It looks for expired sessions soon after the
        // end of the life that begins then.
        let asks = before_a_look(asked + LONG_TICK);
        let mine = at_last("it connects", async || tenure_zookeeper::connect(&here).await).await;
        let other = at_last("it connects", async || tenure_zookeeper::connect(&there).await).await;
        // The second sign of life is the one that travels long.
        let sent = before(asks, BEFORE);
        sleep_until(before(sent, every * 2).into()).await;
        let guard = mine.mutex("k").ttl(life).manual_renewal().lock().await.unwrap();
        let waiter = other.mutex("k").ttl(TTL * 10);
        let waiter = tokio::spawn(async move { (waiter.lock().await, Instant::now()) });
        sleep_until(before(sent, moment * 3).into()).await;
        proxy.black_hole_for(Direction::Requests);
        sleep_until((asks + moment * 2).into()).await;
        proxy.heal();
        // The next but one is answered before the leader asks again.
        sleep_until((sent + every * 2 + moment * 2).into()).await;
        // On a busy machine the renewal may be too late. It fails then, and the test shows nothing.
        let _ = guard.extend().await;
        follower.kill().unwrap();
        let told = async { (guard.lost().await, Instant::now()) };
        let ((_, told), next) = tokio::join!(told, waiter);
        let (next, served) = next.unwrap();
        assert!(told < served, "two held for {:?}", told - served);
        println!("told {:?} before the next was served", served - told);
        assert!(next.unwrap().token() > guard.token());
    });
}

/// Returns the next moment at which a ping of the leader leaves little time to a session. A session
/// of two ticks that began with the leader's earlier ping ends just before the leader looks. A
/// leader looks once in a tick of its clock, and ends no session sooner.
fn before_a_look(from: Instant) -> Instant {
    const SOON: Duration = Duration::from_millis(150);
    let until = from.saturating_duration_since(Instant::now());
    let ends = SystemClock.now().plus(until + LONG_TICK * 3 / 2 + SOON);
    let tick = u64::try_from(LONG_TICK.as_nanos()).unwrap();
    from + Duration::from_nanos(tick - ends.boot_ns % tick)
}

/// Waits until a leader pings a follower for the second time. The follower gets no other messages.
async fn asks(way: &Proxy) -> Instant {
    for _ in 0..2 {
        let before = way.counts().bytes_to_clients;
        while way.counts().bytes_to_clients == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Instant::now()
}
