//! A ticket's node is made, and told who is in the line with it.

use futures_util::future::join;
use tenure_queue::{Enter, Name, Node};
use zookeeper_client::{Acls, CreateMode, Error as Said, MultiWriteResult, Stat};

use crate::client::ZooKeeper;
use crate::driven::together;
use crate::keys::{Child, Listing, zxid};
use crate::wire::Wire;

/// So often a line may be taken away from under who comes in.
const ATTEMPTS_MAX: u32 = 8;

/// A node that was made just now, and its line with it, if that may be listed.
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

/// How a node is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Others are in the line, as far as is known.
    Among,
    /// Nobody is, as far as is known.
    Alone,
    /// The line is not there.
    First,
}

impl ZooKeeper {
    /// Makes the node, and learns who is in its line. The line itself is made if it is not there.
    pub(crate) async fn put(
        &self,
        wire: &Wire,
        enter: &Enter<'_>,
        ticket: &Node,
    ) -> Result<Put, Said> {
        // Where others are, the line is listed anyway, and is asked for at once.
        let line = &enter.name.line;
        let is_alone = self.free.seems(line) && !self.roll.knows(line);
        let mut way = if is_alone { Way::Alone } else { Way::Among };
        for _ in 0..ATTEMPTS_MAX {
            let made = match way {
                Way::Among => self.put_among(wire, enter, ticket).await,
                Way::Alone | Way::First => self.put_alone(wire, enter, ticket, way).await,
            };
            match made {
                Ok(Made { own, created, listed }) => {
                    let listing = listed.map(|(names, stat)| {
                        self.free.note(line, names.len() < 2);
                        self.listing(line, &names, &stat)
                    });
                    return Ok(Put { own, created, listing });
                }
                Err(Said::NodeExists) if way == Way::First => way = Way::Alone,
                Err(Said::NoNode) if way == Way::First => self.make_roots_over(wire).await?,
                Err(Said::NoNode) => way = Way::First,
                Err(said) => return Err(said),
            }
        }
        Err(Said::NoNode)
    }

    /// Makes the node, and lists the line behind that, in one round trip.
    async fn put_among(&self, wire: &Wire, enter: &Enter<'_>, ticket: &Node) -> Result<Made, Said> {
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

    /// Makes the node, and writes to its line what stands there already: the answer tells how many are in the line then. Only if
    /// they are more than one, the line is listed.
    async fn put_alone(
        &self,
        wire: &Wire,
        enter: &Enter<'_>,
        ticket: &Node,
        way: Way,
    ) -> Result<Made, Said> {
        let (name, asked) = (enter.name, ticket.ticket.share.take());
        let (line, beginning) = (self.keys.line(&name.line), self.keys.beginning(name, asked));
        let (key, acls) = (ticket.ticket.key.as_str().as_bytes(), Acls::new(&self.acls));
        let turn = wire.turn().await?;
        let mut all = turn.new_multi_writer();
        if way == Way::First {
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
        // Some servers do not tell of a ticket that is made so. It is of the same transaction as what is written to its line.
        let created = zxid(stat.mzxid);
        let listed = if stat.num_children == 1 {
            Ok((vec![self.keys.ticket(&own).split_off(line.len() + 1)], *stat))
        } else {
            wire.in_time(turn.get_children(&line)).await?
        };
        Ok(Made { own, created, listed })
    }

    /// Sends what lets a ticket in, unless it was given up. Whoever gives it up looks for it behind what was sent before.
    fn send_for<T>(&self, name: &Name, send: impl FnOnce() -> T) -> Result<T, Said> {
        together(|| {
            let asked = self.asked();
            // Nobody waits for this answer.
            asked.contains_key(&name.id).then(send).ok_or(Said::Timeout)
        })
    }
}

/// A ticket that takes what it asked for.
fn own(name: &Name, asked: u32, tail: i32) -> Child {
    Child { name: name.clone(), asked, takes: asked, tail }
}

/// What `ZooKeeper` counts for a line has 32 bits.
fn tail_of(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}
