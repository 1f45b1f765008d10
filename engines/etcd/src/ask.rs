//! Requests as data.

use crate::names::{Span, number};
use crate::wire::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::wire::range_request::{SortOrder, SortTarget};
use crate::wire::request_op::RequestKind;
use crate::wire::response_op::Response;
use crate::wire::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnResponse,
};

/// gRPC path of a range request.
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";

/// Reads one key.
pub(crate) fn get(key: Vec<u8>) -> RangeRequest {
    RangeRequest { key, ..RangeRequest::default() }
}

/// Reads the first keys of a span, in the order in which they were made.
pub(crate) fn first(span: Span, most: usize) -> RangeRequest {
    sorted(span, most, SortOrder::Ascend)
}

/// Reads the last keys of a span, the latest first.
pub(crate) fn last(span: Span, most: usize) -> RangeRequest {
    sorted(span, most, SortOrder::Descend)
}

/// Reads the last keys of a span that were made before a revision, the latest first.
pub(crate) fn last_before(span: Span, created: u64, most: usize) -> RangeRequest {
    let max_create_revision = number(created.saturating_sub(1));
    RangeRequest { max_create_revision, ..last(span, most) }
}

fn sorted(span: Span, most: usize, order: SortOrder) -> RangeRequest {
    RangeRequest {
        key: span.from,
        range_end: span.end,
        limit: i64::try_from(most).unwrap_or(0),
        sort_order: order.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

pub(crate) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> PutRequest {
    PutRequest { key, value, lease, ..PutRequest::default() }
}

pub(crate) fn range_op(range: RangeRequest) -> RequestOp {
    RequestOp { request_kind: Some(RequestKind::RequestRange(range)) }
}

pub(crate) fn put_op(put: PutRequest) -> RequestOp {
    RequestOp { request_kind: Some(RequestKind::RequestPut(put)) }
}

pub(crate) fn delete_op(key: Vec<u8>) -> RequestOp {
    let delete = DeleteRangeRequest { key, range_end: Vec::new() };
    RequestOp { request_kind: Some(RequestKind::RequestDeleteRange(delete)) }
}

/// Compares: the key was made with this revision; with 0: there is no key.
pub(crate) fn is_made(key: Vec<u8>, revision: u64) -> Compare {
    let target = TargetUnion::CreateRevision(number(revision));
    equal(key, Vec::new(), CompareTarget::Create, target)
}

/// Compares: the key was changed last with this revision; with 0: there is no key.
pub(crate) fn is_changed(key: Vec<u8>, revision: u64) -> Compare {
    let target = TargetUnion::ModRevision(number(revision));
    equal(key, Vec::new(), CompareTarget::Mod, target)
}

/// Compares: there is no key in this span.
pub(crate) fn is_empty(span: Span) -> Compare {
    let target = TargetUnion::CreateRevision(0);
    equal(span.from, span.end, CompareTarget::Create, target)
}

fn equal(key: Vec<u8>, range_end: Vec<u8>, target: CompareTarget, union: TargetUnion) -> Compare {
    let (result, target) = (CompareResult::Equal.into(), target.into());
    Compare { result, target, key, target_union: Some(union), range_end }
}

/// Returns the ranges of a transaction's answer, in order.
pub(crate) fn ranges(answer: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    answer.responses.into_iter().filter_map(|op| match op.response {
        Some(Response::ResponseRange(range)) => Some(range),
        _ => None,
    })
}
