//! Tells who holds the lock and the place in line: on a terminal in one line that is rewritten, elsewhere
//! in a sentence, once, when the wait is a long one.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure::{Locks, Place, Result, Ticket, TicketState};
use tenure_kit::duration::brief;
use unicode_width::UnicodeWidthStr as _;

use crate::failure::say;
use crate::screen::{Screen, cut, printable, quoted};
use crate::store::owner;

/// Nobody wants to read about a shorter wait.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is written where nobody looks on, in a log or a mail from cron, is only about a longer one.
pub(crate) const LONG: Duration = Duration::from_secs(10);

type Line = Vec<(Ticket, Place)>;

/// One wait, and how it is told.
pub(crate) struct Waiting<'a> {
    voice: Voice,
    locks: &'a Locks,
    key: &'a str,
    began: Instant,
    next: Instant,
    asking: Option<Pin<Box<dyn Future<Output = Result<Line>> + 'a>>>,
    /// How wide the line is that is shown.
    shown: usize,
}

#[derive(Clone, Copy)]
enum Voice {
    /// Again and again, in the same line.
    Screen(Screen),
    Once,
    Silent,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(locks: &'a Locks, key: &'a str, quiet: bool) -> Self {
        let began = Instant::now();
        let (voice, first) = match Screen::of_errors() {
            _ if quiet => (Voice::Silent, LONG),
            Some(screen) => (Voice::Screen(screen), FIRST_LOOK),
            None => (Voice::Once, LONG),
        };
        Self { voice, locks, key, began, next: began + first, asking: None, shown: 0 }
    }

    /// Looks at the line if it is time to, and says when it is time again.
    pub(crate) fn look(&mut self, waker: &Waker) -> Option<Duration> {
        if let Voice::Silent = self.voice {
            return None;
        }
        let now = Instant::now();
        if now >= self.next && self.asking.is_none() {
            self.next = now + LOOK_EVERY;
            self.asking = Some(Box::pin(self.locks.line(self.key)));
        }
        if let Some(asking) = &mut self.asking
            && let Poll::Ready(line) = asking.as_mut().poll(&mut Context::from_waker(waker))
        {
            self.asking = None;
            let text = match line {
                Ok(line) => self.describe(&line),
                // A store that does not answer now may answer the next time.
                Err(error) => format!("{}: {}", self.waited(), printable(&error.to_string())),
            };
            self.tell(&text);
        }
        Some(self.next.saturating_duration_since(now))
    }

    fn tell(&mut self, text: &str) {
        match self.voice {
            Voice::Screen(screen) => self.show(text, screen),
            Voice::Once => {
                say(text);
                self.voice = Voice::Silent;
            }
            Voice::Silent => {}
        }
    }

    fn describe(&self, line: &Line) -> String {
        let holders: Vec<_> =
            line.iter().filter(|(_, place)| place.state == TicketState::Holding).collect();
        let me = owner();
        let mut waiters = line.iter().filter(|(_, place)| place.state == TicketState::Waiting);
        let mut text = self.waited();
        if let Some(at) = waiters.position(|(ticket, _)| *ticket.owner == *me) {
            let _infallible = write!(text, ", place {} in line", at + 1);
        }
        if let Some((holder, _)) = holders.first() {
            let _infallible = write!(text, ", held by {}", printable(&holder.owner));
            if !holder.note.is_empty() {
                let _infallible = write!(text, " ({})", printable(&holder.note));
            }
        }
        if holders.len() > 1 {
            let _infallible = write!(text, " and {} more", holders.len() - 1);
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
        let _nobody_reads = write!(io::stderr(), "\r{text}{blank}");
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.shown > 0 {
            let blank = " ".repeat(self.shown);
            let _nobody_reads = write!(io::stderr(), "\r{blank}\r");
        }
    }
}
