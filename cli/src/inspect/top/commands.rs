//! The meaning of the keys: selection, filter, and the question before a break.

use tenure::Key;
use tenure::inspect::{LeaveOutcome, TicketId};
use tenure_kit::duration::brief;

use super::keyboard::Pressed;
use super::live::Live;
use super::rows::Row;
use crate::claims::LEAVE_MAX;
use crate::owner::OwnerParts;
use crate::screen::{printable, quoted};
use crate::store::shell_word;

/// The meaning of the next key.
pub(super) enum Mode {
    Table,
    /// Letters change the filter. The filter of before comes back with the escape key.
    Filter(String),
    /// `y` asks this holder to leave.
    Break(Target),
}

/// The holder that a question is about. Another holder of the key is never asked in its place.
pub(super) struct Target {
    key: Key,
    id: TicketId,
    owner: String,
    is_claim: bool,
    pub(super) question: String,
}

impl Live<'_> {
    /// Returns whether the key quits.
    pub(super) fn press(&mut self, key: Pressed, page: usize) -> bool {
        match (std::mem::replace(&mut self.mode, Mode::Table), key) {
            (Mode::Table, Pressed::Letter('q')) => return true,
            (Mode::Table, Pressed::Letter('/')) => self.mode = Mode::Filter(self.filter.clone()),
            (Mode::Table, Pressed::Letter('b')) => self.question(),
            (Mode::Table, Pressed::Letter('j') | Pressed::Down) => self.select(|at| at + 1),
            (Mode::Table, Pressed::Letter('k') | Pressed::Up) => {
                self.select(|at| at.saturating_sub(1));
            }
            (Mode::Table, Pressed::PageDown) => self.select(|at| at + page),
            (Mode::Table, Pressed::PageUp) => self.select(|at| at.saturating_sub(page)),
            (Mode::Table, Pressed::Escape) => self.filter.clear(),
            (Mode::Table, _) | (Mode::Filter(_), Pressed::Enter) => {}
            (Mode::Filter(before), Pressed::Escape) => self.filter = before,
            (Mode::Filter(before), key) => {
                match key {
                    Pressed::Letter(letter) => self.filter.push(letter),
                    Pressed::Backspace => drop(self.filter.pop()),
                    _ => {}
                }
                self.mode = Mode::Filter(before);
            }
            (Mode::Break(target), Pressed::Letter('y')) => self.ask(target),
            (Mode::Break(target), _) => {
                self.message = format!("{} was not asked to leave", target.owner);
            }
        }
        false
    }

    fn select(&mut self, to: impl Fn(usize) -> usize) {
        let shown = self.rows.shown(&self.filter);
        let at = to(self.place(&shown)).min(shown.len().saturating_sub(1));
        let selected = shown.get(at).map(|row| row.key.clone());
        (self.at, self.selected) = (at, selected);
    }

    /// The place of the selected row. If that is not shown, the row at its last place is selected.
    pub(super) fn place(&self, shown: &[&Row]) -> usize {
        let at = shown.iter().position(|row| Some(&row.key) == self.selected.as_ref());
        at.unwrap_or(self.at.min(shown.len().saturating_sub(1)))
    }

    /// Asks the user whether to break the selected holder, and names what happens.
    fn question(&mut self) {
        let shown = self.rows.shown(&self.filter);
        let Some(row) = shown.get(self.place(&shown)) else { return };
        let key = quoted(row.key.as_str());
        let holder = match (&row.holder, row.holders) {
            (Some(holder), 1) => holder,
            (None, _) if row.trouble.is_some() => {
                self.message = format!("the line of {key} cannot be read");
                return;
            }
            (None, _) => {
                self.message = format!("{key} has no holder");
                return;
            }
            (_, count) => {
                let word = shell_word(row.key.as_str());
                let shown = self.at_store.command(&format!("line -- {word}"));
                let breaks = self.at_store.command(&format!("break --ticket ID -- {word}"));
                self.message = format!(
                    "{key} has {count} holders: `{shown}` shows their ids, and `{breaks}` breaks one"
                );
                return;
            }
        };
        let owner = printable(&holder.owner).into_owned();
        let latest = holder.left().map_or(String::new(), |left| {
            format!(", at the latest when its lease ends, in {}", brief(left))
        });
        let effect = if OwnerParts::is_claim(&holder.owner) {
            format!(
                "It is a claim, so no program is stopped: it leaves when one of its commands has \
                 reported the loss, at the latest in {}.",
                brief(LEAVE_MAX)
            )
        } else {
            format!("It is asked to stop its work, and leaves when its work has ended{latest}.")
        };
        let next = match row.waiting {
            0 => String::new(),
            1 => " Its waiter is served only after that.".into(),
            count => format!(" The first of {count} waiters is served only after that."),
        };
        let question = format!("ask {owner} to leave {key}? {effect}{next}");
        let is_claim = OwnerParts::is_claim(&holder.owner);
        let target = Target { key: row.key.clone(), id: holder.id, owner, is_claim, question };
        self.mode = Mode::Break(target);
    }

    fn ask(&mut self, Target { key, id, owner, is_claim, .. }: Target) {
        let locks = self.locks;
        self.message = format!("asking {owner} to leave {}", quoted(key.as_str()));
        self.breaking = Some(Box::pin(async move {
            let shown = quoted(key.as_str());
            match locks.break_ticket(&key, id).await {
                Ok(LeaveOutcome::Requested) => {
                    let until = if is_claim {
                        "one of its commands has reported the loss"
                    } else {
                        "its work has stopped"
                    };
                    format!("{owner} was asked to leave {shown}, and holds it until {until}")
                }
                Ok(LeaveOutcome::Holding | LeaveOutcome::Waiting) => {
                    format!("{owner} has left {shown}")
                }
                Ok(_) => format!("{owner} had already left {shown}"),
                Err(error) => error.to_string(),
            }
        }));
    }
}
