//! Progress of a wait: the holder and the place in line. A terminal shows one line that is updated;
//! elsewhere one message reports a long wait.

use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure::inspect::{LineEntry, TicketState};
use tenure::{Locks, Result};
use tenure_kit::duration::brief;
use unicode_width::UnicodeWidthStr as _;

use crate::failure::{say, write_error};
use crate::owner::OwnerParts;
use crate::screen::{Screen, cut, printable, quoted};
use crate::store::SETTLE_MAX;

/// A terminal shows the wait after this time.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A log or a mail from cron reports the wait after this time.
pub(crate) const LONG: Duration = Duration::from_secs(10);

type Line = Vec<LineEntry>;

/// One wait and its display.
pub(crate) struct WaitDisplay<'a> {
    progress: Progress,
    locks: &'a Locks,
    key: &'a str,
    began: Instant,
    next: Instant,
    request: Option<Pin<Box<dyn Future<Output = Result<Line>> + 'a>>>,
    /// Width of the line that is shown.
    shown: usize,
}

#[derive(Clone, Copy)]
enum Progress {
    /// Updated in place.
    Screen(Screen),
    Once,
    Silent,
}

impl<'a> WaitDisplay<'a> {
    pub(crate) fn new(locks: &'a Locks, key: &'a str, quiet: bool) -> Self {
        let began = Instant::now();
        let (progress, first) = match Screen::of_errors() {
            _ if quiet => (Progress::Silent, LONG),
            Some(screen) => (Progress::Screen(screen), FIRST_LOOK),
            None => (Progress::Once, LONG),
        };
        Self { progress, locks, key, began, next: began + first, request: None, shown: 0 }
    }

    /// Reads the line if that is due, and returns when it is due again.
    pub(crate) fn update(&mut self, waker: &Waker) -> Option<Duration> {
        if let Progress::Silent = self.progress {
            return None;
        }
        let now = Instant::now();
        if now >= self.next && self.request.is_none() {
            self.next = now + LOOK_EVERY;
            self.request = Some(Box::pin(self.locks.line(self.key)));
        }
        if let Some(request) = &mut self.request
            && let Poll::Ready(line) = request.as_mut().poll(&mut Context::from_waker(waker))
        {
            self.request = None;
            let text = match line {
                Ok(line) => self.describe(&line),
                // The store may answer the next time.
                Err(error) => format!("{}: {}", self.waited(), printable(&error.to_string())),
            };
            self.write(&text);
        }
        Some(self.next.saturating_duration_since(now))
    }

    fn write(&mut self, text: &str) {
        match self.progress {
            Progress::Screen(screen) => self.show(text, screen),
            Progress::Once => {
                say(text);
                self.progress = Progress::Silent;
            }
            Progress::Silent => {}
        }
    }

    fn describe(&self, line: &Line) -> String {
        let holders: Vec<_> =
            line.iter().filter(|entry| entry.state == TicketState::Holding).collect();
        let is_own = |waiter: &LineEntry| {
            OwnerParts::parse(&waiter.owner).is_some_and(|owner| owner.is_this_process())
        };
        let mut waiters = line.iter().filter(|entry| entry.state == TicketState::Waiting);
        let mut text = self.waited();
        if let Some(at) = waiters.position(is_own) {
            let _ = write!(text, ", place {} in line", at + 1);
        }
        if let Some(holder) = holders.first() {
            let _ = write!(text, ", held by {}", printable(&holder.owner));
            if !holder.note.is_empty() {
                let _ = write!(text, " ({})", printable(&holder.note));
            }
        }
        if holders.len() > 1 {
            let _ = write!(text, " and {} more", holders.len() - 1);
        }
        text
    }

    fn waited(&self) -> String {
        format!("waiting {} for {}", brief(self.began.elapsed()), quoted(self.key))
    }

    fn show(&mut self, text: &str, screen: Screen) {
        let text = cut(text, screen.columns.saturating_sub(1));
        let blank = " ".repeat(self.shown.saturating_sub(text.width()));
        self.shown = text.width();
        write_error(&format!("\r{text}{blank}"), SETTLE_MAX);
    }
}

impl Drop for WaitDisplay<'_> {
    fn drop(&mut self) {
        if self.shown > 0 {
            let blank = " ".repeat(self.shown);
            write_error(&format!("\r{blank}\r"), SETTLE_MAX);
        }
    }
}
