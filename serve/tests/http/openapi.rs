//! The document `openapi.json`: each path and method answers with a documented status and schema.

use serde_json::{Value, json};
use tenure_serve::{Role, serve};

use crate::kit::{TestServer, join, store};

/// A request, and the status of its answer.
struct Example {
    method: &'static str,
    path: &'static str,
    body: Value,
    status: u16,
}

fn example(method: &'static str, path: &'static str, body: Value, status: u16) -> Example {
    Example { method, path, body, status }
}

#[tokio::test]
async fn each_path_and_method_answers_as_documented() {
    let (memory, locks) = store();
    let holder = join(&memory, "k", "holder").await.to_string();
    let number = locks.line("k").await.unwrap()[0].number;
    let server = TestServer::of(serve(&locks).role(Role::Ask)).await;
    let document = server.json("/v1/openapi.json").await;
    let none = Value::Null;
    let id = json!({ "id": "0123456789abcdef" });
    let renewal = json!({ "id": "0123456789abcdef", "number": 1 });
    let waits = json!({ "id": "0123456789abcdef", "wait_ms": 1 });
    let terraform = json!({ "ID": "0123456789abcdef", "Who": "ana" });
    let examples = [
        example("get", "/", none.clone(), 200),
        example("get", "/page.css", none.clone(), 200),
        example("get", "/page.js", none.clone(), 200),
        example("get", "/icon.svg", none.clone(), 200),
        example("get", "/metrics", none.clone(), 200),
        example("get", "/v1/openapi.json", none.clone(), 200),
        example("get", "/v1/keys", none.clone(), 200),
        example("get", "/v1/keys?limit=0", none.clone(), 400),
        example("get", "/v1/lines/{key}", none.clone(), 200),
        example("get", "/v1/guarantees", none.clone(), 200),
        example("get", "/v1/health", none, 200),
        example("post", "/v1/locks/{key}", waits, 202),
        example("put", "/v1/locks/{key}", renewal.clone(), 410),
        example("delete", "/v1/locks/{key}", id.clone(), 200),
        example("put", "/v1/locks/{key}", renewal, 410),
        example("post", "/v1/locks/{key}", id.clone(), 423),
        example("post", "/v1/locks/{key}", json!({}), 400),
        example("post", "/v1/terraform/{key}", terraform.clone(), 423),
        example("delete", "/v1/terraform/{key}", terraform, 409),
        example(
            "post",
            "/v1/lines/{key}/break",
            json!({ "ticket": holder, "number": number }),
            200,
        ),
        example("post", "/v1/lines/{key}/break", json!({}), 400),
    ];
    let mut paths = document["paths"].clone();
    for Example { method, path, body, status } in examples {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len().to_string();
        let headers = [
            ("Tenure-Request", "1"),
            ("Content-Type", "application/json"),
            ("Content-Length", length.as_str()),
        ];
        let head = server.head(&method.to_uppercase(), &path.replace("{key}", "k"), &headers);
        let answer = server.send(&head, &body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let path = path.split('?').next().unwrap();
        let responses = &document["paths"][path][method]["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let content = &resolved(&document, response)["content"];
        let (kind, content) = content.as_object().unwrap().iter().next().unwrap();
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{path}: {}", answer.head);
        if kind == "application/json" {
            let faults = faults(&document, &content["schema"], &answer.json());
            assert_eq!(faults, Vec::<String>::new(), "{method} {path}: {answer:?}");
        }
        paths[path].as_object_mut().unwrap().remove(method);
    }
    // A stream has no end: see `streams`.
    paths["/v1/watch"].as_object_mut().unwrap().remove("get");
    for (path, rest) in paths.as_object().unwrap() {
        let rest: Vec<_> = rest.as_object().unwrap().keys().collect();
        assert!(rest.is_empty() || rest == ["parameters"], "{path} has no example: {rest:?}");
    }
    server.end().await;
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).expect("what a $ref names"),
        None => schema,
    }
}

/// The differences of a value from its schema.
fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let schema = resolved(document, schema);
    let mut found = Vec::new();
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        Value::Null => Vec::new(),
        kind => vec![kind.clone()],
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| has_kind(value, kind.as_str().unwrap())) {
        found.push(format!("{value} is no {kinds:?}"));
    }
    let allowed = schema["enum"].as_array().cloned();
    let allowed = allowed.or_else(|| schema.get("const").map(|only| vec![only.clone()]));
    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
        found.push(format!("{value} is not among {}", schema["enum"]));
    }
    if let Value::Object(fields) = value {
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
        found.extend(missing.map(|name| format!("{name} is missing")));
        if let Some(properties) = schema["properties"].as_object() {
            for (name, value) in fields {
                match properties.get(name) {
                    Some(schema) => found.extend(faults(document, schema, value)),
                    None => found.push(format!("{name} is not documented")),
                }
            }
        }
    }
    if let (Value::Array(items), Some(schema)) = (value, schema.get("items")) {
        found.extend(items.iter().flat_map(|item| faults(document, schema, item)));
    }
    found
}

fn has_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    }
}
