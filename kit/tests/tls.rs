//! The files of TLS: each of them is what it should be, or is named with what it is, and no key is ever shown.

use std::fs;

use tenure_core::{Error, ErrorKind};
use tenure_kit::tls::Files;

const SECRET: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";

fn pem(label: &str) -> String {
    format!("-----BEGIN {label}-----\n{SECRET}\n-----END {label}-----\n")
}

/// What is said of a key that stands in such a file.
fn said_of_key(name: &str, text: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let (cert, path) = (folder.path().join("cert.pem"), folder.path().join(name));
    fs::write(&cert, pem("CERTIFICATE")).unwrap();
    fs::write(&path, text).unwrap();
    let read = Files { ca: None, cert: Some(cert), key: Some(path.clone()) }.identity();
    let said = read.map(drop).map_err(|error: Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    });
    let start = format!("`key`: {}", path.display());
    said.map_err(|said| {
        assert!(!said.contains(SECRET) && !said.contains("[77, 73"), "{said}");
        said.strip_prefix(&start).unwrap_or_else(|| panic!("{said}")).trim().to_owned()
    })
}

#[test]
fn keys_are_taken_however_they_are_written() {
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        said_of_key("usual", pem(label).as_bytes()).unwrap();
    }
    let lines = pem("PRIVATE KEY").replace('\n', "\r\n");
    said_of_key("windows", lines.as_bytes()).unwrap();
    let both = format!("words about it\n{}{}", pem("CERTIFICATE"), pem("PRIVATE KEY"));
    said_of_key("both", both.as_bytes()).unwrap();
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_named_and_no_key_is_shown() {
    let key = pem("PRIVATE KEY");
    let broken = "has a part in PEM that does not begin or end on a line of its own: were its lines joined, or its end cut off?";
    let locked =
        "has a private key that is locked with a password: write one without, with `openssl pkey`";
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
            "a line of what is no key\n".repeat(50_000),
            "has more than a megabyte: that is no file of certificates or of a key",
        ),
    ] {
        assert_eq!(said_of_key(name, text.as_bytes()).unwrap_err(), sentence, "{name}");
    }
    let strange = [&b"-----BEGIN \xff"[..], key.replace('\n', " ").as_bytes()].concat();
    assert_eq!(said_of_key("strange", &strange).unwrap_err(), broken);
    let absent = Files { ca: Some("/nowhere/ca.pem".into()), ..Files::default() };
    let error = absent.authorities().map(drop).unwrap_err();
    assert!(error.to_string().starts_with("`ca`: /nowhere/ca.pem cannot be read"), "{error}");
}

#[test]
fn a_key_of_another_certificate_is_told_with_both_files() {
    let (cert, key) = (Some("me.pem".into()), Some("you.key".into()));
    let files = Files { ca: Some("ca.pem".into()), cert, key };
    assert_eq!(
        files.unusable("keys may not be consistent: KeyMismatch").to_string(),
        "`key`: you.key does not belong to the certificate in `cert`, me.pem: name the key that the certificate was made with"
    );
    assert_eq!(
        files.unusable("something else").to_string(),
        "`ca` ca.pem, `cert` me.pem, `key` you.key cannot be used for TLS: something else"
    );
}

#[test]
#[cfg(unix)]
fn a_pipe_that_nobody_writes_into_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (told, hears) = std::sync::mpsc::channel();
    for path in [pipe, folder.path().to_owned()] {
        let (files, told) = (Files { ca: Some(path), ..Files::default() }, told.clone());
        std::thread::spawn(move || told.send(files.authorities().unwrap_err().to_string()));
    }
    for _ in 0..2 {
        let said = hears.recv_timeout(std::time::Duration::from_secs(60)).expect("it is refused");
        assert!(said.contains("is no regular file"), "{said}");
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_its_own_way_out() {
    for (heard, way_out) in [
        ("invalid peer certificate: UnknownIssuer", "`ca=FILE`"),
        ("received fatal alert: CertificateRequired", "`cert=FILE` and `key=FILE`"),
        (
            "invalid peer certificate: certificate not valid for name \"h\"",
            "write the servers as it names them",
        ),
        ("invalid peer certificate: certificate expired: verification time", "renew it"),
    ] {
        let error =
            Files::default().distrust("etcd at h", heard).expect("it is about a certificate");
        let said = error.to_string();
        assert!(error.kind() == ErrorKind::Rejected && said.contains(way_out), "{said}");
    }
    assert!(Files::default().distrust("etcd at h", "tls handshake eof").is_none());
}

#[test]
fn the_way_out_of_a_wrong_certificate_goes_by_the_files_that_are_named() {
    const UNKNOWN: &str = "invalid peer certificate: UnknownIssuer";
    const AUTHORITY: &str = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
    const OTHER: &str = "invalid peer certificate: certificate not valid for name \"h\"; certificate is only valid for DnsName(\"a.b\") or IpAddress(10.0.0.1)";
    let none = Files::default();
    let ca = Files { ca: Some("ca.pem".into()), ..Files::default() };
    let cert = Files { cert: Some("me.pem".into()), key: Some("me.key".into()), ..ca.clone() };
    for (files, heard, sentence) in [
        (
            &none,
            UNKNOWN,
            "the certificate of etcd at h is signed by no authority that this machine trusts: name the one that signed it as `ca=FILE`",
        ),
        (
            &ca,
            UNKNOWN,
            "the certificate of etcd at h is signed by no authority in ca.pem, which `ca` names: name the one that signed it as `ca=FILE`",
        ),
        (
            &ca,
            "invalid peer certificate: BadSignature",
            "the certificate of etcd at h is signed by no authority in ca.pem, which `ca` names: name the one that signed it as `ca=FILE`",
        ),
        (
            &ca,
            AUTHORITY,
            "the certificate of etcd at h is an authority's, which no server may show: give the server one that says `CA:FALSE`",
        ),
        (
            &ca,
            OTHER,
            "the certificate of etcd at h is for other names, which are a.b or 10.0.0.1: write the servers as it names them",
        ),
        (
            &ca,
            "invalid peer certificate: certificate expired: verification time 9 (UNIX)",
            "the certificate of etcd at h has expired by the clock of this machine: renew it",
        ),
        (
            &ca,
            "invalid peer certificate: Expired",
            "the certificate of etcd at h has expired by the clock of this machine: renew it",
        ),
        (
            &ca,
            "received fatal alert: CertificateRequired",
            "etcd at h wants a certificate of this client: name one as `cert=FILE` and `key=FILE`",
        ),
        (
            &cert,
            "received fatal alert: UnknownCA",
            "etcd at h refuses the certificate in me.pem, which `cert` names: name one that is signed by an authority that the server trusts",
        ),
        (
            &cert,
            "received fatal alert: CertificateExpired",
            "etcd at h refuses the certificate in me.pem, which `cert` names: it has expired, renew it",
        ),
    ] {
        let error = files.distrust("etcd at h", heard).expect("it is about a certificate");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Rejected, sentence.to_owned()));
    }
    assert!(cert.distrust("etcd at h", "received fatal alert: ProtocolVersion").is_none());
}
