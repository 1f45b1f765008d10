//! An idle client keeps one connection to one sentinel, which notifies it of a new master.

use std::time::{Duration, Instant};

use tenure_servers::redis::{Client, Sentinels, Server};

use super::stage::{ask, connect, play, until};

/// Longer than two of the questions that an idle client asks its sentinel.
const TWO_PATROLS: Duration = Duration::from_secs(26);

/// Time without a new connection after which the client has made all its connections.
const SETTLED: Duration = Duration::from_secs(3);

/// A connection that asks one server again and again.
struct Onlooker(Client);

impl Onlooker {
    fn of(server: &Server) -> Self {
        Self(server.client().unwrap())
    }

    /// Returns the number of connections that the server has accepted since it was started.
    fn received(&mut self) -> u64 {
        let stats = self.0.command(&["INFO", "stats"]).unwrap();
        stats.field("total_connections_received").unwrap().parse().unwrap()
    }

    /// Returns the idle time of each subscribed connection of this server, in seconds.
    fn listeners(&mut self) -> Vec<u64> {
        let all = self.0.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
        let field = |line: &str, name: &str| {
            let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.unwrap().parse::<u64>().unwrap()
        };
        let listens = all.lines().filter(|line| field(line, "sub") > 0);
        listens.map(|line| field(line, "idle")).collect()
    }
}

#[test]
fn an_idle_client_opens_no_connections() {
    play(async || {
        let set = Sentinels::start().unwrap();
        let locks = connect(set.url()).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        let all = set.sentinels().iter().chain(set.servers());
        let mut all: Vec<_> = all.map(Onlooker::of).collect();
        let received = |all: &mut [Onlooker]| all.iter_mut().map(Onlooker::received).sum::<u64>();
        // Waits until the client has made its connections, and the servers theirs.
        let mut before = 0;
        until("all have met", async || {
            let last = std::mem::replace(&mut before, received(&mut all));
            tokio::time::sleep(SETTLED).await;
            before == last
        })
        .await;

        let (began, mut last, mut questions) = (Instant::now(), 0, 0);
        while began.elapsed() < TWO_PATROLS {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let sentinels = &mut all[..set.sentinels().len()];
            let silent: Vec<_> = sentinels.iter_mut().flat_map(Onlooker::listeners).collect();
            let [now] = silent[..] else { panic!("one sentinel is listened to: {silent:?}") };
            questions += u32::from(now < last);
            last = now;
        }
        let more = received(&mut all) - before;
        println!("{more} connections and {questions} questions in {TWO_PATROLS:?}");
        assert_eq!(more, 0, "connections of a client that does nothing");
        assert!((2..=4).contains(&questions), "{questions} questions");
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_sentinel_that_dies_is_replaced_by_another() {
    play(async || {
        let set = Sentinels::start().unwrap();
        let locks = connect(set.url()).await;
        let listened_to = || {
            let running = set.sentinels().iter().filter(|it| it.pid().is_ok());
            running.filter(|it| !Onlooker::of(it).listeners().is_empty()).collect::<Vec<_>>()
        };
        let first = listened_to()[0];
        first.kill().unwrap();
        until("another sentinel is listened to", async || listened_to().len() == 1).await;
        first.restart().unwrap();
        // The client sends nothing to the master, so only a sentinel can report the new master.
        let master = &set.servers()[0];
        master.freeze().unwrap();
        let (next, began) = (set.next_master(master).unwrap(), Instant::now());
        until("the client listens at the next master", async || {
            let inboxes = ask(next, "PUBSUB CHANNELS tenure:inbox:*");
            inboxes.list().unwrap().len() == 1
        })
        .await;
        println!("it took {:?} to find the next master", began.elapsed());
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_sentinel_that_names_a_dead_master_is_not_believed_for_ever() {
    play(async || {
        let (set, dead) = (Sentinels::start().unwrap(), Server::start().unwrap());
        let wrong = &set.sentinels()[0];
        ask(wrong, "SENTINEL REMOVE tenure");
        ask(wrong, &format!("SENTINEL MONITOR tenure 127.0.0.1 {} 3", dead.port()));
        dead.kill().unwrap();
        let locks = connect(set.url()).await;
        let guard = locks.mutex("a").lock().await.unwrap();
        for kind in ["normal", "pubsub"] {
            ask(&set.servers()[0], &format!("CLIENT KILL TYPE {kind}"));
        }
        until("it is renewed", async || guard.extend().await.is_ok()).await;
    });
}
