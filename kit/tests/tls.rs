//! TLS: an unusable file is named, no key is ever shown, and errors about certificates are found.

use std::fs;

use tenure_core::{Error, ErrorKind};
use tenure_kit::tls::{Identity, Pem, Tls};

const SECRET: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";

fn pem(label: &str) -> String {
    format!("-----BEGIN {label}-----\n{SECRET}\n-----END {label}-----\n")
}

/// Asserts that a key in memory is read, or refused, as its file is.
fn assert_as_in_memory(file: &Result<Option<Identity>, Error>, tls: &Tls) {
    assert!(!format!("{tls:?}").contains(SECRET), "{tls:?}");
    let words = |read: &Result<Option<Identity>, Error>| {
        let error = read.as_ref().map(drop).err()?.to_string();
        // The sentences are the same after the name of the file, and "in memory".
        Some(error.split_once(" has ").or(error.split_once(" is "))?.1.to_owned())
    };
    let memory = tls.read_identity();
    assert_eq!(words(file), words(&memory));
    if let Err(error) = memory {
        assert!(error.to_string().starts_with("`key` in memory "), "{error}");
    }
}

/// Reads a file as a key, and returns the error without the name of the file.
fn read_key(name: &str, text: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let (cert, path) = (folder.path().join("cert.pem"), folder.path().join(name));
    fs::write(&cert, pem("CERTIFICATE")).unwrap();
    fs::write(&path, text).unwrap();
    let read = Tls::new().identity(Pem::File(cert.clone()), Pem::File(path.clone()));
    let read = read.read_identity();
    assert_as_in_memory(&read, &Tls::new().identity(Pem::File(cert), Pem::Bytes(text.to_vec())));
    let read = read.map(drop).map_err(|error: Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    });
    let start = format!("`key`: {}", path.display());
    read.map_err(|error| {
        assert!(!error.contains(SECRET) && !error.contains("[77, 73"), "{error}");
        error.strip_prefix(&start).unwrap_or_else(|| panic!("{error}")).trim().to_owned()
    })
}

#[test]
fn keys_are_read_in_every_form() {
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        read_key("usual", pem(label).as_bytes()).unwrap();
    }
    let lines = pem("PRIVATE KEY").replace('\n', "\r\n");
    read_key("windows", lines.as_bytes()).unwrap();
    let both = format!("words about it\n{}{}", pem("CERTIFICATE"), pem("PRIVATE KEY"));
    read_key("both", both.as_bytes()).unwrap();
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_named_and_no_key_is_shown() {
    let key = pem("PRIVATE KEY");
    let broken = "has a PEM header or footer that does not stand alone on a line: check for joined lines and a missing end";
    let locked = "has an encrypted private key: remove the password with `openssl pkey`";
    for (name, text, sentence) in [
        ("joined", key.replace('\n', " "), broken),
        ("joined-wholly", key.replace('\n', ""), broken),
        ("cut", key[..key.len() - 10].to_owned(), broken),
        ("cut-before-the-end", key[..60].to_owned(), broken),
        ("crossed", key.replace("END PRIVATE", "END PUBLIC"), broken),
        ("twice-begun", format!("-----BEGIN PRIVATE KEY-----\n{key}"), broken),
        ("locked", pem("ENCRYPTED PRIVATE KEY"), locked),
        (
            "locked-of-old",
            key.replace(SECRET, &format!("Proc-Type: 4,ENCRYPTED\n\n{SECRET}")),
            locked,
        ),
        ("old-lines", key.replace('\n', "\r"), broken),
        ("certificate", pem("CERTIFICATE"), "has no private key in PEM, but a certificate"),
        (
            "indented",
            key.replace("-----BEGIN", " -----BEGIN").replace("-----END", " -----END"),
            "has no private key in PEM",
        ),
        ("empty", String::new(), "has no private key in PEM"),
        (
            "large",
            "a line without a key\n".repeat(50_000),
            "is larger than 1 MiB: give certificates or a key",
        ),
    ] {
        assert_eq!(read_key(name, text.as_bytes()).unwrap_err(), sentence, "{name}");
    }
    let strange = [&b"-----BEGIN \xff"[..], key.replace('\n', " ").as_bytes()].concat();
    assert_eq!(read_key("strange", &strange).unwrap_err(), broken);
    let absent = Tls::new().ca(Pem::File("/nowhere/ca.pem".into()));
    let error = absent.read_ca().map(drop).unwrap_err();
    assert!(error.to_string().starts_with("`ca`: /nowhere/ca.pem cannot be read"), "{error}");
}

#[test]
fn unusable_files_are_named_with_the_words_of_tls() {
    let (cert, key) = (Pem::File("me.pem".into()), Pem::File("you.key".into()));
    let tls = Tls::new().ca(Pem::File("ca.pem".into())).identity(cert.clone(), key);
    assert_eq!(
        tls.unusable("keys may not be consistent: KeyMismatch").to_string(),
        "`ca` ca.pem, `cert` me.pem, `key` you.key cannot be used for TLS: keys may not be consistent: KeyMismatch"
    );
    let tls = Tls::new().identity(cert, Pem::Bytes(SECRET.into()));
    assert_eq!(
        tls.unusable("KeyMismatch").to_string(),
        "`cert` me.pem, `key` in memory cannot be used for TLS: KeyMismatch"
    );
}

#[test]
#[cfg(unix)]
fn a_pipe_without_a_writer_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    for path in [pipe, folder.path().to_owned()] {
        let (tls, sender) = (Tls::new().ca(Pem::File(path)), sender.clone());
        std::thread::spawn(move || sender.send(tls.read_ca().unwrap_err().to_string()));
    }
    for _ in 0..2 {
        let error = receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("an error");
        assert!(error.contains("is not a regular file"), "{error}");
    }
}

#[cfg(feature = "tls")]
mod certificates {
    use std::io;
    use std::sync::Arc;

    use rustls::AlertDescription as Alert;
    use rustls::CertificateError as Certificate;
    use rustls::Error as Tls;
    use tenure_core::ErrorKind;
    use tenure_kit::tls::{certificate_error, certificate_error_in_text};

    fn io(error: Tls) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn a_certificate_error_names_the_server_the_option_and_the_words_of_tls() {
        for (error, options, words) in [
            (Tls::InvalidCertificate(Certificate::UnknownIssuer), "`ca=FILE`", "UnknownIssuer"),
            (Tls::InvalidCertificate(Certificate::BadSignature), "`ca=FILE`", "BadSignature"),
            (Tls::InvalidCertificate(Certificate::NotValidForName), "name in the URL", "ForName"),
            (Tls::InvalidCertificate(Certificate::Expired), "`ca=FILE`", "Expired"),
            (
                Tls::AlertReceived(Alert::CertificateRequired),
                "`cert=FILE` and `key=FILE`",
                "CertificateRequired",
            ),
            (Tls::AlertReceived(Alert::UnknownCA), "`cert=FILE` and `key=FILE`", "UnknownCA"),
            (
                Tls::AlertReceived(Alert::CertificateExpired),
                "`cert=FILE` and `key=FILE`",
                "CertificateExpired",
            ),
        ] {
            let text = error.to_string();
            let found = certificate_error("etcd at h", &io(error)).expect("it is a certificate's");
            for part in ["etcd at h", options, words] {
                assert!(found.to_string().contains(part), "{found}");
            }
            assert_eq!(found.kind(), ErrorKind::Rejected);
            let in_text = certificate_error_in_text("etcd at h", &format!("broken: {text}"));
            assert_eq!(in_text.map(|error| error.kind()), Some(ErrorKind::Rejected), "{text}");
        }
    }

    /// An error of a driver that holds its cause as `redis` does.
    #[derive(Debug)]
    struct Driver(Arc<dyn std::error::Error + Send + Sync>);

    impl std::fmt::Display for Driver {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the driver failed")
        }
    }

    impl std::error::Error for Driver {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_certificate_error_is_found_however_deep_it_is() {
        let error = io(Tls::InvalidCertificate(Certificate::UnknownIssuer));
        let error = Driver(Arc::new(io::Error::other(io::Error::other(error))));
        let error = io::Error::other(error);
        assert!(certificate_error("etcd at h", &error).is_some());
    }

    #[test]
    fn other_errors_are_not_taken_for_one_of_a_certificate() {
        for error in [
            io(Tls::AlertReceived(Alert::ProtocolVersion)),
            io(Tls::DecryptError),
            io::Error::other("invalid peer certificate: only words"),
            io::ErrorKind::ConnectionReset.into(),
        ] {
            assert!(certificate_error("etcd at h", &error).is_none(), "{error}");
        }
        for text in ["tls handshake eof", "received fatal alert: ProtocolVersion"] {
            assert!(certificate_error_in_text("etcd at h", text).is_none(), "{text}");
        }
    }
}
