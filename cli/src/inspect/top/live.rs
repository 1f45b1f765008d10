//! The loop of the live table: signals, keys, events, reads and breaks, on one thread.

use std::collections::BTreeSet;
use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use tenure::blocking::block_on;
use tenure::inspect::{Watch, WatchEvent};
use tenure::{Key, Locks, Result};
use tenure_kit::rfc3339::rfc3339;
use unicode_width::UnicodeWidthStr as _;

use super::commands::Mode;
use super::keyboard::pressed;
use super::raw_terminal::RawTerminal;
use super::read::{self, ReadLine, Reading};
use super::rows::Rows;
use super::view::View;
use crate::failure::Failure;
use crate::inspect::watch::word;
use crate::screen::{printable, quoted};
use crate::store::Address;
use crate::supervisor::signals::{Signals, is_ending, is_readable};
use crate::supervisor::stop_with_the_job;

/// Minimum pause after a read.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The pause after a read, as a multiple of the time that it took, and its maximum.
const PAUSE_TIMES: u32 = 4;
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// With more changed keys than this, all lines are read.
const CHANGED_MAX: usize = 256;
/// Maximum number of events that are taken before keys and signals are looked at.
const EVENTS_MAX: usize = 256;
/// Minimum time between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(50);
/// Pause before a read that follows a failed one.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Ages and lives are drawn again after this time.
const TICK: Duration = Duration::from_secs(1);
const KEYS: &str = "q quit   / filter   b ask the holder to leave   ↑ ↓ j k select";
/// The same for windows that are narrower.
const KEYS_SHORT: &str = "q quit  / filter  b break  j k select";

type Request<'a, T> = Option<Pin<Box<dyn Future<Output = T> + 'a>>>;

/// The answer of a read.
enum Answer {
    All(Result<Reading>),
    Some(Result<Vec<ReadLine>>),
}

pub(super) struct Live<'a> {
    pub(super) locks: &'a Locks,
    pub(super) at_store: &'a Address,
    prefix: &'a str,
    every: Duration,
    pub(super) rows: Rows,
    /// Number of keys that are not read.
    more: usize,
    pub(super) filter: String,
    /// The selected key, and the place that it was shown at.
    pub(super) selected: Option<Key>,
    pub(super) at: usize,
    pub(super) mode: Mode,
    /// The last event, or the answer to the last key.
    pub(super) message: String,
    /// The reason why the last read has failed, or why lines are missing in the last full one.
    trouble: Option<String>,
    watch: Option<Watch>,
    changed: BTreeSet<Key>,
    reading: Request<'a, Answer>,
    began: Instant,
    next_read: Instant,
    next_full: Instant,
    pub(super) breaking: Request<'a, String>,
    /// The screen is out of date.
    is_stale: bool,
}

/// Shows the table until the user quits, or a signal ends this process.
pub(super) fn run(
    at_store: &Address,
    locks: &Locks,
    prefix: &str,
    every: Duration,
) -> std::result::Result<u8, Failure> {
    let watch = block_on(locks.watch_prefix(prefix))?;
    let mut signals = Signals::install()?;
    signals.wake_on(io::stdin())?;
    let mut live = Live::new(at_store, locks, prefix, every, watch);
    // Dropped before a signal is passed on, so that the shell gets its terminal back.
    let terminal = RawTerminal::enter(io::stdout())?;
    live.run(&terminal, &mut signals)
}

impl<'a> Live<'a> {
    fn new(
        at_store: &'a Address,
        locks: &'a Locks,
        prefix: &'a str,
        every: Duration,
        watch: Watch,
    ) -> Self {
        let now = Instant::now();
        Self {
            locks,
            at_store,
            prefix,
            every,
            rows: Rows::default(),
            more: 0,
            filter: String::new(),
            selected: None,
            at: 0,
            mode: Mode::Table,
            message: String::new(),
            trouble: None,
            watch: Some(watch),
            changed: BTreeSet::new(),
            reading: None,
            began: now,
            next_read: now,
            next_full: now,
            breaking: None,
            is_stale: true,
        }
    }

    fn run(
        &mut self,
        terminal: &RawTerminal,
        signals: &mut Signals,
    ) -> std::result::Result<u8, Failure> {
        let mut drawn = Instant::now();
        loop {
            for signal in signals.take() {
                match signal {
                    _ if is_ending(signal) => return Err(Failure::asked(signal)),
                    Signal::TSTP => {
                        terminal.pause();
                        stop_with_the_job();
                        terminal.resume()?;
                    }
                    // The shell has set the terminal for itself.
                    Signal::CONT => terminal.resume()?,
                    _ => {}
                }
                self.is_stale = true;
            }
            if is_readable(io::stdin()) && !self.read_keys(terminal)? {
                return Ok(0);
            }
            self.begin_read();
            self.poll(signals);
            let due = drawn + if self.is_stale { DRAW_EVERY } else { TICK };
            let pause = due.min(self.read_at()).saturating_duration_since(Instant::now());
            if due <= Instant::now() {
                let (columns, rows) = terminal.size();
                terminal.write(self.draw(columns, rows).as_bytes())?;
                (self.is_stale, drawn) = (false, Instant::now());
            } else {
                signals.wait(Some(pause))?;
            }
        }
    }

    /// Reads the keyboard. Returns whether to go on.
    fn read_keys(&mut self, terminal: &RawTerminal) -> io::Result<bool> {
        let mut bytes = [0; 256];
        let length = match rustix::io::read(io::stdin(), &mut bytes) {
            // The terminal has hung up.
            Err(Errno::IO) => 0,
            read => read?,
        };
        let page = terminal.size().1.saturating_sub(4).max(1);
        let quits = pressed(&bytes[..length]).into_iter().any(|key| self.press(key, page));
        self.is_stale = true;
        Ok(length > 0 && !quits)
    }

    /// When the next read is due, if none is under way.
    fn read_at(&self) -> Instant {
        let full = self.next_full.max(self.next_read);
        match &self.reading {
            Some(_) => Instant::now() + TICK,
            None if self.changed.is_empty() => full,
            None => self.next_read,
        }
    }

    fn begin_read(&mut self) {
        let now = Instant::now();
        if self.reading.is_some() || now < self.read_at() {
            return;
        }
        let (locks, prefix) = (self.locks, self.prefix);
        self.began = now;
        let changed = std::mem::take(&mut self.changed);
        self.reading = Some(if now >= self.next_full || changed.len() > CHANGED_MAX {
            Box::pin(async move { Answer::All(read::all(locks, prefix).await) })
        } else {
            let changed = changed.into_iter().collect();
            Box::pin(async move { Answer::Some(read::some(locks, changed).await) })
        });
    }

    /// Polls everything that is under way. Each that is pending wakes this process later.
    fn poll(&mut self, signals: &Signals) {
        if let Some(answer) = self.reading.as_mut().and_then(|it| signals.poll(it.as_mut())) {
            self.reading = None;
            self.take(answer);
            self.is_stale = true;
        }
        if let Some(message) = self.breaking.as_mut().and_then(|it| signals.poll(it.as_mut())) {
            self.breaking = None;
            self.message = message;
            self.is_stale = true;
        }
        for _ in 0..EVENTS_MAX {
            let Some(watch) = &mut self.watch else { return };
            let Some(news) = signals.poll(pin!(watch.next())) else { return };
            self.hear(news);
            self.is_stale = true;
        }
    }

    fn take(&mut self, answer: Answer) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.began);
        self.next_read = now + (took * PAUSE_TIMES).clamp(PAUSE_MIN, PAUSE_MAX);
        let read = match answer {
            Answer::All(Ok(Reading { lines, more, trouble })) => {
                self.rows.replace(lines);
                (self.more, self.trouble) = (more, trouble.map(|error| error.to_string()));
                self.next_full = now + self.every;
                Ok(())
            }
            Answer::Some(Ok(lines)) => {
                self.rows.update(lines);
                Ok(())
            }
            Answer::All(Err(error)) | Answer::Some(Err(error)) => Err(error),
        };
        if let Err(error) = read {
            // The changed lines were not read, so all are.
            self.next_full = now + READ_AGAIN;
            self.trouble = Some(error.to_string());
        }
    }

    fn hear(&mut self, news: Result<WatchEvent>) {
        match news {
            Ok(WatchEvent::Event(event)) => {
                if let Some(word) = word(event.kind) {
                    let (time, ticket) = (rfc3339(event.at_us), &event.ticket);
                    let (key, owner) = (ticket.key.as_str(), &ticket.owner);
                    self.message =
                        format!("{} {word} {key} {owner}", time.get(11..19).unwrap_or(&time));
                }
                self.changed.insert(event.ticket.key);
            }
            // A gap.
            Ok(_) => self.next_full = Instant::now(),
            // The stream tries again by itself, after a pause.
            Err(error) if error.is_retryable() => {}
            Err(error) => {
                self.watch = None;
                self.message = format!("no events, so lines are read at intervals: {error}");
            }
        }
    }

    fn draw(&mut self, columns: usize, rows: usize) -> String {
        let shown = self.rows.shown(&self.filter);
        let at = self.place(&shown);
        let keys = self.rows.len();
        let plural = if keys == 1 { "" } else { "s" };
        let mut head = format!("{keys} key{plural}, {} with waiters", self.rows.with_waiters());
        if !self.filter.is_empty() {
            head += &[", ", &shown.len().to_string(), " contain ", &quoted(&self.filter)].concat();
        }
        if self.more > 0 {
            head += &[", ", &read::not_read(self.more)].concat();
        }
        head += &["   ", &self.locks.guarantees().store].concat();
        let typed = format!("filter: {}_", self.filter);
        let table_keys = if columns < KEYS.width() { KEYS_SHORT } else { KEYS };
        let (message, keys) = match (&self.mode, &self.trouble) {
            (Mode::Break(target), _) => (&target.question, "y ask   any other key: no"),
            (Mode::Filter(_), _) => (&typed, "enter: keep   escape: discard"),
            (Mode::Table, Some(trouble)) => (trouble, table_keys),
            (Mode::Table, None) => (&self.message, table_keys),
        };
        let message = &*printable(message);
        let head = printable(&head).into_owned();
        let view = View { head, shown: &shown, selected: at, message, keys };
        let text = view.draw(columns, rows);
        self.at = at;
        text
    }
}
