//! The scripts: one atomic step each, the whole of what the server has to know about lines.

use redis::{Cmd, ToRedisArgs};
use tenure_core::{LINE_TICKETS_MAX, NUMBER_MAX};

/// For how long an idle line keeps its last number once the clock has passed it. It is what a server's clock may
/// be set back by, or be behind that of the server whose place it takes, without a number that is too small.
pub(crate) const KEEP_MS: u64 = 60_000;
/// So many different shares may wait in one line at a time: each costs a renewal a count.
pub(crate) const WAITING_SHARES_MAX: u32 = 128;
/// So many waiters at the front are asked to look by themselves.
const NEAR: u32 = 3;

/// A script, and the hash by which the server knows it.
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
    pub(crate) keys: Script,
    pub(crate) sequence: Script,
    pub(crate) count: Script,
}

/// How a served ticket is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// Each client listens to one channel.
    Channel,
    /// Each client listens to one channel for each line that it waits in, in the slot of that line.
    Shard,
}

const CLOCK: &str = include_str!("scripts/clock.lua");
const START: &str = include_str!("scripts/start.lua");
const IDLE_LIFE: &str = include_str!("scripts/idle_life.lua");
const LINE: &str = include_str!("scripts/line.lua");

// What a verb does to a line where nobody waits is a function: a bundle calls it for many lines.
const JOIN_IDLE: &str = include_str!("scripts/join_idle.lua");
const RENEW_ALONE: &str = include_str!("scripts/renew_alone.lua");
const LEAVE_ALONE: &str = include_str!("scripts/leave_alone.lua");
// And what it does to a line in which all want all there is.
const JOIN_BEHIND: &str = include_str!("scripts/join_behind.lua");
const LEAVE_TO_NEXT: &str = include_str!("scripts/leave_to_next.lua");
const LOOK: &str = include_str!("scripts/look.lua");

impl Scripts {
    pub(crate) fn new(post: Post) -> Self {
        let (post, master) = match post {
            Post::Channel => (include_str!("scripts/post.lua"), include_str!("scripts/master.lua")),
            Post::Shard => (
                include_str!("scripts/post_sharded.lua"),
                include_str!("scripts/master_sharded.lua"),
            ),
        };
        let begin = limits() + CLOCK;
        let long_way = [IDLE_LIFE, LINE].concat();
        let on_a_line =
            |verb: &str| Script::new([&begin, master, START, post, &long_way, verb].concat());
        // What is done at once needs none of the functions that other lines do: each costs something to make.
        let at_once = |call: &str| {
            format!("do\n  local at_once = {call}\n  if at_once then return at_once end\nend\n")
        };
        let with = |parts: &[&str]| Script::new(begin.clone() + master + &parts.concat());
        Self {
            join: Script::new(
                [
                    &begin,
                    START,
                    JOIN_IDLE,
                    &at_once("join_idle(k, head, ARGV[1], ARGV[2], tonumber(ARGV[4]))"),
                    post,
                    JOIN_BEHIND,
                    &at_once("ARGV[3] ~= '0' and join_behind(k, head, ARGV[1], tonumber(ARGV[4]))"),
                    master,
                    &long_way,
                    include_str!("scripts/join.lua"),
                ]
                .concat(),
            ),
            renew: Script::new(
                [
                    &begin,
                    START,
                    RENEW_ALONE,
                    &at_once("ARGV[3] == '0' and renew_alone(k, head, ARGV[1], ARGV[2])"),
                    post,
                    master,
                    &long_way,
                    include_str!("scripts/renew.lua"),
                ]
                .concat(),
            ),
            leave: Script::new(
                [
                    &begin,
                    IDLE_LIFE,
                    master,
                    START,
                    LEAVE_ALONE,
                    &at_once("ARGV[2] == '0' and leave_alone(k, head, ARGV[1])"),
                    post,
                    LEAVE_TO_NEXT,
                    &at_once("ARGV[2] == '0' and leave_to_next(k, head, ARGV[1])"),
                    LINE,
                    include_str!("scripts/leave.lua"),
                ]
                .concat(),
            ),
            bundle: with(&[
                IDLE_LIFE,
                JOIN_IDLE,
                RENEW_ALONE,
                LEAVE_ALONE,
                include_str!("scripts/bundle.lua"),
            ]),
            list: on_a_line(include_str!("scripts/list.lua")),
            look: with(&[START, LOOK, "be_master()\nreturn look(k, head)\n"]),
            keys: with(&[LOOK, include_str!("scripts/keys.lua")]),
            sequence: with(&[include_str!("scripts/sequence.lua")]),
            count: with(&[include_str!("scripts/count.lua")]),
        }
    }

    /// All of them, to be loaded.
    pub(crate) fn all(&self) -> [&Script; 9] {
        let Self { join, renew, leave, bundle, list, look, keys, sequence, count } = self;
        [join, renew, leave, bundle, list, look, keys, sequence, count]
    }
}

/// The limits, as the scripts know them.
fn limits() -> String {
    format!(
        "local KEEP_MS, NUMBER_MAX, TICKETS_MAX = {KEEP_MS}, {NUMBER_MAX}, {LINE_TICKETS_MAX}\n\
         local SHARES_MAX, NEAR = {WAITING_SHARES_MAX}, {NEAR}\n\
         -- What the head of a line begins with: of one ticket, and of more; and how the latter is packed.\n\
         local ALONE, FULL, FORMAT = {}, {}, '<dddddddI4I4I4B'\n",
        b'a', b'f'
    )
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The call of this script for no key in particular; its arguments follow.
    pub(crate) fn on_none(&self) -> Cmd {
        self.on_all(&[] as &[&str])
    }

    /// The call of this script for one key; its arguments follow.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        self.on_all(&[key])
    }

    /// The call of this script for these keys; its arguments follow.
    pub(crate) fn on_all(&self, keys: &[impl ToRedisArgs]) -> Cmd {
        let mut call = Cmd::with_capacity(12 * keys.len(), 512 * keys.len());
        call.arg("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    /// What makes the server know it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text);
        load
    }
}
