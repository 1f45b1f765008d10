//! The page of `tenure serve` in a real browser, driven by the protocol `WebDriver`.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_servers::{CHROMEDRIVER, CHROMIUM, have};

use crate::kit::{PATIENCE, Store, eventually};
use crate::serve::{FREE_PORT, Server};

/// The member of an answer that has the name of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A tab of a browser. Drop ends the browser.
struct Tab {
    driver: Child,
    address: String,
    session: String,
    _profile: TempDir,
}

impl Tab {
    fn open() -> Self {
        let mut driver = Command::new(CHROMEDRIVER.found().unwrap());
        driver.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = driver.arg("--port=0").spawn().unwrap();
        let output = BufReader::new(driver.stdout.take().unwrap());
        let mut lines = output.lines().map(Result::unwrap);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let address = format!("127.0.0.1:{}", port.expect("chromedriver prints its port"));
        // The driver must not wait for a reader of its output.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless=new".to_owned(),
            // The tests may run as root, and in a container.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--window-size=1200,800".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let mut tab = Self { driver, address, session: String::new(), _profile: profile };
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": CHROMIUM.found().unwrap(), "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let session = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let session = tab.send("POST", "/session", &session);
        tab.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        tab
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, mut answer) = self.ask(method, path, body).unwrap();
        assert!(status.contains(" 200 "), "{path}: {status}: {answer}");
        answer["value"].take()
    }

    /// Returns the line with the status, and the body. The driver does not close its connections.
    fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<(String, Value)> {
        let (host, body) = (&self.address, body.to_string());
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        let kind = "Content-Type: application/json";
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut stream = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        Ok((status, serde_json::from_slice(&answer)?))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", &format!("{}/{path}", self.session), body)
    }

    fn visit(&self, server: &Server, path: &str) {
        self.post("url", &json!({ "url": format!("http://{}{path}", server.address) }));
    }

    /// The value of an expression of JavaScript in the page.
    fn value(&self, expression: &str) -> Value {
        self.post("execute/sync", &json!({ "script": format!("return {expression}"), "args": [] }))
    }

    /// Waits until an expression is true.
    fn shows(&self, what: &str, expression: &str) {
        eventually(what, || self.value(expression) == json!(true));
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    fn click(&self, selector: &str) {
        self.post(&format!("element/{}/click", self.element(selector)), &json!({}));
    }

    fn types(&self, selector: &str, text: &str) {
        let path = format!("element/{}/value", self.element(selector));
        self.post(&path, &json!({ "text": text }));
    }

    /// Writes a picture of the page to the folder of this build's test files.
    fn picture(&self, name: &str, scheme: &str) {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let emulate = json!({
            "cmd": "Emulation.setEmulatedMedia", "params": { "features": scheme },
        });
        self.post("goog/cdp/execute", &emulate);
        let picture = self.send("GET", &format!("{}/screenshot", self.session), &json!({}));
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}.png"));
        fs::write(file, decoded(picture.as_str().unwrap())).unwrap();
    }

    /// The errors in the console.
    fn errors(&self) -> Vec<Value> {
        let log = self.post("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().unwrap().iter();
        entries.filter(|entry| entry["level"] == json!("SEVERE")).cloned().collect()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // Ends the browser. It may have ended.
        let _ = self.ask("DELETE", &self.session, &json!({}));
        let _ = self.driver.kill(); // it may have ended
        let _ = self.driver.wait();
    }
}

/// The bytes of a text in base 64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.chars().filter_map(|letter| DIGITS.find(letter)?.try_into().ok());
    let digits: Vec<u32> = digits.collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        bits.to_be_bytes().into_iter().skip(1).take(group.len() - 1)
    });
    groups.collect()
}

/// The rows of the open line.
const TICKETS: &str = "document.querySelectorAll('#line tbody tr')";

#[test]
fn the_page_shows_a_line_and_ends_a_hold_in_a_browser() {
    if !have(&[CHROMIUM, CHROMEDRIVER]) {
        return;
    }
    let store = Store::new();
    let hold = "echo $0 >>$LOG; exec sleep 600.125";
    let first = store.start(&["run", "jobs/1", "--", "sh", "-c", hold, "first"]);
    store.log_has("first");
    let mut waiters = Vec::new();
    for at in 2..=4 {
        waiters.push(store.start(&["run", "jobs/1", "--", "sh", "-c", hold, "next"]));
        store.line_has("jobs/1", at);
    }
    let looking = Server::start(&store, &FREE_PORT);
    let asking = Server::start(&store, &[&FREE_PORT[..], &["--role", "ask"]].concat());
    let tab = Tab::open();

    // a visitor who may only look
    tab.visit(&looking, "/?key=jobs%2F1");
    tab.shows("a holder and three waiters", &format!("{TICKETS}.length === 4"));
    tab.shows("the stream", "document.getElementById('live').textContent === 'live'");
    let waiting = "document.querySelector('#keys tr[data-key] td:last-child').textContent";
    assert_eq!(tab.value(waiting), json!("3"));
    assert_eq!(tab.value("document.querySelectorAll('button.danger').length"), json!(0));
    tab.picture("light", "light");
    tab.picture("dark", "dark");
    assert_eq!(tab.value("matchMedia('(prefers-color-scheme: dark)').matches"), json!(true));

    // the open line makes the table of keys no wider than the page
    let fits = "document.getElementById('keys').offsetWidth <= \
                document.getElementById('keys').parentElement.clientWidth";
    assert_eq!(tab.value(fits), json!(true));
    let scrolls = "document.querySelector('#line .scroll').scrollWidth > \
                   document.querySelector('#line .scroll').clientWidth";
    assert_eq!(tab.value(scrolls), json!(false), "all columns are visible");

    // a key that no path has as a segment
    let dots = store.start(&["run", "..", "--", "sleep", "600.125"]);
    store.line_has("..", 1);
    tab.shows("the row", "document.querySelector('#keys tr[data-key=\"..\"] a') !== null");
    tab.click("#keys tr[data-key='..'] a");
    tab.shows(
        "its line",
        &format!("{TICKETS}.length === 1 && {TICKETS}[0].cells[1].textContent === 'holding'"),
    );
    drop(dots);

    // a tab that was hidden
    for is_hidden in [true, false] {
        tab.value(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}) && \
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    }
    let missed = "/^This tab was hidden for [0-9]+m?s: /";
    tab.shows(
        "the mark",
        &format!("{missed}.test(document.querySelector('#log .gap')?.textContent)"),
    );
    tab.shows("the stream again", "document.getElementById('live').textContent === 'live'");

    // an event, without a reload
    tab.value("(window.mark = 1)");
    store.output(&["run", "other", "--", "true"]);
    let event = "document.querySelector('#log .served strong')?.textContent === 'other'";
    tab.shows("an event", event);
    assert_eq!(tab.value("window.mark"), json!(1));

    // a visitor who may ask
    tab.visit(&asking, "/?key=jobs%2F1");
    tab.shows("the button", "document.querySelector('button.danger') !== null");
    tab.click("button.danger");
    assert_eq!(tab.value("document.getElementById('confirm').disabled"), json!(true));
    tab.types("#typed", "jobs/1");
    tab.picture("dialog", "light");
    tab.click("#confirm");
    assert_eq!(first.end().code, 79, "its lock was lost");
    store.log_has("next");
    tab.shows("three tickets", &format!("{TICKETS}.length === 3"));
    assert_eq!(tab.errors(), Vec::<Value>::new());
    let own =
        "performance.getEntriesByType('resource').every(it => it.name.startsWith(location.origin))";
    assert_eq!(tab.value(own), json!(true));

    // a page of another origin
    tab.visit(&looking, "/");
    let ticket = asking.json("/v1/lines/jobs%2F1")["tickets"][0].clone();
    let body = json!({ "ticket": ticket["ticket"], "number": ticket["number"] }).to_string();
    let address = format!("http://{}/v1/lines/jobs%2F1/break", asking.address);
    let script = "const [address, body, done] = arguments; \
         fetch(address, { method: 'POST', headers: { 'Tenure-Request': '1' }, body }) \
             .then(() => done('sent'), error => done(error.name))";
    let refused = json!({ "script": script, "args": [address, body] });
    assert_eq!(tab.post("execute/async", &refused), json!("TypeError"));
    assert_eq!(asking.json("/v1/lines/jobs%2F1")["tickets"][0]["state"], json!("holding"));
}
