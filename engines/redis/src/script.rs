//! The scripts: one atomic step each, the whole of what the server has to know about lines.

use redis::{Cmd, ToRedisArgs};

/// A script, and the hash by which the server knows it.
pub(crate) struct Script {
    text: String,
    hash: String,
}

/// One script for each verb.
pub(crate) struct Scripts {
    pub(crate) join: Script,
    pub(crate) renew: Script,
    pub(crate) leave: Script,
    pub(crate) bundle: Script,
    pub(crate) list: Script,
    pub(crate) look: Script,
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

const LIMITS: &str = include_str!("scripts/limits.lua");
const START: &str = include_str!("scripts/start.lua");
const LINE: &str = include_str!("scripts/line.lua");

// What a verb does to a line where nobody waits is a function: a bundle calls it for many lines.
const JOIN_IDLE: &str = include_str!("scripts/join_idle.lua");
const RENEW_ALONE: &str = include_str!("scripts/renew_alone.lua");
const LEAVE_ALONE: &str = include_str!("scripts/leave_alone.lua");

impl Scripts {
    pub(crate) fn new(post: Post) -> Self {
        let post = match post {
            Post::Channel => include_str!("scripts/post.lua"),
            Post::Shard => include_str!("scripts/post_sharded.lua"),
        };
        let on_a_line = |verb: &str| Script::new([LIMITS, START, post, LINE, verb].concat());
        // What is done at once needs none of the functions that a line with others in it does.
        let or_at_once = |quick: &str, call: &str, verb: &str| {
            let at_once = format!("local at_once = {call}\nif at_once then return at_once end\n");
            Script::new([LIMITS, START, quick, &at_once, post, LINE, verb].concat())
        };
        let bundle =
            [LIMITS, JOIN_IDLE, RENEW_ALONE, LEAVE_ALONE, include_str!("scripts/bundle.lua")];
        Self {
            join: or_at_once(
                JOIN_IDLE,
                "join_idle(k, head, ARGV[1], ARGV[2], tonumber(ARGV[4]))",
                include_str!("scripts/join.lua"),
            ),
            renew: or_at_once(
                RENEW_ALONE,
                "ARGV[3] == '0' and renew_alone(k, head, ARGV[1], ARGV[2])",
                include_str!("scripts/renew.lua"),
            ),
            leave: or_at_once(
                LEAVE_ALONE,
                "ARGV[2] == '0' and leave_alone(k, head, ARGV[1])",
                include_str!("scripts/leave.lua"),
            ),
            bundle: Script::new(bundle.concat()),
            list: on_a_line(include_str!("scripts/list.lua")),
            look: Script::new([LIMITS, START, include_str!("scripts/look.lua")].concat()),
            sequence: Script::new([LIMITS, include_str!("scripts/sequence.lua")].concat()),
            count: Script::new([LIMITS, include_str!("scripts/count.lua")].concat()),
        }
    }

    /// All of them, to be loaded.
    pub(crate) fn all(&self) -> [&Script; 8] {
        let Self { join, renew, leave, bundle, list, look, sequence, count } = self;
        [join, renew, leave, bundle, list, look, sequence, count]
    }
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
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
