//! A server, or a proxy in its place, answers with a frame that never ends. The client crate reads
//! frames of any length, so the bytes look like a sign of life. Each such connection must still
//! end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::Locks;
use tenure_servers::zookeeper::Ensemble;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use super::stage::{TTL, at_last, play, soon};

/// Long enough for a busy machine to renew in time.
const LIFE: Duration = TTL.saturating_mul(2);
/// The length of a frame that is not finished within the time of a test.
const FRAME_BYTES: u32 = i32::MAX as u32;
/// One piece of it.
const PIECE: [u8; 1024] = [0; 1024];
/// The pause between two pieces.
const PAUSE: Duration = Duration::from_millis(10);

/// A proxy to a server that passes everything on until it turns hostile.
struct Hostile {
    port: u16,
    turns: watch::Sender<()>,
    /// Number of open connections that have turned hostile.
    turned: Arc<AtomicUsize>,
}

impl Hostile {
    async fn before(ensemble: &Ensemble) -> Self {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, ensemble.servers()[0].port()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (turns, turned) = (watch::Sender::new(()), Arc::<AtomicUsize>::default());
        let (subscribes, counts) = (turns.clone(), turned.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (turns, turned) = (subscribes.subscribe(), counts.clone());
                let Ok(server) = TcpStream::connect(server).await else { continue };
                tokio::spawn(serve(client, server, turns, turned));
            }
        });
        Self { port, turns, turned }
    }

    async fn locks(&self) -> Locks {
        let url = format!("zookeeper://127.0.0.1:{}?timeout=500ms", self.port);
        at_last("it connects", async || tenure_zookeeper::connect(&url).await).await
    }

    /// Turns all open connections hostile. Later ones are honest.
    fn turn(&self) {
        self.turns.send_replace(());
    }

    fn turned(&self) -> usize {
        self.turned.load(Ordering::SeqCst)
    }

    async fn until_turned(&self, what: &str, is: impl Fn(usize) -> bool) {
        soon(what, async {
            while !is(self.turned()) {
                sleep(PAUSE).await;
            }
        })
        .await;
    }
}

async fn serve(
    client: TcpStream,
    server: TcpStream,
    mut turns: watch::Receiver<()>,
    turned: Arc<AtomicUsize>,
) {
    let ((mut asked, mut answers), (mut hears, mut asks)) =
        (client.into_split(), server.into_split());
    let passes = async {
        let (there, back) = (copy(&mut asked, &mut asks), copy(&mut hears, &mut answers));
        // One direction ends with the other.
        tokio::select! {
            _ = there => {}
            _ = back => {}
        }
    };
    tokio::select! {
        () = passes => return,
        _ = turns.changed() => {}
    }
    turned.fetch_add(1, Ordering::SeqCst);
    never_ends(&mut asked, &mut answers).await;
    turned.fetch_sub(1, Ordering::SeqCst);
}

/// Sends one frame until the client has closed the connection.
async fn never_ends(asked: &mut OwnedReadHalf, answers: &mut OwnedWriteHalf) {
    let mut ignored = vec![0; PIECE.len()];
    let ends = async { while asked.read(&mut ignored).await.is_ok_and(|length| length > 0) {} };
    let sends = async {
        // The client may be gone; the loop ends then.
        let _ = answers.write_all(&FRAME_BYTES.to_be_bytes()).await;
        while answers.write_all(&PIECE).await.is_ok() {
            sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = ends => {}
        () = sends => {}
    }
}

#[test]
fn a_connection_with_a_frame_that_never_ends_is_left_for_another() {
    play(1, async |ensemble| {
        let hostile = Hostile::before(&ensemble).await;
        let locks = hostile.locks().await;
        let guard = at_last("it locks", async || locks.mutex("k").ttl(LIFE).lock().await).await;
        hostile.turn();
        hostile.until_turned("they have turned", |turned| turned > 0).await;
        soon("the loss is told", guard.lost()).await;
        at_last("it locks again", async || {
            locks.mutex("k").ttl(LIFE).lock().await?.release().await
        })
        .await;
        soon("none of them is kept", async {
            while hostile.turned() > 0 {
                // The session that is not for tickets is replaced after a request without an
                // answer, so this request may fail.
                let _ = locks.line("k").await;
            }
        })
        .await;
    });
}

#[test]
fn a_connection_with_a_frame_that_never_ends_is_closed_with_the_locks() {
    play(1, async |ensemble| {
        let hostile = Hostile::before(&ensemble).await;
        for closes in [true, false] {
            let locks = hostile.locks().await;
            let guard = at_last("it locks", async || locks.mutex("k").ttl(LIFE).lock().await).await;
            hostile.turn();
            hostile.until_turned("they have turned", |turned| turned > 0).await;
            drop(guard);
            if closes {
                soon("the locks are closed", locks.close()).await;
            }
            drop(locks);
            hostile.until_turned("none of them is kept", |turned| turned == 0).await;
        }
    });
}
