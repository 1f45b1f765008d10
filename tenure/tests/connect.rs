//! The stores that URLs open, and the errors for URLs that open none.

use tenure::blocking::block_on;
use tenure::guarantees::Guarantee;
use tenure::{Error, ErrorKind, connect};

fn refused(url: &str) -> Error {
    block_on(connect(url)).unwrap_err()
}

#[test]
fn a_name_is_a_store_and_another_name_is_another_store() {
    block_on(async {
        let guard = connect("memory:a").await.unwrap().mutex("k").lock().await.unwrap();
        let same = connect("memory:a").await.unwrap();
        assert!(same.mutex("k").try_lock().await.unwrap().is_none());
        for other in ["memory:b", "memory:"] {
            assert!(connect(other).await.unwrap().mutex("k").try_lock().await.unwrap().is_some());
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn a_wrong_url_gets_an_error_with_a_remedy() {
    for (url, kind, sentence) in [
        (
            "carrier-pigeon://coop",
            ErrorKind::Invalid,
            "no engine answers to the scheme `carrier-pigeon:`",
        ),
        ("memory:?ttl=5", ErrorKind::Invalid, "a URL of `memory:` has no options"),
        ("locks", ErrorKind::Invalid, "write file:locks for a directory"),
        ("", ErrorKind::Invalid, "write file:PATH for a directory"),
    ] {
        let error = refused(url);
        assert_eq!(error.kind(), kind, "{url}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

#[test]
fn no_error_contains_a_password() {
    for url in [
        "nosuch://user:secret@host/0",
        "user:secret@host",
        "secret@host",
        "redis://:secret@127.0.0.1:1",
        "redis:secret",
        "redlock://:secret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "redis://user:secret@host/secret?secret=secret",
    ] {
        let error = refused(url);
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn a_guarantee_that_the_store_does_not_give_is_refused() {
    let locks = block_on(connect("memory:")).unwrap();
    locks.require(&[Guarantee::Fair, Guarantee::Push, Guarantee::HolderPause]).unwrap();
    let error = locks.require(&[Guarantee::Fair, Guarantee::StoreCrash]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "memory does not promise to keep its locks when it crashes: use a store that does, or do without"
    );
}
