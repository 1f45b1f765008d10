//! A location: the place of one line. It has the document, the place in it, and the stages that are
//! built for that place.

use std::sync::Arc;

use mongodb::bson::{Document, RawBson, RawDocumentBuf, rawdoc};
use tenure_core::Key;

use crate::field_prefix::{FieldPrefix, Refusal};
use crate::line::{Steps, VerbSet, c_string, raw, record};
use crate::projection::Projections;
use crate::short::ShortSteps;

/// The stages and projections for all lines in the same place of their documents. They are built
/// once.
pub struct CompiledPipelines {
    /// Prefix of the names of the line's fields in a query.
    pub(crate) place: String,
    out: Vec<RawDocumentBuf>,
    steps: Arc<Steps>,
    back: Vec<RawDocumentBuf>,
    pub(crate) answers: Projections,
    /// The short steps, if the line is a record.
    pub(crate) short: Option<ShortSteps>,
    /// Reasons for which no ticket joins a line in this place.
    pub(crate) refusals: Vec<Refusal>,
}

impl CompiledPipelines {
    /// Builds the stages for lines in this place.
    pub fn new(prefix: &FieldPrefix) -> Self {
        Self::with_steps(prefix, Arc::new(Steps::new(prefix)))
    }

    /// The same with steps that were built for another place, and are equal there.
    pub fn with_steps(prefix: &FieldPrefix, steps: Arc<Steps>) -> Self {
        let raw = |stages: &[Document]| stages.iter().map(raw).collect();
        let answers = Projections::new(prefix);
        let is_record = prefix.field_name().is_none();
        Self {
            place: prefix.place.clone(),
            out: raw(&prefix.out),
            steps,
            back: raw(&prefix.back),
            short: is_record.then(|| ShortSteps::new(prefix, &answers)),
            answers,
            refusals: prefix.refusals.clone(),
        }
    }

    /// Returns the projections.
    pub fn answers(&self) -> &Projections {
        &self.answers
    }

    /// Returns the stages of these verbs, after the first stage.
    pub(crate) fn stages(&self, verbs: VerbSet) -> Vec<&[RawDocumentBuf]> {
        let (out, back) = ([self.out.as_slice()], [self.back.as_slice()]);
        out.into_iter().chain(self.steps.of(verbs)).chain(back).collect()
    }

    /// Returns whether the line lives in a part of a document, which may have several lines.
    pub(crate) fn is_of_part(&self) -> bool {
        !self.out.is_empty()
    }
}

/// The place of one line.
#[derive(Clone)]
pub struct Location {
    /// The name of the line, if it differs from that of its document.
    line: Option<String>,
    /// The name of the document, as a change stream reports it.
    pub(crate) record: String,
    /// The filter that finds the document.
    pub(crate) filter: RawDocumentBuf,
    pub(crate) pipelines: Arc<CompiledPipelines>,
    /// Whether the document is inserted if there is none.
    pub(crate) makes: bool,
    /// The stage that fills a document which was just inserted.
    pub(crate) filling: Option<Arc<RawDocumentBuf>>,
}

impl Location {
    /// The record of the line of this key.
    pub(crate) fn record(key: &Key, pipelines: &Arc<CompiledPipelines>) -> Self {
        let record = record(key);
        let filter = rawdoc! { "_id": record.as_str() };
        Self {
            line: None,
            record,
            filter,
            pipelines: pipelines.clone(),
            makes: true,
            filling: None,
        }
    }

    /// A line of this name in a program's document.
    pub fn document(
        line: String,
        record: String,
        filter: &Document,
        pipelines: Arc<CompiledPipelines>,
    ) -> Self {
        let filter = raw(filter);
        Self { line: Some(line), record, filter, pipelines, makes: false, filling: None }
    }

    /// The same, and the document is inserted if there is none. A document that was just inserted
    /// has null in this field.
    #[must_use]
    pub fn filled(self, filling: Option<Arc<RawDocumentBuf>>, fresh: &str) -> Self {
        let mut filter = self.filter.clone();
        if filling.is_some() {
            filter.append(c_string(fresh), RawBson::Null);
        }
        Self { makes: filling.is_some(), filling, filter, ..self }
    }

    /// Returns the stages and projections of this place.
    pub fn pipelines(&self) -> &CompiledPipelines {
        &self.pipelines
    }

    /// Returns the name of the line. At most one command per line is in flight.
    pub fn line(&self) -> &str {
        self.line.as_deref().unwrap_or(&self.record)
    }
}
