//! A shop: a collection of orders, and two clients that lock them.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use serde::{Deserialize, Serialize};
use tenure_core::TicketId;
use tenure_mongodb_documents::{DocumentLocks, Documents, Path};
use tenure_servers::mongodb::Server;

/// An order, as its clerks see it. It has no field for a lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    pub(crate) state: String,
    pub(crate) total: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) sku: i32,
    pub(crate) quantity: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) no: i32,
    pub(crate) at: String,
}

pub(crate) struct Shop {
    /// The server and the collection.
    pub(crate) url: String,
    pub(crate) orders: Collection<Order>,
    pub(crate) here: DocumentLocks<Order>,
    pub(crate) there: DocumentLocks<Order>,
}

/// Settings for a busy machine, whose server answers late.
pub(crate) fn patient() -> Documents {
    Documents::new().timeout(Duration::from_secs(60))
}

pub(crate) fn order(id: i32) -> Order {
    Order { id, state: "new".to_owned(), total: 10, lines: Vec::new() }
}

/// Returns an order with `lines` lines, each with two parts.
pub(crate) fn long_order(id: i32, lines: i32) -> Order {
    let part = |no| Part { no, at: "shelf".to_owned() };
    let line = |sku| Line { sku, quantity: 1, parts: vec![part(7), part(8)] };
    Order { lines: (0..lines).map(line).collect(), ..order(id) }
}

pub(crate) fn line(sku: i32) -> Path {
    Path::field("lines").element("sku", sku)
}

pub(crate) fn part(sku: i32, no: i32) -> Path {
    line(sku).then("parts").element("no", no)
}

impl Shop {
    /// Opens a shop with one order, number 42, on the server of all tests.
    pub(crate) async fn open() -> Self {
        Self::open_with(Documents::new()).await
    }

    /// The same with other settings of the locks.
    pub(crate) async fn open_with(documents: Documents) -> Self {
        let url = tenure_servers::url_of("TENURE_TEST_MONGODB_URL").expect("a server is here");
        Self::open_at(&url, documents, "60s").await
    }

    /// The same on a server of its own, whose commands can be counted and disturbed.
    pub(crate) async fn open_alone() -> (Server, Self) {
        let server = Server::start().unwrap();
        let shop = Self::open_at(&server.url(), Documents::new(), "10s").await;
        (server, shop)
    }

    async fn open_at(url: &str, documents: Documents, timeout: &str) -> Self {
        let name = format!("orders-{}", TicketId::fresh());
        let client = Client::with_uri_str(url).await.unwrap();
        let orders = client.database("tenure").collection(&name);
        orders.insert_one(order(42)).await.unwrap();
        let url = format!("{url}&collection={name}");
        let connect = async || documents.clone().connect(format!("{url}&timeout={timeout}")).await;
        let (here, there) = (connect().await.unwrap(), connect().await.unwrap());
        Self { url, orders, here, there }
    }

    /// Returns the order as the database has it, with the field of the locks.
    pub(crate) async fn raw(&self, id: i32) -> Option<Document> {
        self.orders.clone_with_type().find_one(doc! { "_id": id }).await.unwrap()
    }

    /// Returns how many whole orders are held.
    pub(crate) async fn held(&self) -> u64 {
        let held = doc! { "_tenure.held.0": { "$exists": true } };
        self.orders.count_documents(held).await.unwrap()
    }

    /// Returns the order as its clerks see it.
    pub(crate) async fn seen(&self, id: i32) -> Order {
        let mut raw = self.raw(id).await.unwrap();
        raw.remove("_tenure");
        for line in raw.get_array_mut("lines").into_iter().flatten() {
            let line = line.as_document_mut().unwrap();
            line.remove("_tenure");
            for part in line.get_array_mut("parts").into_iter().flatten() {
                part.as_document_mut().unwrap().remove("_tenure");
            }
        }
        mongodb::bson::deserialize_from_document(raw).unwrap()
    }

    /// Changes an order as a program without locks does.
    pub(crate) async fn meddle(&self, id: i32, update: Document) {
        self.orders.update_one(doc! { "_id": id }, update).await.unwrap();
    }
}
