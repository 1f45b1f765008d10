//! The scripts: one atomic step each, and all of the server's part.

use redis::{Cmd, ToRedisArgs};
use tenure_core::{LINE_TICKETS_MAX, NUMBER_MAX};

/// Time for which an idle line keeps its last number once the clock has passed it. A server's clock
/// may be set back by that, or be that far behind the clock of the server that it replaces, without
/// a number that is too small.
pub(crate) const KEEP_MS: u64 = 60_000;
/// Time for which a break is remembered: onlookers look more often than that.
pub(crate) const BROKEN_MS: u64 = 60_000;
/// Maximum different shares that wait in one line: each adds one count to a renewal.
pub(crate) const WAITING_SHARES_MAX: u32 = 128;
/// Count of waiters at the front that are asked to look by themselves.
const NEAR: u32 = 3;

/// The codes of verbs in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum VerbTag {
    Join = b'J',
    Renew = b'R',
    Leave = b'L',
}

/// A script, and its hash for the server.
pub(crate) struct Script {
    text: String,
    hash: String,
}

/// One script for each verb.
pub struct Scripts {
    pub(crate) join: Script,
    pub(crate) renew: Script,
    pub(crate) leave: Script,
    pub(crate) bundle: Script,
    pub(crate) list: Script,
    pub(crate) look: Script,
    pub(crate) broken: Script,
    pub(crate) keys: Script,
    pub(crate) sequence: Script,
    pub(crate) count: Script,
}

/// The kind of push to a served ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyVia {
    /// One channel for each client.
    Channel,
    /// One channel for each line in which a client waits, in the slot of that line.
    Shard,
}

const NOW: &str = include_str!("scripts/now.lua");
const START: &str = include_str!("scripts/start.lua");
const IDLE_LIFE: &str = include_str!("scripts/idle_life.lua");
const READABLE: &str = include_str!("scripts/readable.lua");
const NUMBER: &str = include_str!("scripts/number.lua");
const LINE: &str = include_str!("scripts/line.lua");

// The work of a verb on a line without waiters is a function, so that a bundle can call it for many
// lines.
const JOIN_IDLE: &str = include_str!("scripts/join_idle.lua");
const RENEW_ALONE: &str = include_str!("scripts/renew_alone.lua");
const LEAVE_ALONE: &str = include_str!("scripts/leave_alone.lua");
// The same for the line of a mutex.
const JOIN_BEHIND: &str = include_str!("scripts/join_behind.lua");
const LEAVE_TO_NEXT: &str = include_str!("scripts/leave_to_next.lua");
const LOOK: &str = include_str!("scripts/look.lua");

impl Scripts {
    pub(crate) fn new(post: NotifyVia) -> Self {
        let (post, master) = match post {
            NotifyVia::Channel => {
                (include_str!("scripts/post.lua"), include_str!("scripts/master.lua"))
            }
            NotifyVia::Shard => (
                include_str!("scripts/post_sharded.lua"),
                include_str!("scripts/master_sharded.lua"),
            ),
        };
        let line = [IDLE_LIFE, READABLE, LINE].concat();
        let on_a_line = |verb: &str| Script::new(&[master, START, NOW, post, &line, verb]);
        // This part needs none of the functions for other lines: each costs something to create.
        let at_once = |call: &str| {
            format!("do\n  local at_once = {call}\n  if at_once then return at_once end\nend\n")
        };
        Self {
            join: Script::new(&[
                START,
                NOW,
                JOIN_IDLE,
                &at_once("join_idle(k, head, ARGV[1], ARGV[2], now, tonumber(ARGV[4]))"),
                post,
                JOIN_BEHIND,
                &at_once(
                    "ARGV[3] ~= '0' and join_behind(k, head, ARGV[1], ARGV[2], now, tonumber(ARGV[4]))",
                ),
                master,
                &line,
                include_str!("scripts/join.lua"),
            ]),
            renew: Script::new(&[
                START,
                RENEW_ALONE,
                &at_once("not ARGV[3] and renew_alone(k, head, ARGV[1], ARGV[2])"),
                NOW,
                post,
                master,
                &line,
                include_str!("scripts/renew.lua"),
            ]),
            leave: Script::new(&[
                START,
                IDLE_LIFE,
                LEAVE_ALONE,
                &at_once("not ARGV[2] and leave_alone(k, head, ARGV[1])"),
                NOW,
                &at_once("ARGV[2] == 'long' and leave_alone(k, head, ARGV[1], now)"),
                post,
                LEAVE_TO_NEXT,
                &at_once("ARGV[2] ~= 'soon' and leave_to_next(k, head, ARGV[1], now)"),
                master,
                READABLE,
                LINE,
                include_str!("scripts/leave.lua"),
            ]),
            bundle: Script::new(&[
                NOW,
                IDLE_LIFE,
                JOIN_IDLE,
                RENEW_ALONE,
                LEAVE_ALONE,
                include_str!("scripts/bundle.lua"),
            ]),
            list: on_a_line(include_str!("scripts/list.lua")),
            look: Script::new(&[
                master,
                START,
                NOW,
                READABLE,
                LOOK,
                "be_master()\nreturn look(k, head, now)\n",
            ]),
            broken: Script::new(&[master, include_str!("scripts/broken.lua")]),
            keys: Script::new(&[master, NOW, READABLE, LOOK, include_str!("scripts/keys.lua")]),
            sequence: Script::new(&[master, NUMBER, include_str!("scripts/sequence.lua")]),
            count: Script::new(&[master, NUMBER, include_str!("scripts/count.lua")]),
        }
    }

    /// Returns all of them, to load them.
    pub(crate) fn all(&self) -> [&Script; 10] {
        let Self { join, renew, leave, bundle, list, look, broken, keys, sequence, count } = self;
        [join, renew, leave, bundle, list, look, broken, keys, sequence, count]
    }
}

/// Returns the constants of the scripts. As numbers in the text they cost a call nothing.
fn words() -> [(&'static str, String); 15] {
    [
        ("KEEP_MS", KEEP_MS.to_string()),
        ("BROKEN_MS", BROKEN_MS.to_string()),
        ("NUMBER_MAX", NUMBER_MAX.to_string()),
        ("TICKETS_MAX", LINE_TICKETS_MAX.to_string()),
        ("SHARES_MAX", WAITING_SHARES_MAX.to_string()),
        ("NEAR", NEAR.to_string()),
        // The ninth byte of a head is its kind. These are the formats of a line's state, including
        // that byte, and the place of the first ticket's id:
        ("ALONE", b'a'.to_string()),
        ("MUTEX_FORMAT", "<dBdddI4I4".to_owned()),
        ("MUTEX_ID", "42".to_owned()),
        ("MUTEX", b'm'.to_string()),
        ("FULL_FORMAT", "<dBddddddI4I4I4B".to_owned()),
        ("FULL_ID", "71".to_owned()),
        ("FULL", b'f'.to_string()),
        // The verbs of a bundle.
        ("JOIN", (VerbTag::Join as u8).to_string()),
        ("LEAVE", (VerbTag::Leave as u8).to_string()),
    ]
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let mut text = parts.concat();
        for (word, stands_for) in words() {
            text = text.replace(word, &stands_for);
        }
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Returns the call of this script without a key; its arguments follow.
    pub(crate) fn on_none(&self) -> Cmd {
        self.on_all(&[] as &[&str])
    }

    /// Returns the call of this script for one key; its arguments follow.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        self.on_all(&[key])
    }

    /// Returns the call of this script for these keys; its arguments follow.
    pub(crate) fn on_all(&self, keys: &[impl ToRedisArgs]) -> Cmd {
        let mut call = Cmd::with_capacity(12 * keys.len(), 512 * keys.len());
        call.arg("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    /// Returns the command that loads it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text);
        load
    }
}
