//! A spot: where one line is kept: in which document, where in it, and the stages that are made for
//! that place.

use std::sync::Arc;

use mongodb::bson::{Document, RawBson, RawDocumentBuf, rawdoc};
use tenure_core::Key;

use crate::alone::Alone;
use crate::lens::Lens;
use crate::line::{Mixture, Steps, c_string, raw, record};
use crate::projection::Answers;

/// What is made once for all lines that live in the same place of their documents.
pub(crate) struct Kit {
    /// What stands before the names of the line's fields in a query.
    pub(crate) place: String,
    out: Vec<RawDocumentBuf>,
    steps: Arc<Steps>,
    back: Vec<RawDocumentBuf>,
    /// A part has no short verbs.
    pub(crate) alone: Option<Alone>,
    pub(crate) answers: Answers,
}

impl Kit {
    pub(crate) fn new(lens: &Lens) -> Self {
        Self::with_steps(lens, Arc::new(Steps::new(lens)))
    }

    /// The same with steps that were made for another place, and are the same there.
    pub(crate) fn with_steps(lens: &Lens, steps: Arc<Steps>) -> Self {
        let raw = |stages: &[Document]| stages.iter().map(raw).collect();
        let (out, back) = (raw(&lens.out), raw(&lens.back));
        let alone = lens.part_found().is_none().then(|| Alone::new(lens));
        let place = lens.place.clone();
        Self { place, out, steps, back, alone, answers: Answers::new(lens) }
    }

    /// The stages of a mixture of verbs, behind the first.
    pub(crate) fn stages(&self, mixture: Mixture) -> [&[RawDocumentBuf]; 3] {
        [&self.out, self.steps.of(mixture), &self.back]
    }
}

/// Where one line is kept.
#[derive(Clone)]
pub(crate) struct Spot {
    /// The name of the line, unless it is that of its document.
    line: Option<String>,
    /// The name of the document, as the change stream tells it.
    pub(crate) record: String,
    /// What finds the document.
    pub(crate) filter: RawDocumentBuf,
    pub(crate) kit: Arc<Kit>,
    /// Whether the document is made if there is none.
    pub(crate) makes: bool,
    /// The stage that fills a document which was made just now.
    pub(crate) filling: Option<Arc<RawDocumentBuf>>,
}

impl Spot {
    /// The record of a line that has a name.
    pub(crate) fn record(key: &Key, kit: &Arc<Kit>) -> Self {
        let record = record(key);
        let filter = rawdoc! { "_id": record.as_str() };
        Self { line: None, record, filter, kit: kit.clone(), makes: true, filling: None }
    }

    /// A line of this name in somebody else's document.
    pub(crate) fn document(line: String, record: String, filter: &Document, kit: Arc<Kit>) -> Self {
        let filter = raw(filter);
        Self { line: Some(line), record, filter, kit, makes: false, filling: None }
    }

    /// The same, and the document is made if there is none. One that is made just now has null in
    /// this field.
    pub(crate) fn filled(self, filling: Option<Arc<RawDocumentBuf>>, fresh: &str) -> Self {
        let mut filter = self.filter.clone();
        if filling.is_some() {
            filter.append(c_string(fresh), RawBson::Null);
        }
        Self { makes: filling.is_some(), filling, filter, ..self }
    }

    /// Whether the line has a record of its own.
    pub(crate) fn is_record(&self) -> bool {
        self.line.is_none()
    }

    /// The name of the line: of one line one command is under way at a time.
    pub(crate) fn line(&self) -> &str {
        self.line.as_deref().unwrap_or(&self.record)
    }
}
