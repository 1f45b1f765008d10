//! The warnings of the file store, which are events of `tracing`, on standard error.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use crate::failure::say;

/// The module that sets damaged files aside.
const DAMAGE: &str = "tenure_file::visits::damage";

/// Prints each damage of a file store from now on.
pub(crate) fn print() {
    let _ = subscriber::set_global_default(StoreWarnings); // this process has no other
}

struct StoreWarnings;

impl Subscriber for StoreWarnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == DAMAGE
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = WarningText(String::new());
        event.record(&mut message);
        say(&format!("warning: {}", message.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event, without its other fields.
struct WarningText(String);

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}"); // writing to a string cannot fail
        }
    }
}
