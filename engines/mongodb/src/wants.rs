//! Wants: the part of a change stream's pipeline that is for one consumer.

use mongodb::bson::{Document, doc};

/// The part of the stream's pipeline that is for one consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// Fields that are computed of each change, for the cases.
    pub computed: Document,
    /// A change is wanted if it is one of these cases. Fewer and plainer cases cost the server less
    /// for all other changes.
    pub cases: Vec<Document>,
    /// Fields that are sent of a change, besides its kind and the key of the document.
    pub sent: Document,
}

impl Wants {
    pub(crate) fn add(&mut self, other: &Self) {
        for case in &other.cases {
            if !self.cases.contains(case) {
                self.cases.push(case.clone());
            }
        }
        self.computed.extend(other.computed.clone());
        self.sent.extend(other.sent.clone());
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut both = self.clone();
        both.add(other);
        both == *self
    }

    pub(crate) fn pipeline(&self) -> Vec<Document> {
        let mut sent = doc! { "operationType": 1, "documentKey": 1 };
        sent.extend(self.sent.clone());
        let compute = (!self.computed.is_empty()).then(|| doc! { "$set": &self.computed });
        let others = [doc! { "$match": { "$or": &self.cases } }, doc! { "$project": sent }];
        compute.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_covers_each_of_its_consumers_and_no_other() {
        let case = |n: i32| doc! { "n": n };
        let wants = |n: i32| Wants { cases: vec![case(n)], ..Wants::default() };
        let computes = Wants { computed: doc! { "x": 1 }, sent: doc! { "x": 1 }, ..wants(1) };
        let mut all = Wants::default();
        for one in [wants(1), wants(2), computes.clone(), wants(2)] {
            all.add(&one);
        }
        assert_eq!(all.cases, [case(1), case(2)]);
        for one in [wants(1), wants(2), computes] {
            assert!(all.covers(&one));
        }
        assert!(!all.covers(&wants(3)));
        assert!(!all.covers(&Wants { computed: doc! { "y": 1 }, ..Wants::default() }));
    }
}
