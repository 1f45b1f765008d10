//! The service behind a real nginx, with the configuration in `observe/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_core::Locks;
use tenure_serve::{Role, serve};
use tenure_servers::{Certificates, NGINX, have};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use crate::kit::{Answer, Events, PATIENCE, TestServer, join, store};
use crate::observe::folder;

/// `ana:secret` in the basic scheme.
const ANA: &str = "Authorization: Basic YW5hOnNlY3JldA==\r\n";

/// A proxy that listens on sockets in a folder of its own.
struct Nginx {
    folder: tempfile::TempDir,
    process: Child,
    _certificates: Certificates,
}

impl Nginx {
    async fn before(server: &TestServer) -> Self {
        let (folder, certificates) = (tempfile::tempdir().unwrap(), Certificates::new().unwrap());
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("htpasswd"), "ana:{PLAIN}secret\n").unwrap();
        let ports = format!("listen unix:{} ssl; listen unix:{};", at("tls"), at("plain"));
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {};", at(name)));
        let http = format!("http {{ access_log off; {}", temporary.concat());
        let file = |path: PathBuf| path.display().to_string();
        let mut text = fs::read_to_string(self::folder().join("nginx.conf")).unwrap();
        for (is, becomes) in [
            ("http {", http),
            ("listen 443 ssl;", ports),
            ("127.0.0.1:7400;", format!("{};", server.address)),
            ("/etc/nginx/locks.pem", file(certificates.server())),
            ("/etc/nginx/locks.key", file(certificates.server_key())),
            ("/etc/nginx/locks.htpasswd", at("htpasswd")),
        ] {
            assert!(text.contains(is), "{is}");
            text = text.replace(is, &becomes);
        }
        // One process, which reads its files as the user of the test.
        let head = format!("daemon off; master_process off; pid {};\n", at("pid"));
        fs::write(at("nginx.conf"), head + &text).unwrap();
        let log = fs::File::create(at("log")).unwrap();
        let mut command = Command::new(NGINX.name);
        command.args(["-c", &at("nginx.conf"), "-e", "stderr"]).stderr(log);
        let process = command.spawn().unwrap();
        let proxy = Self { folder, process, _certificates: certificates };
        let began = Instant::now();
        while UnixStream::connect(proxy.socket()).await.is_err() {
            let log = fs::read_to_string(proxy.folder.path().join("log")).unwrap();
            assert!(began.elapsed() < PATIENCE, "nginx does not listen: {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("plain")
    }

    async fn send(&self, request: &str, headers: &str, body: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: locks.example.org\r\nConnection: close\r\n\
             Content-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await.unwrap();
        stream
    }

    async fn answer(&self, request: &str, headers: &str, body: &str) -> Answer {
        Answer::read(self.send(request, headers, body).await).await
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn nginx_passes_the_page_events_metrics_and_the_name_of_its_user() {
    if !have(&[NGINX]) {
        return;
    }
    assert!(Path::new(NGINX.name).is_absolute());
    let (memory, locks): (_, Locks) = store();
    join(&memory, "k", "holder").await;
    let records = Arc::new(Mutex::new(Vec::new()));
    let kept = records.clone();
    let service = serve(&locks)
        .role(Role::Ask)
        .trust_header("x-forwarded-user".parse().unwrap())
        .hosts(["locks.example.org"])
        .on_break(move |record| kept.lock().unwrap().push(record.who.clone()));
    let server = TestServer::of(service).await;
    let proxy = Nginx::before(&server).await;

    assert_eq!(proxy.answer("GET /", "", "").await.status, 401);
    let page = proxy.answer("GET /", ANA, "").await;
    assert!(page.status == 200 && page.body.contains("holder"), "{page:?}");
    assert!(proxy.answer("GET /metrics", ANA, "").await.body.contains("tenure_store_up{"));

    let stream = proxy.send("GET /v1/watch", ANA, "").await;
    let mut events = Events { stream, text: String::new() };
    events.until("id: ").await;
    join(&memory, "k", "late").await;
    // Nothing follows this event, so it was not buffered.
    events.until("\"owner\":\"late\"").await;

    let ticket = locks.line("k").await.unwrap().remove(0);
    let body = json!({ "ticket": ticket.id.to_string(), "number": ticket.number }).to_string();
    let headers = format!("{ANA}X-Forwarded-User: mallory\r\nTenure-Request: 1\r\n");
    let headers = headers + "Origin: https://locks.example.org\r\n";
    let answer = proxy.answer("POST /v1/lines/k/break", &headers, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(*records.lock().unwrap(), ["ana"]);
    drop(events);
    server.end().await;
}
