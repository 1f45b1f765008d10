//! The paths of the service, and the methods of each.

use http::{Method, StatusCode};
use tenure_core::Key;

use crate::page::{self, PageFile};
use crate::query;
use crate::reply::HttpRefusal;

/// The description of the API for programs.
pub(crate) static OPENAPI: PageFile = PageFile {
    path: "/v1/openapi.json",
    kind: "application/json",
    text: include_str!("../openapi.json"),
};

/// The content or the action that a path names.
#[derive(Debug)]
pub(crate) enum Endpoint {
    Page,
    File(&'static PageFile),
    Keys,
    Guarantees,
    Health,
    Metrics,
    Watch,
    Line(Key),
    Break(Key),
    Lock(Key),
    Terraform(Key),
}

impl Endpoint {
    /// Reads a path. A key is one segment in percent-encoding.
    pub(crate) fn of(path: &str) -> Result<Self, HttpRefusal> {
        Ok(match path {
            "" | "/" => Self::Page,
            "/v1/keys" => Self::Keys,
            "/v1/guarantees" => Self::Guarantees,
            "/v1/health" => Self::Health,
            "/metrics" => Self::Metrics,
            "/v1/watch" => Self::Watch,
            _ if path == OPENAPI.path => Self::File(&OPENAPI),
            _ => {
                if let Some(file) = page::file(path) {
                    return Ok(Self::File(file));
                }
                let sentence = "there is nothing at this path";
                let unknown = || HttpRefusal::new(StatusCode::NOT_FOUND, sentence);
                let rest = path.strip_prefix("/v1/").ok_or_else(unknown)?;
                let (folder, rest) = rest.split_once('/').ok_or_else(unknown)?;
                match (folder, rest.split_once('/')) {
                    ("lines", None) => Self::Line(query::key(rest)?),
                    ("lines", Some((key, "break"))) => Self::Break(query::key(key)?),
                    ("locks", None) => Self::Lock(query::key(rest)?),
                    ("terraform", None) => Self::Terraform(query::key(rest)?),
                    _ => return Err(unknown()),
                }
            }
        })
    }

    /// Replaces the key `-` of the path by the key of the query. Only for `.` and `..`, which
    /// browsers and proxies remove from a path: for other keys, a rule of a proxy about paths stays
    /// true.
    pub(crate) fn with_key(mut self, dots: Option<&str>) -> Result<Self, HttpRefusal> {
        let (Self::Line(key) | Self::Break(key) | Self::Lock(key) | Self::Terraform(key)) =
            &mut self
        else {
            return Ok(self);
        };
        match dots {
            None => {}
            Some(dots @ ("." | "..")) if key.as_str() == "-" => *key = Key::new(dots)?,
            Some(_) => {
                let sentence = "`key` is for the keys `.` and `..` only, with `-` in the path";
                return Err(HttpRefusal::new(StatusCode::BAD_REQUEST, sentence));
            }
        }
        Ok(self)
    }

    /// The methods, as the header Allow has them.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Break(_) => "POST",
            Self::Lock(_) => "POST, PUT, DELETE",
            Self::Terraform(_) => "POST, DELETE, LOCK, UNLOCK",
            _ => "GET, HEAD",
        }
    }

    /// Whether the path has this method.
    pub(crate) fn has(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|one| one == method.as_str())
    }

    /// The fields that a query may have.
    pub(crate) fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::Page => &["prefix", "after", "limit", "key"],
            Self::Keys => &["prefix", "after", "limit"],
            Self::Watch => &["prefix"],
            Self::Line(_) | Self::Break(_) | Self::Lock(_) | Self::Terraform(_) => &["key"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The path of a endpoint in `openapi.json`.
    fn documented(endpoint: &Endpoint) -> &'static str {
        match endpoint {
            Endpoint::Page => "/",
            Endpoint::File(file) => file.path,
            Endpoint::Keys => "/v1/keys",
            Endpoint::Guarantees => "/v1/guarantees",
            Endpoint::Health => "/v1/health",
            Endpoint::Metrics => "/metrics",
            Endpoint::Watch => "/v1/watch",
            Endpoint::Line(_) => "/v1/lines/{key}",
            Endpoint::Break(_) => "/v1/lines/{key}/break",
            Endpoint::Lock(_) => "/v1/locks/{key}",
            Endpoint::Terraform(_) => "/v1/terraform/{key}",
        }
    }

    #[test]
    fn the_document_has_each_path_and_method_of_the_service() {
        let document: Value = serde_json::from_str(OPENAPI.text).unwrap();
        let paths = document["paths"].as_object().unwrap();
        for (path, methods) in paths {
            let endpoint = Endpoint::of(&path.replace("{key}", "k")).unwrap();
            assert_eq!(documented(&endpoint), path);
            let mut documented: Vec<_> = methods.as_object().unwrap().keys().collect();
            documented.retain(|name| *name != "parameters");
            documented.sort();
            // The document cannot have HEAD without its own entry, nor methods of Terraform.
            let methods = endpoint.methods().split(", ");
            let methods = methods.filter(|it| !["HEAD", "LOCK", "UNLOCK"].contains(it));
            let mut methods: Vec<_> = methods.map(str::to_lowercase).collect();
            methods.sort();
            assert_eq!(documented, methods.iter().collect::<Vec<_>>(), "{path}");
        }
        assert_eq!(paths.len(), 14, "a path of `documented` is not in the document");
    }
}
