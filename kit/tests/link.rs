//! The contract of a link, tested with a server that exists only in these tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::{Error, ErrorKind, Reason, Result};
use tenure_kit::{
    ConnectContext, DisconnectNotifier, Link, LinkPool, Origin, Server, ServerClient,
};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Time limit of an event that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fake server that a test controls.
struct Stand {
    /// Each new connection takes a permit.
    doors: Semaphore,
    opened: AtomicU64,
    is_down: AtomicBool,
    /// Whether the settings are unusable.
    is_misled: AtomicBool,
    panics: AtomicBool,
    /// Whether each connection has an earlier try, which is lost at once.
    tries_twice: AtomicBool,
    lost: Mutex<Vec<DisconnectNotifier>>,
}

/// The number of a connection, in the order in which they were opened.
struct Open(u64);

impl Server for Stand {
    type Open = Open;

    async fn open(&self, opening: &ConnectContext) -> Result<Open> {
        assert!(!self.panics.load(Ordering::Relaxed), "this runtime has no drivers");
        self.doors.acquire().await.unwrap().forget();
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Error::unavailable("it is down"));
        }
        if self.is_misled.load(Ordering::Relaxed) {
            return Err(Error::invalid("a file is gone"));
        }
        if self.tries_twice.load(Ordering::Relaxed) {
            let earlier = opening.lost();
            self.lost.lock().unwrap().push(opening.lost());
            earlier.tell();
        } else {
            self.lost.lock().unwrap().push(opening.lost());
        }
        Ok(Open(self.opened.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Stand {
    fn client() -> Arc<ServerClient<Self>> {
        ServerClient::new(Self {
            doors: Semaphore::new(1000),
            opened: AtomicU64::default(),
            is_down: AtomicBool::default(),
            is_misled: AtomicBool::default(),
            panics: AtomicBool::default(),
            tries_twice: AtomicBool::default(),
            lost: Mutex::default(),
        })
    }

    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn lose_the_last(&self) {
        self.lost.lock().unwrap().last().unwrap().tell();
    }
}

async fn soon<T>(happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens).await.expect("it happens")
}

async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_attempt_serves_all_callers() {
    let client = Stand::client();
    let link = Link::on_demand(client.clone());
    assert_eq!(link.side(), Origin::Caller);
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { link.connection().await.map(|open| open.0) })
        })
        .collect();
    for answer in asked {
        assert_eq!(soon(answer).await.unwrap().unwrap(), 0);
    }
    assert_eq!(client.server().opened(), 1);
}

#[tokio::test]
async fn an_attempt_goes_on_without_callers() {
    let client = Stand::client();
    client.server().doors.forget_permits(1000);
    let link = Link::on_demand(client.clone());
    let asked = tokio::time::timeout(Duration::from_millis(1), link.connection());
    assert!(asked.await.is_err());
    client.server().doors.add_permits(1);
    until(|| link.current().is_some()).await;
}

#[tokio::test]
async fn a_kept_link_reconnects_by_itself_and_another_link_on_demand() {
    let client = Stand::client();
    let kept = Link::kept(client.clone());
    until(|| kept.current().is_some()).await;
    let first = kept.current().unwrap();
    client.server().lose_the_last();
    until(|| kept.current().is_some()).await;
    let second = kept.current().unwrap();
    assert!(second.0 == 1 && second.generation() > first.generation());
    assert!(kept.room(&first).await.is_err() && kept.room(&second).await.is_ok());

    let other = Link::on_demand(client.clone());
    soon(other.connection()).await.unwrap();
    client.server().lose_the_last();
    assert!(other.current().is_none() && client.server().opened() == 3);
    assert_eq!(soon(other.connection()).await.unwrap().0, 3);
}

#[tokio::test]
async fn the_loss_of_an_earlier_try_has_no_effect() {
    let client = Stand::client();
    client.server().tries_twice.store(true, Ordering::Relaxed);
    let link = Link::on_demand(client.clone());
    let open = soon(link.connection()).await.unwrap();
    assert!(link.current().is_some() && link.room(&open).await.is_ok());
    client.server().lose_the_last();
    assert!(link.current().is_none());
}

#[tokio::test]
async fn every_link_leaves_a_server_that_was_replaced() {
    let client = Stand::client();
    let links = [Link::on_demand(client.clone()), Link::on_demand(client.clone())];
    for link in &links {
        soon(link.connection()).await.unwrap();
    }
    links[0].was_replaced(links[0].current().unwrap().generation());
    assert!(links.iter().all(|link| link.current().is_none()));
    for link in &links {
        soon(link.connection()).await.unwrap();
    }
    assert_eq!(client.server().opened(), 4);
}

#[tokio::test]
async fn settings_that_worked_once_are_tried_again() {
    let client = Stand::client();
    let link = Link::on_demand(client.clone());
    client.server().is_misled.store(true, Ordering::Relaxed);
    let error = soon(link.connection()).await.err().unwrap();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, "a file is gone"));
    client.server().is_misled.store(false, Ordering::Relaxed);
    while soon(link.connection()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.server().is_misled.store(true, Ordering::Relaxed);
    client.server().lose_the_last();
    let error = soon(link.connection()).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Unavailable, "a file is gone")
    );
}

#[tokio::test]
async fn callers_do_not_wait_for_a_server_that_is_down() {
    let client = Stand::client();
    let links: Vec<_> = (0..20).map(|_| Link::on_demand(client.clone())).collect();
    client.server().is_down.store(true, Ordering::Relaxed);
    let error = soon(links[0].connection()).await.err().unwrap();
    assert_eq!(error.to_string(), "it is down");
    let doors = client.server().doors.available_permits();
    for link in &links {
        assert_eq!(soon(link.connection()).await.err().unwrap().to_string(), "it is down");
    }
    let tried = doors - client.server().doors.available_permits();
    assert!(tried <= 2, "{tried} attempts were made during the pause");
    client.server().is_down.store(false, Ordering::Relaxed);
    soon(async {
        while links[0].connection().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_panic_bars_the_link_and_nothing_else() {
    let client = Stand::client();
    client.server().panics.store(true, Ordering::Relaxed);
    let link = Link::on_demand(client.clone());
    let error = soon(link.connection()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("the driver panicked") && link.is_barred(), "{error}");
    client.server().panics.store(false, Ordering::Relaxed);
    let other = Link::on_demand(client);
    assert!(soon(other.connection()).await.is_ok() && !other.is_barred());
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_callers_runtime_gets_a_link_for_its_next_call() {
    let (home, caller) = (runtime(), runtime());
    let client = Stand::client();
    let links = home.block_on(async {
        let links = LinkPool::new(Link::kept(client.clone()));
        soon(links.link().connection()).await.unwrap();
        assert!(links.has_link_here());
        links
    });
    assert!(!links.has_link_here(), "this thread has no runtime");
    assert_eq!(links.link().side(), Origin::Home);
    caller.block_on(async {
        assert!(!links.has_link_here(), "it is opened for the next time");
        until(|| links.has_link_here()).await;
        assert_eq!(links.link().side(), Origin::Caller);
    });
    assert_eq!(client.server().opened(), 2);
}

#[test]
fn while_the_home_link_is_lost_no_runtime_gets_a_link() {
    let (home, caller) = (runtime(), runtime());
    let client = Stand::client();
    client.server().doors.forget_permits(1000);
    let links = home.block_on(async { LinkPool::new(Link::kept(client.clone())) });
    caller.block_on(async {
        for _ in 0..3 {
            assert!(!links.has_link_here());
        }
        client.server().doors.add_permits(1);
        until(|| links.link().current().is_some()).await;
        assert!(!links.has_link_here());
        client.server().doors.add_permits(1);
        until(|| links.has_link_here()).await;
    });
}

#[test]
fn runtimes_that_come_and_go_leave_the_home_link_its_attempts() {
    let home = runtime();
    let client = Stand::client();
    let links = home.block_on(async {
        let links = LinkPool::new(Link::kept(client.clone()));
        soon(links.link().connection()).await.unwrap();
        links
    });
    let callers: Vec<Runtime> = (0..20).map(|_| runtime()).collect();
    for caller in &callers {
        let _entered = caller.enter();
        assert!(!links.has_link_here());
    }
    home.block_on(async {
        until(|| client.server().opened() > 4).await;
        client.server().lost.lock().unwrap()[0].tell();
        let again = soon(links.link().connection()).await;
        assert!(again.is_ok(), "{}", again.err().unwrap());
    });
}

#[tokio::test]
async fn a_closed_link_has_no_connection_and_opens_none() {
    let client = Stand::client();
    let link = Link::kept(client.clone());
    until(|| link.current().is_some()).await;
    let closed = link.closed();
    link.close();
    soon(closed).await;
    let error = soon(link.connection()).await.err().unwrap();
    assert_eq!(error.reason(), Some(Reason::Closed), "{error}");
    assert!(link.current().is_none());

    // It is closed while a connection is being opened.
    client.server().doors.forget_permits(1000);
    let link = Link::on_demand(client.clone());
    let opening = tokio::spawn({
        let link = link.clone();
        async move { link.connection().await.map(drop) }
    });
    tokio::task::yield_now().await;
    link.close();
    client.server().doors.add_permits(1);
    let _ = soon(opening).await.unwrap(); // it may be an error, because the link is closed
    assert!(link.current().is_none());
    let closed = link.closed();
    drop(link);
    soon(closed).await;
}
