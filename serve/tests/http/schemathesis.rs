//! Requests that Schemathesis makes from the document `openapi.json`.

use std::fs;
use std::process::{Command, Stdio};

use tenure_serve::{Role, serve};
use tenure_servers::{Tool, have};

use crate::kit::{TestServer, store};

/// A program of Python, which few machines have.
const SCHEMATHESIS: Tool =
    Tool::program("schemathesis", "python3-pip, and with it schemathesis").not_required();
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,unsupported_method";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_undocumented_answer() {
    if !have(&[SCHEMATHESIS]) {
        return;
    }
    let (_, locks) = store();
    let server = TestServer::of(serve(&locks).role(Role::Force)).await;
    let mut document = server.json("/v1/openapi.json").await;
    // Its requests do not wait for each other, and it reads each answer to its end.
    document["components"]["schemas"]["Acquire"]["properties"]["wait_ms"]["maximum"] = 1.into();
    document["paths"].as_object_mut().unwrap().remove("/v1/watch");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    fs::write(&file, document.to_string()).unwrap();
    let mut command = Command::new("timeout");
    command
        .args(["60", "schemathesis", "run"])
        .arg(file)
        .args(["--url", &format!("http://{}", server.address)]);
    command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"]);
    command.args(["--max-examples", "5", "--generation-deterministic", "--no-color"]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    server.end().await;
}
