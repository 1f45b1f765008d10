//! Making a ticket's node, and listing its line.

use futures_util::future::join;
use tenure_queue::{Enter, Node, TicketName};
use zookeeper_client::{Acls, CreateMode, Error as Said, MultiWriteResult, Stat};

use crate::client::ZooKeeper;
use crate::names::{Child, Listing, zxid};
use crate::session::ServerSession;

/// Maximum retries of a join whose line was removed meanwhile.
const ATTEMPTS_MAX: u32 = 8;

/// A node that was just made, and its line if that could be listed.
pub(crate) struct Put {
    pub(crate) own: Child,
    pub(crate) created: u64,
    pub(crate) listing: Result<Listing, Said>,
}

/// The same, with the names in its line.
struct Made {
    own: Child,
    created: u64,
    listed: Result<(Vec<String>, Stat), Said>,
}

/// The way to make a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PutWay {
    /// Other tickets of this client are in the line, as far as is known.
    Among,
    /// No other ticket is in the line, as far as is known.
    Alone,
    /// The line does not exist.
    First,
}

impl ZooKeeper {
    /// Makes the node, and lists its line. Makes the line itself if it does not exist.
    pub(crate) async fn put(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        ticket: &Node,
    ) -> Result<Put, Said> {
        // If other tickets are there, the line is listed anyway, and is requested at once.
        let line = &enter.name.line;
        let is_alone = self.free.seems(line) && !self.roll.knows(line);
        let mut way = if is_alone { PutWay::Alone } else { PutWay::Among };
        for _ in 0..ATTEMPTS_MAX {
            let made = match way {
                PutWay::Among => self.put_among(wire, enter, ticket).await,
                PutWay::Alone | PutWay::First => self.put_alone(wire, enter, ticket, way).await,
            };
            match made {
                Ok(Made { own, created, listed }) => {
                    let listing = listed.map(|(names, stat)| {
                        self.free.note(line, names.len() < 2);
                        self.listing(line, &names, &stat)
                    });
                    return Ok(Put { own, created, listing });
                }
                Err(Said::NodeExists) if way == PutWay::First => way = PutWay::Alone,
                Err(Said::NoNode) if way == PutWay::First => self.make_roots_over(wire).await?,
                Err(Said::NoNode) => way = PutWay::First,
                Err(said) => return Err(said),
            }
        }
        Err(Said::NoNode)
    }

    /// Makes the node, and lists the line after that, in one round trip.
    async fn put_among(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        ticket: &Node,
    ) -> Result<Made, Said> {
        let (name, asked) = (enter.name, ticket.ticket.share.take());
        let (line, beginning) = (self.keys.line(&name.line), self.keys.beginning(name, asked));
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::new(&self.acls));
        let turn = wire.turn().await?;
        let both = self.send_for(name, || {
            join(turn.create(&beginning, enter.body, &ephemeral), turn.get_children(&line))
        });
        let (made, listed) = wire.in_time(both?).await?;
        let (stat, tail) = made?;
        let own = own(name, asked, tail_of(tail.into_i64()));
        Ok(Made { own, created: zxid(stat.czxid), listed })
    }

    /// Makes the node, and writes the line's data to it again: the answer has the count of its
    /// nodes. Lists the line only if there are several.
    async fn put_alone(
        &self,
        wire: &ServerSession,
        enter: &Enter<'_>,
        ticket: &Node,
        way: PutWay,
    ) -> Result<Made, Said> {
        let (name, asked) = (enter.name, ticket.ticket.share.take());
        let (line, beginning) = (self.keys.line(&name.line), self.keys.beginning(name, asked));
        let (key, acls) = (ticket.ticket.key.as_str().as_bytes(), Acls::new(&self.acls));
        let turn = wire.turn().await?;
        let mut all = turn.new_multi_writer();
        if way == PutWay::First {
            all.add_create(&line, key, &CreateMode::Container.with_acls(acls))?;
        }
        let ephemeral = CreateMode::EphemeralSequential.with_acls(acls);
        all.add_create(&beginning, enter.body, &ephemeral)?;
        all.add_set_data(&line, key, None)?;
        let results = wire.in_time(self.send_for(name, || all.commit())?).await??;
        let [.., MultiWriteResult::Create { path, .. }, MultiWriteResult::SetData { stat }] =
            results.as_slice()
        else {
            return Err(Said::BadArguments(&"an answer to another question"));
        };
        let tail = path.strip_prefix(&beginning).and_then(|tail| tail.parse().ok());
        let own = own(name, asked, tail.ok_or(Said::BadArguments(&"an answer that is no path"))?);
        // Some servers do not report the transaction of a ticket that is made so. It is that of the
        // write to its line.
        let created = zxid(stat.mzxid);
        let listed = if stat.num_children == 1 {
            Ok((vec![self.keys.ticket(&own).split_off(line.len() + 1)], *stat))
        } else {
            wire.in_time(turn.get_children(&line)).await?
        };
        Ok(Made { own, created, listed })
    }

    /// Sends the requests of a join, unless it was given up. A caller that gives it up looks for it
    /// after the requests that were sent before.
    fn send_for<T>(&self, name: &TicketName, send: impl FnOnce() -> T) -> Result<T, Said> {
        let asked = self.asked.lock();
        // No caller waits for this answer.
        asked.contains_key(&name.id).then(send).ok_or(Said::Timeout)
    }
}

/// Returns a ticket that takes what it asked for.
fn own(name: &TicketName, asked: u32, tail: i32) -> Child {
    Child { name: name.clone(), asked, takes: asked, tail }
}

/// Converts `ZooKeeper`'s count for a line, which has 32 bits.
fn tail_of(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}
