//! The page as HTML. It is whole without JavaScript; the script then keeps it up to date.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tenure_core::Guarantees;
use tenure_kit::duration::brief;

use crate::access::Role;
use crate::api::{Health, KeyPage, KeyRow, Reader, ShownLine, ShownTicket, tokens};
use crate::query::{self, Query};
use crate::reply::{HttpRefusal, HttpReply, whole};

const TEMPLATE: &str = include_str!("../page/page.html");

/// A file that the page loads.
#[derive(Debug)]
pub(crate) struct PageFile {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

const FILES: [PageFile; 3] = [
    PageFile {
        path: "/page.css",
        kind: "text/css; charset=utf-8",
        text: include_str!("../page/page.css"),
    },
    PageFile {
        path: "/page.js",
        kind: "text/javascript; charset=utf-8",
        text: include_str!("../page/page.js"),
    },
    PageFile { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("../page/icon.svg") },
];

/// The file at this path.
pub(crate) fn file(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.path == path)
}

/// Renders the page with its keys, and with one line if the query names its key.
pub(crate) async fn page(reader: &Reader, query: &Query, role: Role, command: &str) -> HttpReply {
    let (_, health) = reader.health().await;
    let keys = reader.keys(query).await;
    let line = match &query.key {
        Some(key) => match query::key(&percent(key)) {
            Ok(key) => Some(reader.line(&key).await),
            Err(refused) => Some(Err(refused)),
        },
        None => None,
    };
    let guarantees = reader.guarantees();
    let after = query.after.as_deref().unwrap_or_default();
    let values = [
        ("store", shown(&guarantees.store)),
        ("role", role.name().to_owned()),
        ("command", escaped(command)),
        ("prefix", escaped(&query.prefix)),
        ("after", escaped(after)),
        ("key", escaped(query.key.as_deref().unwrap_or_default())),
        ("health", shown(&health_text(&health))),
        ("health_class", if health.healthy { "good" } else { "bad" }.to_owned()),
        ("facts", facts(guarantees)),
        ("warnings", warnings(guarantees)),
        ("count", keys.as_ref().map_or_else(|_| String::new(), |keys| count(keys))),
        ("rows", rows(&keys, query)),
        ("pages", keys.as_ref().map_or_else(|_| String::new(), |keys| pages(keys, query))),
        ("line", line.as_ref().map_or_else(String::new, line_table)),
    ];
    whole(StatusCode::OK, "text/html; charset=utf-8", "no-store", filled(TEMPLATE, &values))
}

/// Replaces each `{{name}}` in one pass, so that no value is read as a placeholder.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(template.len() * 2);
    let mut parts = template.split("{{");
    page.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            page.push_str(value);
        }
        page.push_str(rest);
    }
    page
}

pub(crate) fn health_text(health: &Health) -> String {
    match (health.answered_in_ms, &health.error) {
        (Some(ms), _) => format!("healthy, {ms:.1} ms"),
        (None, Some(error)) => format!("not healthy: {error}"),
        (None, None) => "not healthy".to_owned(),
    }
}

fn facts(all: &Guarantees) -> String {
    let order = if all.fair { "in order" } else { "in any order" };
    let push = if all.push { "waiters are notified" } else { "waiters poll" };
    let tokens = match tokens(all.fencing) {
        "durable" => "tokens rise in every failure",
        "volatile" => "tokens rise while the store keeps its data",
        _ => "tokens may repeat",
    };
    let kept =
        |is_kept, what| format!("{} {what}", if is_kept { "survives" } else { "loses locks in" });
    let facts = [
        order.to_owned(),
        push.to_owned(),
        tokens.to_owned(),
        kept(all.survives.store_crash, "a store crash"),
        kept(all.survives.failover, "a fail-over"),
    ];
    list(&facts, "<li>", "</li>")
}

fn warnings(all: &Guarantees) -> String {
    list(&all.warnings, "<p class=\"warning\">", "</p>")
}

fn list(texts: &[String], begin: &str, end: &str) -> String {
    texts.iter().flat_map(|text| [begin.to_owned(), shown(text), end.to_owned()]).collect()
}

fn count(page: &KeyPage) -> String {
    let count = match (page.keys.len(), &page.error) {
        (0, None) => "no key has a holder or a waiter".to_owned(),
        (0, Some(_)) => "no key is known".to_owned(),
        (shown, _) => {
            format!("{} to {} of {} keys", page.before + 1, page.before + shown, page.total)
        }
    };
    page.error.iter().fold(count, |count, error| format!("{count}; {}", shown(error)))
}

fn rows(keys: &Result<Arc<KeyPage>, HttpRefusal>, query: &Query) -> String {
    match keys {
        Ok(page) => page.keys.iter().map(|row| key_row(row, query)).collect(),
        Err(refused) => {
            format!("<tr><td colspan=\"6\" class=\"bad\">{}</td></tr>", shown(refused.sentence()))
        }
    }
}

fn key_row(row: &KeyRow, query: &Query) -> String {
    let address = address(&query.prefix, query.after.as_deref(), Some(&row.key));
    let (exact, key) = (escaped(&row.key), shown(&row.key));
    let mut html =
        format!("<tr data-key=\"{exact}\"><th scope=\"row\"><a href=\"{address}\">{key}</a></th>");
    // Writing to a string cannot fail.
    let _ = match (row.holders.first(), &row.error) {
        (_, Some(error)) => write!(html, "<td colspan=\"4\" class=\"bad\">{}</td>", shown(error)),
        (None, None) => write!(html, "<td colspan=\"4\">no holder yet</td>"),
        (Some(first), None) => {
            let more = row.holding - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let state = if first.state == "leaving" { " (leaving)" } else { "" };
            let note = match first.note.as_str() {
                "" => String::new(),
                note => format!(" <span class=\"note\">{}</span>", shown(note)),
            };
            write!(
                html,
                "<td>{}{more}{state}{note}</td><td class=\"number\">{}</td><td>{}</td>\
                 <td class=\"number\">{}</td>",
                shown(&first.owner),
                since(first),
                life(first),
                first.number
            )
        }
    };
    let waiting = if row.waiting == 0 { "–".to_owned() } else { row.waiting.to_string() };
    html + "<td class=\"number\">" + &waiting + "</td></tr>"
}

fn pages(page: &KeyPage, query: &Query) -> String {
    let mut links = String::new();
    if page.before > 0 {
        let first = address(&query.prefix, None, None);
        let _ = write!(links, "<a rel=\"prev\" href=\"{first}\">first page</a> "); // cannot fail
    }
    if let Some(next) = &page.next {
        let next = address(&query.prefix, Some(next), None);
        let _ = write!(links, "<a rel=\"next\" href=\"{next}\">next page</a>"); // cannot fail
    }
    links
}

fn line_table(line: &Result<ShownLine, HttpRefusal>) -> String {
    let line = match line {
        Ok(line) => line,
        Err(refused) => return format!("<p class=\"bad\">{}</p>", shown(refused.sentence())),
    };
    let key = shown(&line.key);
    if line.tickets.is_empty() {
        return format!("<h2>{key}</h2><p>It has no holder and no waiter now.</p>");
    }
    let rows: String = line.tickets.iter().map(ticket_row).collect();
    let rest = match line.total - line.tickets.len() {
        0 => String::new(),
        rest => format!("<p>{rest} more tickets wait behind these.</p>"),
    };
    format!(
        "<h2>{key}</h2><div class=\"scroll\"><table><thead><tr><th>#</th><th>State</th>\
         <th>Owner</th><th class=\"number\">Joined</th><th>Share</th><th>Life left</th>\
         <th class=\"number\">Number</th><th>Note</th><th>Ticket</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>{rest}"
    )
}

fn ticket_row(ticket: &ShownTicket) -> String {
    let share = match &ticket.permits {
        Some(permits) => format!("{} of {}", permits.take, permits.of),
        None => ticket.kind.to_owned(),
    };
    format!(
        "<tr class=\"{state}\"><td>{}</td><td>{state}</td><td>{}</td><td class=\"number\">{}</td>\
         <td>{share}</td><td>{}</td><td class=\"number\">{}</td><td>{}</td>\
         <td><code>{}</code></td></tr>",
        ticket.position,
        shown(&ticket.owner),
        since(ticket),
        life(ticket),
        ticket.number,
        shown(&ticket.note),
        &ticket.ticket[..8],
        state = ticket.state,
    )
}

fn since(ticket: &ShownTicket) -> String {
    ticket.since_ms.map_or_else(|| "–".to_owned(), |ms| brief(Duration::from_millis(ms)))
}

fn life(ticket: &ShownTicket) -> String {
    let Some(left) = ticket.expires_in_ms else { return "as its process".to_owned() };
    let (ttl, low) = (ticket.ttl_ms.max(left), ticket.ttl_ms / 3);
    format!(
        "<meter min=\"0\" max=\"{ttl}\" low=\"{low}\" optimum=\"{ttl}\" value=\"{left}\"></meter> {}",
        brief(Duration::from_millis(left))
    )
}

/// The address of a page of keys, relative to the page.
fn address(prefix: &str, after: Option<&str>, key: Option<&str>) -> String {
    let mut address = format!("./?prefix={}", percent(prefix));
    for (name, value) in [("after", after), ("key", key)] {
        if let Some(value) = value {
            let _ = write!(address, "&amp;{name}={}", percent(value)); // cannot fail
        }
    }
    address
}

fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A text for people, as HTML. Characters that could hide or reverse a part of it are replaced.
pub(crate) fn shown(text: &str) -> String {
    let is_hiding = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    escaped(&text.replace(is_hiding, "\u{fffd}"))
}

/// A text as HTML, in and out of quotes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(letter),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum size of all files of the page.
    const BYTES_MAX: usize = 60 * 1024;

    fn texts() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|file| file.text).chain([TEMPLATE])
    }

    #[test]
    fn the_page_is_small() {
        let size: usize = texts().map(str::len).sum();
        assert!(size <= BYTES_MAX, "{size} bytes");
    }

    #[test]
    fn the_page_names_no_other_host_and_has_no_inline_code() {
        for text in texts() {
            // The name of a format, which no browser loads.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for wrong in
                ["http:", "https:", "//cdn", "\"//", "@import", "style=", " onclick", "eval("]
            {
                assert!(!text.contains(wrong), "{wrong}");
            }
        }
        assert!(TEMPLATE.contains("<script src=\"page.js\" defer></script>"));
        assert_eq!(TEMPLATE.matches("<script").count(), 1);
    }

    #[test]
    fn values_are_escaped_and_never_placeholders() {
        let html =
            filled("<b>{{a}}</b>{{b}}{{c}}", &[("a", escaped("<i>\"'&{{b}}")), ("b", "x".into())]);
        assert_eq!(html, "<b>&lt;i&gt;&quot;&#39;&amp;{{b}}</b>x");
    }
}
