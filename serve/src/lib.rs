//! A page and an HTTP API for the locks of one or more stores, as a `tower::Service`.
//!
//! [`serve()`] returns the service. Mount it in a server of your own, or give it to an
//! [`HttpServer`], as the command `tenure serve` does. The service only reads until
//! [`Serve::role`] permits locks or breaks.
//!
//! ```
//! # tenure_core::blocking::block_on(async {
//! use tenure_serve::{Role, serve};
//!
//! let locks = tenure_core::Locks::new(tenure_core::Memory::new());
//! let service = serve(&locks).role(Role::Ask).hosts(["tenure.example.org"]);
//! # drop(service);
//! # });
//! ```
//!
//! | module | content |
//! |---|---|
//! | `service` | the service: its settings, and the route of each request |
//! | `access` | roles, visitors, and the checks of Host, Origin, token and trusted header |
//! | `wrong_tokens` | the record of requests with a wrong token |
//! | `api` | the answers of the API about keys, lines, guarantees and health |
//! | `breaking` | compare-and-break: its answer, its rate limit, its record |
//! | `events` | the ring of events behind all streams, and the one watch of the store |
//! | `metrics` | the state of the store, breaks and requests, for Prometheus |
//! | `mounts` | the services of several stores, each below its name, and the list of them |
//! | `stream` | a stream of server-sent events |
//! | `page` | the page as HTML, for browsers without JavaScript as well |
//! | `query` | keys in paths, and the fields of a query |
//! | `endpoint` | the paths of the service, and the methods of each |
//! | `lock_service` | locks over HTTP: the requests, their answers, their record |
//! | `lock_request` | the body of such a request, and the ticket that it is about |
//! | `locks` | takes, renews and releases the tickets of clients |
//! | `terraform` | the lock calls of Terraform's back-end `http` |
//! | `reply` | responses, and the refusal of a request |
//! | `shared_answers` | answers of the store that several visitors share |
//! | `http_server` | an HTTP/1.1 server whose connections, times and sizes are limited |
//! | `patient` | a connection that fails when its client accepts too little |

mod access;
mod api;
mod breaking;
mod endpoint;
mod events;
mod http_server;
mod lock_request;
mod lock_service;
mod locks;
mod metrics;
mod mounts;
mod page;
mod patient;
mod query;
mod reply;
mod service;
mod shared_answers;
mod stream;
mod terraform;
mod wrong_tokens;

pub use access::{Role, Visitor};
pub use breaking::{BreakRecord, BreakResult};
pub use http_server::{CONNECTIONS_MAX, ClientAddress, HttpServer};
pub use lock_service::{LockAction, LockRecord};
pub use mounts::Mounts;
pub use reply::ReplyBody;
pub use service::{Serve, serve};
pub use stream::STREAMS_MAX;
pub use wrong_tokens::WrongTokenRecord;
