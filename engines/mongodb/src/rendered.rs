//! Compares the commands in the README and in PIPELINES.md with those that are sent.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use tenure_core::{Key, Owner, Share, Ticket};

use crate::batch;
use crate::field_prefix::FieldPrefix;
use crate::fresh::Fresh;
use crate::line::Steps;
use crate::location::{CompiledPipelines, Location};
use crate::request::{TicketRequest, Verb};
use crate::short::{EmptyLine, ShortSteps};

/// Columns of the README.
const WIDTH: usize = 140;

/// Writes a value as JSON: in one line if it fits.
fn write(text: &mut String, value: &Bson, indent: usize) {
    let line = in_one_line(value);
    let column = text.len() - text.rfind('\n').map_or(0, |at| at + 1);
    if column + line.len() <= WIDTH - 4 {
        text.push_str(&line);
        return;
    }
    let pad = format!("\n{}", " ".repeat(indent + 1));
    match value {
        Bson::Document(fields) if fields.len() == 1 => {
            for (name, value) in fields {
                text.extend(["{ \"", name, "\": "]);
                write(text, value, indent);
                text.push_str(" }");
            }
        }
        Bson::Document(fields) if fields.values().all(is_scalar) => {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                let field = format!("\"{name}\": {}", in_one_line(value));
                let comma = if at > 0 { "," } else { "" };
                let column = text.len() - text.rfind('\n').map_or(0, |at| at + 1);
                let is_full = column + field.len() > WIDTH - 8;
                text.extend([comma, if is_full { &pad } else { " " }, &field]);
            }
            text.push_str(" }");
        }
        Bson::Document(fields) => {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                text.extend([&pad, "\"", name, "\": "]);
                write(text, value, indent + 1);
            }
            text.push_str(" }");
        }
        Bson::Array(all) => {
            text.push('[');
            for (at, value) in all.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                text.push_str(&pad);
                write(text, value, indent + 1);
            }
            text.push(']');
        }
        _ => text.push_str(&line),
    }
}

fn is_scalar(value: &Bson) -> bool {
    !matches!(value, Bson::Document(_) | Bson::Array(_))
}

fn in_one_line(value: &Bson) -> String {
    let list = |all: Vec<String>| all.join(", ");
    match value {
        Bson::Document(fields) if fields.is_empty() => "{}".to_owned(),
        Bson::Document(fields) => {
            let field = |(name, value)| format!("\"{name}\": {}", in_one_line(value));
            format!("{{ {} }}", list(fields.iter().map(field).collect()))
        }
        Bson::Array(all) => format!("[{}]", list(all.iter().map(in_one_line).collect())),
        other => other.clone().to_string(),
    }
}

fn stages(text: &mut String, title: &str, stages: &[RawDocumentBuf]) {
    text.extend(["// ", title, "\n"]);
    for stage in stages {
        write(text, &Document::try_from(stage).unwrap().into(), 0);
        text.push('\n');
    }
}

#[test]
fn the_pages_show_a_join_a_renewal_and_a_release_as_they_are_sent() {
    let prefix = FieldPrefix::root();
    let (kit, steps) = (CompiledPipelines::new(&prefix), Steps::new(&prefix));
    let short = ShortSteps::new(&prefix, &kit.answers);
    let key = Key::new("invoices/42").unwrap();
    let location = Location::record(&key, &std::sync::Arc::new(kit));
    let ticket = Ticket {
        id: "000000000000000000000000000000a1".parse().unwrap(),
        owner: Owner::shortened("worker 7"),
        ..Ticket::new(key, Share::WHOLE)
    };
    let (mut first, mut further) = (String::new(), String::new());
    let fresh = Fresh::named("000000000000000000000000000000f1".parse().unwrap());
    for (title, verb) in [
        ("join: the first stage", Verb::Join { hurry: false }),
        ("renewal: the first stage", Verb::Renew),
        ("release: the first stage", Verb::Leave { soon: false }),
    ] {
        let request = TicketRequest::new(ticket.clone(), verb);
        let update = batch::update(&location, &[&request], "00000000000000b1", &fresh);
        stages(&mut first, title, &[update.first]);
    }
    for (title, some) in [
        ("all: the line is opened, and tickets whose life has ended are out", &steps.begin),
        ("join: further stages", &steps.join),
        ("renewal: further stages", &steps.renew),
        ("release: further stages", &steps.leave),
        ("all: the next tickets are served", &steps.serve),
    ] {
        stages(&mut further, title, some);
    }
    let short_stages = short.stages();
    let seen =
        EmptyLine::of(&doc! { "newly_served": 0, "step": 8, "last": 1_800_000_000_000_000_i64 });
    for (title, verb, seen, some) in [
        ("a join of an empty line", Verb::Join { hurry: false }, seen, short_stages[0]),
        ("a leave of the only holder", Verb::Leave { soon: false }, None, short_stages[1]),
    ] {
        let request = TicketRequest::new(ticket.clone(), verb);
        let update = short.of(&location, &request, "00000000000000b1", seen).unwrap();
        stages(&mut further, &format!("{title}: the query"), &[update.query()]);
        stages(&mut further, &format!("{title}: further stages"), some);
    }
    let pages = [include_str!("../README.md"), include_str!("../PIPELINES.md")];
    for (text, page) in [first, further].iter().zip(pages) {
        assert!(page.contains(text), "the block in the page has to be\n{text}");
    }
}
