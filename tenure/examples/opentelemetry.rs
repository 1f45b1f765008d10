//! The span of a waiter links to the trace of the holder that it waits for, with OpenTelemetry.
//!
//! The holder puts its W3C `traceparent` into the note of its ticket. A caller that finds the lock
//! busy reads the note, and adds a link to its own span before it waits.

use std::collections::HashMap;
use std::error::Error;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tenure::inspect::TicketState;
use tenure::{Locks, MutexGuard, Result};
use tracing::{Instrument as _, Level, Metadata, Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;

const FIELD: &str = "traceparent";

/// The note of a holder: `traceparent=00-…`, or an empty text without a trace.
fn note_of(span: &Span) -> String {
    let mut fields = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut fields);
    fields.get(FIELD).map(|value| format!("{FIELD}={value}")).unwrap_or_default()
}

/// The span that a note names. It is not valid if the note names none.
fn span_of(note: &str) -> SpanContext {
    let value = note.strip_prefix(FIELD).and_then(|rest| rest.strip_prefix('='));
    let fields: HashMap<_, _> =
        value.map(|value| (FIELD.to_owned(), value.to_owned())).into_iter().collect();
    TraceContextPropagator::new().extract(&fields).span().span_context().clone()
}

/// Takes the lock. If it is busy, the current span links to the span of its holder.
async fn lock_linked(locks: &Locks, key: &str) -> Result<MutexGuard> {
    let mutex = locks.mutex(key).note(note_of(&Span::current()));
    if let Some(guard) = mutex.try_lock().await? {
        return Ok(guard);
    }
    let line = locks.line(key).await?;
    // The holder may have left since.
    if let Some(holder) = line.iter().find(|entry| entry.state == TicketState::Holding) {
        Span::current().add_link(span_of(&holder.note));
    }
    mutex.lock().await
}

/// Keeps the spans of the program, and `lock` and `hold` of each lock. Requests to the store are
/// left out.
fn is_wanted(span: &Metadata<'_>) -> bool {
    *span.level() <= Level::INFO || ["lock", "hold"].contains(&span.name())
}

/// Prints each span and its links. A program has an exporter for its collector instead.
#[derive(Debug)]
struct Printer;

impl SpanExporter for Printer {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        for SpanData { name, span_context, links, .. } in &spans {
            println!("span `{name}` of trace {}", span_context.trace_id());
            for link in links.iter() {
                println!("    waited for trace {}", link.span_context.trace_id());
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(Printer).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter_fn(is_wanted)));
    tracing::subscriber::set_global_default(subscriber)?;
    let locks = tenure::connect("memory:").await?;

    let nightly = info_span!("nightly");
    let guard = lock_linked(&locks, "report").instrument(nightly.clone()).await?;
    let waiter = {
        let locks = locks.clone();
        let wait = async move { lock_linked(&locks, "report").await.map(drop) };
        tokio::spawn(wait.instrument(info_span!("urgent")))
    };
    // The waiter has found its holder when it is in the line.
    while locks.line("report").await?.len() < 2 {
        tokio::task::yield_now().await;
    }
    drop((guard, nightly));
    waiter.await??;
    locks.close().await;
    provider.shutdown()?;
    Ok(())
}
