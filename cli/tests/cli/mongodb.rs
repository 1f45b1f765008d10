//! The command on MongoDB: a line that was changed by hand.

use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Server, doc};

use crate::kit::{Store, field};

#[test]
fn a_line_that_cannot_be_read_is_reported_and_hides_no_other() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().unwrap();
    let store = Store::at(server.url());
    let _holder = store.start(&["run", "a", "--", "sleep", "600"]);
    let _holders = store.start(&["run", "b", "--", "sleep", "600"]);
    store.line_has("a", 1);
    store.line_has("b", 1);
    let id = field(&store.line("a")[0], "id").to_owned();
    // Another version of Tenure may write another format.
    let spoil = doc! { "q": { "key": "a" }, "u": { "$set": { "of": "all" } } };
    server.command("tenure", doc! { "update": "locks", "updates": [spoil] }).unwrap();
    let listed = "{\"key\":\"b\",\"holding\":1,\"waiting\":0}\n";
    for (words, out) in
        [(&["keys", "--json"][..], listed), (&["line", "a"], ""), (&["break", "a"], "")]
    {
        let end = store.end(&[&["--quiet"], words].concat());
        assert_eq!((end.code, end.out.as_str()), (77, out), "{words:?}: {end:?}");
        let is_reported = end.err.starts_with("tenure: a ticket in the line cannot be read");
        assert!(is_reported && end.err.contains("\"a\""), "{end:?}");
        assert_eq!(end.err.lines().count(), 1, "{end:?}");
    }
    let holders = store.end(&["--quiet", "ps", "--json"]);
    assert!(holders.code == 77 && holders.err.contains("\"a\""), "{holders:?}");
    assert_eq!((holders.out.lines().count(), field(&holders.out, "key")), (1, "b"));
    let hint = store.end(&["--quiet", "break", "a"]).err;
    assert!(hint.contains("name the ticket with --ticket and its whole id"), "{hint}");
    // The store cannot read this line, and refuses to break a ticket of it.
    assert_eq!(store.end(&["--quiet", "break", "a", "--ticket", &id]).code, 77);
}
