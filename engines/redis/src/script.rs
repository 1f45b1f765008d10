//! The scripts: one atomic step each, the whole of what the server has to know about lines.

use redis::Cmd;

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

const START: &str = include_str!("scripts/start.lua");
const LINE: &str = include_str!("scripts/line.lua");

impl Scripts {
    pub(crate) fn new(post: Post) -> Self {
        let post = match post {
            Post::Channel => include_str!("scripts/post.lua"),
            Post::Shard => include_str!("scripts/post_sharded.lua"),
        };
        let on_a_line =
            |quick: &str, verb: &str| Script::new([START, quick, post, LINE, verb].concat());
        Self {
            join: on_a_line(
                include_str!("scripts/join_idle.lua"),
                include_str!("scripts/join.lua"),
            ),
            renew: on_a_line("", include_str!("scripts/renew.lua")),
            leave: on_a_line(
                include_str!("scripts/leave_alone.lua"),
                include_str!("scripts/leave.lua"),
            ),
            list: on_a_line("", include_str!("scripts/list.lua")),
            look: Script::new([START, include_str!("scripts/look.lua")].concat()),
            sequence: Script::new(include_str!("scripts/sequence.lua").to_owned()),
            count: Script::new(include_str!("scripts/count.lua").to_owned()),
        }
    }

    /// All of them, to be loaded.
    pub(crate) fn all(&self) -> [&Script; 7] {
        let Self { join, renew, leave, list, look, sequence, count } = self;
        [join, renew, leave, list, look, sequence, count]
    }
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The call of this script for one key; its arguments follow.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        let mut call = Cmd::with_capacity(12, 512);
        call.arg("EVALSHA").arg(&self.hash).arg(1).arg(key);
        call
    }

    /// What makes the server know it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text);
        load
    }
}
