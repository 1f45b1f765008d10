//! The command line, as it is used: real processes, pipes and a real terminal.

mod answers;
mod bad_input;
mod browser;
mod claim_losses;
mod claims;
mod claims_redis;
mod doctor;
mod etcd;
mod forgetting;
mod heirs;
mod keeper;
mod kit;
mod lead;
mod loss;
mod mcp;
mod mcp_run;
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
mod once;
mod once_stores;
#[cfg(feature = "postgres")]
mod postgres;
mod ps;
mod pty;
mod recipes;
mod redis;
mod run;
mod serve;
mod stores;
mod terminal;
mod top;
mod users;
