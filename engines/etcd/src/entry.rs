//! Joining and leaving a line, each as one transaction.

use tenure_core::{Error, Loss, Result, errors, served};
use tenure_queue::{
    Enter, Entered, Front, Node, Position, Precondition, Register, RegisterValue, Remove, Removed,
    SessionId, TextValue, TicketName, Why,
};

use crate::ask::{
    delete_op, first, get, is_changed, is_empty, is_made, last, put, put_op, range_op, ranges,
};
use crate::names::{KeyNames, answered_at, revision, value};
use crate::request_fences::RequestFence;
use crate::wire::{
    Compare, KeyValue, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};

/// Count of tickets in the answer to a join: the last ones of the line, because they keep out a
/// ticket far back. A member sorts the whole line for any such answer.
pub(crate) const PAGE: usize = 128;

/// Returns the ticket whose key was put at this revision.
fn made(enter: &Enter<'_>, key: &[u8], at: u64) -> Result<Node> {
    let own = Node::read(enter.name.clone(), enter.session, at, at, enter.body);
    Ok(Node { key: key.into(), ..own.ok_or_else(|| Error::lost(Loss::Broken))? })
}

/// Compares: the fence was not raised since. It keeps out requests that were sent before.
fn is_as_known(keys: &KeyNames, fence: &RequestFence) -> Compare {
    is_changed(keys.fence(fence), fence.raised)
}

/// Puts the ticket's key if it is not kept out, the precondition holds and no ticket has this key.
/// Reads the last tickets of the line either way.
pub(crate) fn enter(
    keys: &KeyNames,
    enter: &Enter<'_>,
    key: &[u8],
    fence: &RequestFence,
) -> TxnRequest {
    let Enter { name, body, session, precondition, base_version } = *enter;
    let (key, line) = (key.to_vec(), keys.line(&name.line));
    let base = keys.register(&Register::Base(name.line.clone()));
    let mut compare = vec![
        is_made(key.clone(), 0),
        is_as_known(keys, fence),
        is_changed(base.clone(), base_version),
    ];
    match precondition {
        Precondition::SameCapacity => compare.extend(keys.others(name).map(is_empty)),
        Precondition::EmptyLine => compare.push(is_empty(line.clone())),
    }
    let last = range_op(last(line, PAGE));
    let put = put_op(put(key.clone(), value(name.id, body), session.cast_signed()));
    TxnRequest {
        compare,
        success: vec![put, last.clone()],
        failure: vec![
            last,
            range_op(get(key)),
            range_op(get(keys.fence(fence))),
            range_op(get(base)),
        ],
    }
}

/// Returns where a new ticket stands, from the last tickets of its line. `None` if these are not
/// all, and do not keep the ticket out by themselves.
pub(crate) fn position(last: &Front, own: &Node) -> Option<Position> {
    let own_at = last.nodes.partition_point(|node| node.created < own.created);
    let (nodes, share) = (&last.nodes[..own_at], own.ticket.share);
    let (taken, unseen): (u64, usize) = (nodes.iter().map(Node::take).sum(), unseen(last));
    if unseen > 0 && served(taken, share) {
        return None;
    }
    let ahead = (nodes.len() + unseen, taken + unseen as u64);
    Some(Position::new(last.at, ahead, nodes.iter().rev().cloned(), share))
}

/// Returns the count of a line's tickets that were not read. Each takes something.
fn unseen(front: &Front) -> usize {
    front.total.saturating_sub(front.nodes.len())
}

/// The outcome of a join with a key.
pub(crate) enum EnterReply {
    /// The ticket is in its line, of which these are the last tickets.
    Joined(Box<Node>, Front),
    /// The ticket was there before, or the precondition failed.
    Decided(Box<Entered>),
    /// Another ticket has that key.
    KeyTaken,
    /// The fence has changed. This is the fence at that moment.
    Fenced(RequestFence, u64),
    /// The ticket is in its line, behind one that cannot be read.
    Unreadable(Box<Node>, Error),
    /// The ticket joined, and is not among the last of its line: no member answers that.
    Malformed,
}

/// Returns the outcome of a join.
pub(crate) fn entered(
    keys: &KeyNames,
    enter: &Enter<'_>,
    key: &[u8],
    fence: &RequestFence,
    answer: TxnResponse,
) -> Result<EnterReply> {
    let at = answered_at(answer.header);
    let succeeded = answer.succeeded;
    let mut ranges = ranges(answer);
    let last = ranges.next().unwrap_or_default();
    let mut front = front(keys, &last, at);
    front.nodes.reverse();
    if succeeded {
        let is_own = |kept: &KeyValue| kept.key == key && revision(kept.create_revision) == at;
        if !last.kvs.iter().any(is_own) {
            return Ok(EnterReply::Malformed);
        }
        let node = made(enter, key, at)?;
        if let Err(error) = refuse_unreadable(ReadTickets::of(keys, &last).unreadable, at) {
            return Ok(EnterReply::Unreadable(Box::new(node), error));
        }
        return Ok(EnterReply::Joined(Box::new(node), front));
    }
    let there = ranges.next().and_then(|range| range.kvs.into_iter().next());
    if let Some(kept) = there {
        let own = keys.node(&kept).filter(|node| node.name == *enter.name);
        return Ok(own.map_or(EnterReply::KeyTaken, existing));
    }
    if let Some(node) = twin(&front, enter.name, at + 1) {
        return Ok(existing(node));
    }
    let kept = ranges.next().and_then(|range| range.kvs.into_iter().next());
    let raised = kept.map_or(0, |kept| revision(kept.mod_revision));
    if raised != fence.raised {
        return Ok(EnterReply::Fenced(RequestFence { raised, ..*fence }, at));
    }
    let base = written(ranges.next().unwrap_or_default())?;
    let taken = front.nodes.iter().map(Node::take).sum::<u64>() + unseen(&front) as u64;
    let mut capacities = front.nodes.iter().map(|node| node.name.of);
    let other_capacity = capacities.find(|of| *of != enter.name.of);
    Ok(EnterReply::Decided(Box::new(Entered::Out { at, taken, other_capacity, base })))
}

fn existing(node: Node) -> EnterReply {
    EnterReply::Decided(Box::new(Entered::Existing(node)))
}

/// Returns a ticket of the same id with another key, which joined before this moment: another
/// client, or a copy of this process, has put it there.
pub(crate) fn twin(front: &Front, name: &TicketName, before: u64) -> Option<Node> {
    let is_twin = |node: &&Node| node.name == *name && node.created < before;
    front.nodes.iter().find(is_twin).cloned()
}

/// Deletes the ticket's key if it and the others are unchanged. With a fence, the ticket is kept
/// out from then on, either way.
pub(crate) fn remove(
    keys: &KeyNames,
    remove: &Remove<'_>,
    fence: Option<&RequestFence>,
) -> TxnRequest {
    let Remove { node, provided, why, front } = *remove;
    let key = node.key.to_vec();
    let mut compare = vec![is_made(key.clone(), node.created)];
    compare.extend(provided.iter().map(|node| is_changed(node.key.to_vec(), node.version)));
    let mut success = vec![delete_op(key)];
    if why == Why::Broken {
        // Onlookers see it in the same revision.
        success.push(put_op(put(keys.broken(), node.name.id.to_string().into_bytes(), 0)));
    }
    success.extend(front.map(|most| range_op(first(keys.line(&node.name.line), most))));
    let raise = fence.map(|fence| raise(keys, fence));
    success.extend(raise.clone());
    TxnRequest { compare, success, failure: raise.into_iter().collect() }
}

/// Deletes the ticket's key if it and the others are unchanged, and puts nothing: no mark of a
/// break.
pub(crate) fn remove_only(keys: &KeyNames, just: &Remove<'_>) -> TxnRequest {
    remove(keys, &Remove { why: Why::Left, ..*just }, None)
}

/// Keeps out requests that were sent with this fence, or with an earlier one.
fn raise(keys: &KeyNames, fence: &RequestFence) -> RequestOp {
    put_op(put(keys.fence(fence), Vec::new(), fence.session.cast_signed()))
}

/// Returns the outcome of a removal.
pub(crate) fn removed(keys: &KeyNames, answer: TxnResponse) -> Removed {
    let (at, gone) = (answered_at(answer.header), answer.succeeded);
    Removed { gone, front: ranges(answer).next().map(|range| front(keys, &range, at)) }
}

/// Keeps the ticket out for good, and reads its key, if it has one.
pub(crate) fn fence_out(keys: &KeyNames, key: Option<Vec<u8>>, fence: &RequestFence) -> TxnRequest {
    let own = key.map(|key| range_op(get(key)));
    let success = [raise(keys, fence)].into_iter().chain(own).collect();
    TxnRequest { compare: Vec::new(), success, failure: Vec::new() }
}

/// Writes a key if it still has this version, and reads it if it has not.
pub(crate) fn write(key: Vec<u8>, value: Vec<u8>, version: u64) -> TxnRequest {
    TxnRequest {
        compare: vec![is_changed(key.clone(), version)],
        success: vec![put_op(put(key.clone(), value, 0))],
        failure: vec![range_op(get(key))],
    }
}

/// The same for a ticket, which stays bound to its lease.
pub(crate) fn change(key: Vec<u8>, value: Vec<u8>, version: u64) -> TxnRequest {
    let mut put = put(key.clone(), value, 0);
    put.ignore_lease = true;
    TxnRequest {
        compare: vec![is_changed(key, version)],
        success: vec![put_op(put)],
        failure: Vec::new(),
    }
}

/// Returns the front of a line from a range, in its order.
pub(crate) fn front(keys: &KeyNames, range: &RangeResponse, at: u64) -> Front {
    let total = usize::try_from(range.count).unwrap_or(0);
    let ReadTickets { nodes, unreadable } = ReadTickets::of(keys, range);
    // Other keys do not count.
    let strangers = range.kvs.len() - nodes.len();
    Front { nodes, total: total.saturating_sub(strangers), at, unreadable }
}

/// The tickets among some keys.
#[derive(Default)]
pub(crate) struct ReadTickets {
    /// The readable ones, in the order of the keys.
    pub(crate) nodes: Vec<Node>,
    /// The revision with which the first of the others was made.
    pub(crate) unreadable: Option<u64>,
}

impl ReadTickets {
    pub(crate) fn of(keys: &KeyNames, range: &RangeResponse) -> Self {
        let mut tickets = Self::default();
        range.kvs.iter().for_each(|kept| tickets.add(keys, kept));
        tickets
    }

    pub(crate) fn add(&mut self, keys: &KeyNames, kept: &KeyValue) {
        if let Some(node) = keys.node(kept) {
            self.nodes.push(node);
        } else if keys.is_ticket(&kept.key) {
            let made = revision(kept.create_revision);
            self.unreadable = Some(self.unreadable.map_or(made, |first| first.min(made)));
        }
    }
}

/// Refuses tickets behind an unreadable one. Another version of Tenure may have put it, and it
/// holds all the same. Only its revision is known.
pub(crate) fn refuse_unreadable(unreadable: Option<u64>, before: u64) -> Result<()> {
    match unreadable {
        Some(made) if made < before => Err(errors::unreadable_ticket()),
        _ => Ok(()),
    }
}

/// Reads a register. If it has no number, no new number can be above the earlier ones.
pub(crate) fn written(range: RangeResponse) -> Result<RegisterValue> {
    let Some(kept) = range.kvs.into_iter().next() else { return Ok(RegisterValue::default()) };
    let value = std::str::from_utf8(&kept.value).ok().and_then(|text| text.parse().ok());
    let value = value.ok_or_else(errors::unreadable_number)?;
    Ok(RegisterValue { value, version: revision(kept.mod_revision) })
}

/// Reads the text of a register.
pub(crate) fn text(range: RangeResponse) -> Result<TextValue> {
    let Some(kept) = range.kvs.into_iter().next() else { return Ok(TextValue::default()) };
    let text = String::from_utf8(kept.value).map_err(|_| errors::unreadable_value())?;
    Ok(TextValue { text, version: revision(kept.mod_revision) })
}

/// Puts a session's key.
pub(crate) fn open(keys: &KeyNames, session: SessionId) -> TxnRequest {
    let put = put(keys.session(session), Vec::new(), session.cast_signed());
    TxnRequest { compare: Vec::new(), success: vec![put_op(put)], failure: Vec::new() }
}

/// Reads the line's tickets that were made before this one, the nearest first.
pub(crate) fn ahead(keys: &KeyNames, node: &Node, most: usize) -> RangeRequest {
    debug_assert!(node.created > 0, "nothing is made before the first revision");
    crate::ask::last_before(keys.line(&node.name.line), node.created, most)
}
