//! A holder's query: the commands that find a document, and only while a ticket holds it.

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::TicketId;
use tenure_mongodb::extension::raw;

use crate::name::Named;
use crate::request::Holding;
use crate::store::DocumentStore;
use crate::way;

impl DocumentStore {
    /// Returns a command that only finds a document and increments its step.
    pub(crate) fn touch(&self, query: &Document) -> RawDocumentBuf {
        let mut next = Document::new();
        next.insert(format!("{}.step", self.field()), 1_i64);
        self.change_by(query, &doc! { "$inc": next })
    }

    /// Returns a command that changes the first document that matches, and answers its `_id`.
    pub(crate) fn change_by(&self, query: &Document, update: &Document) -> RawDocumentBuf {
        let mut command = self.commands.find_one(raw(query));
        command.append(cstr!("update"), raw(update));
        command.append(cstr!("fields"), rawdoc! { "_id": 1 });
        command
    }

    /// Returns a command for the document, which applies only if this ticket holds and `also` is
    /// true of its seat, `$$held`.
    pub(crate) fn under(
        &self,
        holding: &Holding,
        also: Vec<Bson>,
        only: Document,
    ) -> RawDocumentBuf {
        let field = self.field();
        let mut holds = vec![holds(field, &holding.named, holding.id, also)];
        holds.extend(
            holding.around.iter().map(|(named, id)| self::holds(field, named, *id, Vec::new())),
        );
        let mut query = holding.named.filter();
        query.insert("$expr", doc! { "$and": holds });
        query.extend(only);
        self.commands.find_one(raw(&query))
    }
}

/// The condition that this ticket holds the named document or part, and that these are true of its
/// seat.
pub(crate) fn holds(field: &str, named: &Named, id: TicketId, also: Vec<Bson>) -> Bson {
    let (is_whole, inside) = (named.path.is_whole(), format!("$$part.{field}"));
    let line = if is_whole { format!("${field}") } else { inside };
    let now = bson!({ "$max": [format!("{line}.at"), { "$toLong": "$$NOW" }] });
    let mut all = vec![
        bson!({ "$eq": ["$$held.id", id.to_string()] }),
        bson!({ "$gt": ["$$held.ends", now] }),
    ];
    all.extend(also);
    let held = bson!({ "$ifNull": [format!("{line}.held"), []] });
    let any = bson!({ "$anyElementTrue": [{ "$map": {
        "input": held, "as": "held", "in": { "$and": all },
    } }] });
    if is_whole {
        return any;
    }
    bson!({ "$let": { "vars": { "part": way::part(&named.path) }, "in": any } })
}

/// The condition that the holder's seat, `$$held`, has no mark of this write or a later one.
pub(crate) fn is_before(count: i64) -> Bson {
    bson!({ "$lt": [{ "$ifNull": ["$$held.w", 0_i64] }, count] })
}
