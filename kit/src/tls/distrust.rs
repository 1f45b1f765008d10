//! TLS ended because of a certificate: which one, what is wrong with it, and the way out.

use tenure_core::Error;

use super::Files;

/// What is wrong with a server's certificate: by the words of TLS, and what a sentence says of it.
const OF_SERVER: [(&[&str], &str); 6] = [
    (
        &["certificate expired", "certificate: Expired"],
        "has expired by the clock of this machine: renew it",
    ),
    (
        &["certificate not valid yet", "certificate: NotValidYet"],
        "is not valid yet by the clock of this machine: set the clock, or make the certificate anew",
    ),
    (
        &["CaUsedAsEndEntity"],
        "is an authority's, which no server may show: give the server one that says `CA:FALSE`",
    ),
    (
        &["extended key usage for server", "certificate: InvalidPurpose"],
        "is not for servers: give the server one with the purpose `serverAuth`",
    ),
    (
        &["UnsupportedCertVersion"],
        "is not X.509 of version 3: make it anew, with the server's names as `subjectAltName`",
    ),
    (
        &["UnsupportedSignatureAlgorithmContext"],
        "is signed in a way that is not trusted, such as SHA-1: make it anew, with SHA-256",
    ),
];
/// No authority that is trusted signed it. The last two are said where one has the same name as the authority that did.
const BY_NOBODY_KNOWN: [&str; 3] = [
    "certificate: UnknownIssuer",
    "certificate: BadSignature",
    "certificate: UnsupportedSignatureAlgorithmForPublicKey",
];
const OTHER_NAMES: [&str; 2] = ["not valid for name", "certificate: NotValidForName"];
/// The names that a certificate is for follow these words.
const ITS_NAMES: &str = "is only valid for ";
/// The server says what it does not like about the client's certificate.
const ALERT: &str = "received fatal alert: ";

impl Files {
    /// What is said of servers whose TLS ended because of a certificate, if that is what was heard: to ask again does not help.
    ///
    /// ```
    /// use tenure_kit::tls::Files;
    ///
    /// let files = Files { ca: Some("ca.pem".into()), ..Files::default() };
    /// let error = files.distrust("etcd at h", "invalid peer certificate: UnknownIssuer").unwrap();
    /// assert!(error.to_string().contains("ca.pem"), "it is named already, and is another authority's");
    /// assert!(files.distrust("etcd at h", "connection reset by peer").is_none());
    /// ```
    pub fn distrust(&self, whom: &str, heard: &str) -> Option<Error> {
        let alert = heard.split_once(ALERT).map(|(_, alert)| alert);
        let sentence = match alert {
            Some(alert) if alert.starts_with("UnknownCA") || alert.contains("Certificate") => {
                self.refused(whom, alert)
            }
            None if BY_NOBODY_KNOWN.iter().any(|words| heard.contains(words)) => {
                self.signed_by_nobody_known(whom)
            }
            _ => return distrust(whom, heard),
        };
        Some(Error::rejected(sentence))
    }

    fn signed_by_nobody_known(&self, whom: &str) -> String {
        let whose = match &self.ca {
            Some(ca) => format!("in {}, which `ca` names", ca.display()),
            None => "that this machine trusts".into(),
        };
        format!(
            "the certificate of {whom} is signed by no authority {whose}: name the one that signed it as `ca=FILE`"
        )
    }

    fn refused(&self, whom: &str, alert: &str) -> String {
        let Some(cert) = &self.cert else {
            return format!(
                "{whom} wants a certificate of this client: name one as `cert=FILE` and `key=FILE`"
            );
        };
        let hint = if alert.contains("Expired") {
            "it has expired, renew it"
        } else {
            "name one that is signed by an authority that the server trusts"
        };
        format!("{whom} refuses the certificate in {}, which `cert` names: {hint}", cert.display())
    }
}

/// What is said whichever files are named.
fn distrust(whom: &str, heard: &str) -> Option<Error> {
    if !heard.to_ascii_lowercase().contains("certificate") {
        return None;
    }
    let is_heard = |words: &[&str]| words.iter().any(|words| heard.contains(words));
    let told = OF_SERVER.iter().find(|(words, _)| is_heard(words));
    let sentence = if let Some((_, told)) = told {
        format!("the certificate of {whom} {told}")
    } else if is_heard(&OTHER_NAMES) {
        of_other_names(whom, heard)
    } else {
        format!(
            "{whom} and this client do not trust each other's certificates: name the authority that signed the servers' as `ca=FILE`, and a certificate of the client's own, if they want one, as `cert=FILE` and `key=FILE` (it says: {heard})"
        )
    };
    Some(Error::rejected(sentence))
}

fn of_other_names(whom: &str, heard: &str) -> String {
    let names = heard.split_once(ITS_NAMES).map(|(_, names)| {
        names.replace("DnsName(", "").replace("IpAddress(", "").replace([')', '"'], "")
    });
    let only = names.map_or(String::new(), |names| format!(", which are {names}"));
    format!(
        "the certificate of {whom} is for other names{only}: write the servers as it names them"
    )
}
