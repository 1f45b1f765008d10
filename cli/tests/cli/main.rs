//! The command line, as it is used: real processes, pipes and a real terminal.

mod answers;
mod bad_input;
mod kit;
mod lead;
mod pty;
mod run;
mod terminal;
