//! `tenure mcp`: a server of the Model Context Protocol, so that language models use locks.
//!
//! | module | content |
//! |---|---|
//! | `tools` | the tools as a model sees them: names, descriptions, arguments, limits |
//! | `server` | the protocol: lists the tools, and passes calls on |
//! | `session`, `claims` | the claims of this session: take, renew, drop |
//! | `look` | the holders of keys, and the wait until a key is free |
//! | `command`, `session_run` | `tenure run` as a child process: the side of the server, and its own |
//! | `answer` | the answers: a text for the model, and the same as data |
//! | `input` | standard input, whose end is the end of the session |

mod answer;
mod claims;
mod command;
mod input;
mod look;
mod server;
mod session;
pub(crate) mod session_run;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::failure::{Failure, OUTPUT};
use crate::store::Address;
use input::Input;
use server::LockServer;
use session::Session;

/// Time limit for the protocol to end: rmcp sends the last answers for up to 5 s.
const GOODBYE_MAX: Duration = Duration::from_secs(6);

/// Serves locks to a language model, over standard input and output.
///
/// It speaks the Model Context Protocol, with the tools take, renew, drop, who, wait and run. A
/// client such as an editor or an agent starts it. The claims of a session end with it: at the end
/// of standard input and at a signal all of them are released. If tenure is killed, they end as
/// those of any process that dies: at once in files, and with their leases elsewhere.
///
/// Every answer says whether the lock is held. If the store does not answer,
/// `take` holds nothing, and `renew` answers `confirmed: false` until the lease is over.
#[derive(clap::Args)]
#[command(after_long_help = "\
Example, for the client's list of servers; TENURE_ON in its environment names the store:
  {\"mcpServers\": {\"tenure\": {\"command\": \"tenure\", \"args\": [\"mcp\"]}}}")]
pub(crate) struct Args {}

pub(crate) fn mcp(at: Address, _: &Args) -> Result<u8, Failure> {
    // A wrong URL ends the server at once. An unreachable store does not: each call says so, and a
    // later call may find it.
    let session = Arc::new(Session::new(at)?);
    // One thread: the child processes of `run` are started by it, and calls only wait.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(&session));
    // A read of standard input cannot be cancelled: do not wait for it.
    runtime.shutdown_background();
    outcome
}

/// Serves until the session ends, and then releases its claims.
async fn serve(session: &Arc<Session>) -> Result<u8, Failure> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let (mut ending, session) = (signal(kind)?, session.clone());
        tokio::spawn(async move {
            ending.recv().await;
            session.stop();
        });
    }
    let server = LockServer::new(session.clone());
    let calls = server.calls();
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let transport = (Input::new(input, session.clone()), output);
    let connected = tokio::select! {
        connected = server.serve(transport) => connected,
        () = session.stopped() => return Ok(0),
    };
    let running = match connected {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(0),
        Err(error) => {
            return Err(Failure::new(OUTPUT, format!("the MCP client cannot be served: {error}")));
        }
    };
    let protocol = running.cancellation_token();
    let mut serving = tokio::spawn(running.waiting());
    tokio::select! {
        // Standard output is closed, or the protocol has ended.
        _ = &mut serving => session.stop(),
        () = session.stopped() => protocol.cancel(),
    }
    session.release_all().await;
    // The calls that were running end by themselves now, with an answer.
    let _ = timeout(GOODBYE_MAX, calls.acquire_many(tools::CALLS_MAX)).await; // late calls are dropped
    session.close().await;
    if !serving.is_finished() {
        let _ = timeout(GOODBYE_MAX, serving).await; // the client may read no longer
    }
    Ok(0)
}
