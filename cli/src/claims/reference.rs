//! How a command names a claim: by its id, by its JSON text, or by a file with one of them.

use std::env;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;
use crate::screen::quoted;

/// The environment variable with the claim.
pub(crate) const VARIABLE: &str = "TENURE_CLAIM";
/// Number of digits of an id.
const ID_DIGITS: usize = 32;
/// Maximum length of a file that may contain a claim.
const FILE_MAX: u64 = 1 << 20;

/// The field of a claim's JSON text that names it.
#[derive(Deserialize)]
struct Named {
    claim: String,
}

/// Returns the id of the claim that the option or the environment names. `None`: they name none.
pub(crate) fn find(option: Option<&str>) -> Result<Option<String>, Failure> {
    if let Some(text) = option {
        return resolve(text, "--claim").map(Some);
    }
    match env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        Some(text) => match text.to_str() {
            Some(text) => resolve(text, VARIABLE).map(Some),
            None => Err(Failure::usage(format!("the claim in {VARIABLE} is not UTF-8"))),
        },
        None => Ok(None),
    }
}

/// The same for a command that needs a claim.
pub(crate) fn need(option: Option<&str>) -> Result<String, Failure> {
    find(option)?.ok_or_else(|| {
        Failure::usage(format!(
            "no claim is named: give the output of `tenure take` in {VARIABLE}, or its id or file with --claim"
        ))
    })
}

fn resolve(text: &str, place: &str) -> Result<String, Failure> {
    if let Some(id) = id_in(text) {
        return Ok(id);
    }
    let unread = |why: &str| {
        Failure::usage(format!(
            "{place} is neither a claim nor the id of one, and as a file {} {why}",
            quoted(text.trim())
        ))
    };
    let path = Path::new(text);
    match fs::metadata(path) {
        Ok(file) if file.len() > FILE_MAX => return Err(unread("is too large for a claim")),
        Ok(_) => {}
        Err(error) => return Err(unread(&format!("cannot be read: {error}"))),
    }
    let content = fs::read_to_string(path);
    let content = content.map_err(|error| unread(&format!("cannot be read: {error}")))?;
    id_in(&content).ok_or_else(|| unread("contains none"))
}

/// Returns the id that a text is or contains.
fn id_in(text: &str) -> Option<String> {
    let text = text.trim();
    let named = || serde_json::from_str(text).ok().map(|named: Named| named.claim);
    let id = if text.starts_with('{') { named()? } else { text.to_owned() };
    let is_id =
        id.len() == ID_DIGITS && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_in_any_form_of_a_claim() {
        let id = "0123456789abcdef0123456789abcdef";
        for text in [
            id.to_owned(),
            format!("{id}\n"),
            format!("{{\"claim\":\"{id}\",\"pid\":1}}\n"),
            format!("{{\n  \"keys\": [\"claim\"],\n  \"claim\": \"{id}\"\n}}"),
        ] {
            assert_eq!(id_in(&text).as_deref(), Some(id), "{text}");
        }
    }

    #[test]
    fn an_id_never_names_another_file() {
        let id = "../456789abcdef0123456789abcdef01";
        for text in ["", "{}", "0123", id, &format!("{{\"claim\":\"{id}\"}}"), "{\"claim\":7}"] {
            assert_eq!(id_in(text), None, "{text}");
        }
    }
}
