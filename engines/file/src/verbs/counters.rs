//! Counters and values: sequences and values outlive a power cut, counts have a window.

use std::borrow::Cow;
use std::fs::File;
use std::sync::Arc;

use tenure_core::errors::checked_sum;
use tenure_core::line::Count;
use tenure_core::{CounterValue, Error, Key, Result, Window};

use crate::log::record::Record;
use crate::log::shelf::book_of;
use crate::trouble::refused;
use crate::visits::store::StoreView;
use crate::visits::visit::Visit;

/// Adds, and returns the new value once it survives a power cut.
pub(crate) async fn add(
    store: &Arc<StoreView>,
    key: &Key,
    by: u64,
    window: Option<Window>,
) -> Result<CounterValue> {
    let index = book_of(key);
    if let Some(window) = window {
        let count = move |visit: &mut Visit<'_>, key: &Key| count(visit, key, by, window);
        return store.at(index, key, count).await;
    }
    let next = move |visit: &mut Visit<'_>, key: &Key| next(visit, key, by);
    let (value, file) = store.at(index, key, next).await?;
    // The book is unlocked meanwhile: a process that returns a later value has flushed this one as
    // well.
    if let Some(file) = file {
        let doubt = |error: std::io::Error| {
            Error::unavailable("a sequence's number may not have reached the disk: it is not given")
                .caused_by(error)
        };
        file.sync_data().map_err(doubt)?;
    }
    Ok(CounterValue::of_sequence(value))
}

fn next(visit: &mut Visit<'_>, key: &Key, by: u64) -> Result<(u64, Option<Arc<File>>)> {
    let before = visit.state().sequence(key);
    let value = checked_sum(key, before, by)?;
    if by == 0 {
        return Ok((value, None));
    }
    let context = visit.context;
    let failed = |error| refused("write to the disk what is in", context.root.path(), error);
    visit.anchor().map_err(failed)?;
    visit.change(|state, _| state.sequences.insert(key.clone(), value));
    visit.record(&Record::Sequence { key: Cow::Borrowed(key), value });
    Ok((value, Some(visit.file())))
}

/// Replaces the value of a key, and returns once it survives a power cut.
pub(crate) async fn swap(
    store: &Arc<StoreView>,
    key: &Key,
    seen: &str,
    value: &str,
) -> Result<String> {
    let texts = (key.clone(), seen.to_owned(), value.to_owned());
    let exchange = move |visit: &mut Visit<'_>, (key, seen, value): &(Key, String, String)| {
        let at_us = visit.now_us;
        let stored = visit.state().value(key);
        // A repeated call writes again: after a flush that failed, another one confirms nothing.
        if stored != seen && (stored != value || value.is_empty()) {
            return Ok((stored.to_owned(), visit.file()));
        }
        if value != seen {
            let context = visit.context;
            let failed =
                |error| refused("write to the disk what is in", context.root.path(), error);
            visit.anchor().map_err(failed)?;
            let record = Record::Value { key: Cow::Borrowed(key), value: Cow::Borrowed(value) };
            visit.change(|state, _| state.set_value(key, value, at_us));
            visit.record(&record);
        }
        Ok((value.clone(), visit.file()))
    };
    let (stored, file) = store.at(book_of(key), &texts, exchange).await?;
    // Also a value that was only read: the process that wrote it may not have flushed it yet.
    let doubt = |error: std::io::Error| {
        Error::unavailable("a value may not have reached the disk").caused_by(error)
    };
    file.sync_data().map_err(doubt)?;
    Ok(stored)
}

fn count(visit: &mut Visit<'_>, key: &Key, by: u64, window: Window) -> Result<CounterValue> {
    let stored = visit.state().counts.get(key).copied();
    let (count, changed) = Count::add(stored, key, by, window, visit.now_us)?;
    if let Some(count) = changed {
        visit.change(|state, _| state.counts.insert(key.clone(), count));
        visit.record(&Record::Count { key: Cow::Borrowed(key), count });
    }
    Ok(count)
}
