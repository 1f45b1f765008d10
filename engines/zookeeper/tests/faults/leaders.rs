//! A leader that was cut off from the other servers and does not know yet that they have elected
//! another one.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Direction, Proxy};
use tenure_core::{Clock as _, Loss, SystemClock};
use tenure_servers::zookeeper::{Ensemble, Role, Server};
use tokio::time::sleep_until;
use zookeeper_client::{Acls, Client, CreateMode};

use super::stage::{PATIENCE, TTL, at_last, configure, play, restart, soon};

/// Time after which a request that a server cannot answer counts as unanswered.
const SILENCE: Duration = Duration::from_secs(1);

/// A leader waits two minutes for silent servers. On a busy machine they need that time to elect
/// another leader.
const SYNC_LIMIT: &str = "syncLimit=240";

/// The proxies between each server and each other one. The first carries the requests to the
/// leader, and the second carries the elections.
struct Between(Vec<(usize, usize, [Proxy; 2])>);

impl Between {
    /// Configures the servers to reach each other through these proxies.
    fn servers_of(ensemble: &Ensemble) -> Self {
        let servers = ensemble.servers();
        let ports = peers(&servers[0]);
        let to = |port| Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let mut all = Vec::new();
        for (from, server) in servers.iter().enumerate() {
            configure(server, &[SYNC_LIMIT]);
            for there in (0..servers.len()).filter(|there| *there != from) {
                let (lead, choose) = ports[there];
                let both = [to(lead), to(choose)];
                let [lead, choose] = both.each_ref().map(Proxy::port);
                configure(server, &[&format!("server.{}=127.0.0.1:{lead}:{choose}", there + 1)]);
                all.push((from, there, both));
            }
        }
        restart(&servers.iter().collect::<Vec<_>>());
        Self(all)
    }

    /// Returns the proxy from a server to the leader.
    fn way(&self, from: &Server, leader: &Server, ensemble: &Ensemble) -> &Proxy {
        let at = |server: &Server| {
            let mut all = ensemble.servers().iter();
            all.position(|other| other.port() == server.port()).unwrap()
        };
        let (from, to) = (at(from), at(leader));
        let way = self.0.iter().find(|way| (way.0, way.1) == (from, to)).unwrap();
        &way.2[0]
    }

    /// Cuts a leader off. It waits for the other servers for a while, and they elect another leader
    /// at once.
    fn cut_off(&self, leader: &Server, ensemble: &Ensemble) {
        let is_leader = |server: &Server| server.port() == leader.port();
        let id = ensemble.servers().iter().position(is_leader).unwrap();
        let its_ways = self.0.iter().filter(|(from, to, _)| id == *from || id == *to);
        for (_, _, [lead, choose]) in its_ways {
            lead.black_hole();
            // Servers that elect another leader need not wait for the old one's vote.
            choose.refuse();
        }
        restart(&others(leader, ensemble));
        assert_eq!(leader.role(), Ok(Role::Leader), "it does not know it");
    }
}

fn others<'a>(leader: &Server, ensemble: &'a Ensemble) -> Vec<&'a Server> {
    ensemble.servers().iter().filter(|server| server.port() != leader.port()).collect()
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Returns the ports between the servers: for the leader's messages, and for elections.
fn peers(server: &Server) -> [(u16, u16); 3] {
    let said = std::fs::read_to_string(server.folder().join("zoo.cfg")).unwrap();
    let port = |text: &str| text.parse().unwrap();
    [1, 2, 3].map(|id| {
        let beginning = format!("server.{id}=127.0.0.1:");
        let ports = said.lines().find_map(|line| line.strip_prefix(&beginning)).unwrap();
        ports.split_once(':').map(|(lead, choose)| (port(lead), port(choose))).unwrap()
    })
}

#[test]
fn who_is_connected_to_a_leader_that_was_cut_off_is_told_before_the_lock_is_given_away() {
    play(3, async |ensemble| {
        let between = Between::servers_of(&ensemble);
        let leader = ensemble.leader().unwrap();
        let here = format!("zookeeper://{}", address(leader));
        let there: Vec<_> = others(leader, &ensemble).into_iter().map(address).collect();
        let there = format!("zookeeper://{}", there.join(","));
        let mine = at_last("it connects", async || tenure_zookeeper::connect(&here).await).await;
        let guard = mine.mutex("k").ttl(TTL).lock().await.unwrap();
        between.cut_off(leader, &ensemble);
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
    play(3, async |ensemble| {
        let between = Between::servers_of(&ensemble);
        let leader = ensemble.leader().unwrap();
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let mut clients = Vec::new();
        for _ in 0..3 {
            let connector = Client::connector().with_session_timeout(PATIENCE);
            clients.push(connector.connect(&address(leader)).await.unwrap());
        }
        clients[0].create("/n", b"", &open).await.unwrap();
        between.cut_off(leader, &ensemble);
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
    play(3, async |ensemble| {
        for server in ensemble.servers() {
            // Servers that find no leader look for another one after six seconds.
            configure(server, &["tickTime=2000", "minSessionTimeout=2000", "initLimit=3"]);
        }
        let between = Between::servers_of(&ensemble);
        let (follower, leader) = (ensemble.follower().unwrap(), ensemble.leader().unwrap());
        let to_follower = SocketAddr::from((Ipv4Addr::LOCALHOST, follower.port()));
        let proxy = Proxy::to(to_follower).unwrap();
        let here = format!("zookeeper://127.0.0.1:{}", proxy.port());
        let there = format!("zookeeper://{}", address(leader));
        let way = between.way(follower, leader, &ensemble);
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
