//! Notices of a death: a process that locked a file, and had it open to write, is gone.
//!
//! All stores of a process share the listener. On Linux that is one thread, which the kernel
//! notifies when the file is closed, at any death of the process. The thread ends when there is no
//! watch any more. On other systems, and where the system has no room for one more listener, it is
//! a thread for each file. That one sleeps until it gets the lock itself, and stays until then.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;

use crate::os::Noise;
use crate::os::dir::{FileId, look_at};
use crate::os::flock::{self, Haste, Patience};
use crate::os::system::CloseListener;

/// Stack of a thread that only waits.
const STACK_BYTES: usize = 128 * 1024;
/// Time limit for the end of a lock: the kernel reports that a file was closed a moment before it
/// unlocks it.
const LETS_GO_WITHIN: Duration = Duration::from_secs(1);

/// Callback, called once from a thread of its own.
type Died = Box<dyn FnOnce() + Send>;

/// A watch for a death. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Vigil {
    file: FileId,
    number: u64,
}

#[derive(Default)]
struct Deaths {
    numbers: u64,
    watched: HashMap<FileId, WatchedFile>,
    /// Files with a thread that sleeps for them.
    asleep: HashSet<FileId>,
    listener: Option<Arc<CloseListener>>,
}

struct WatchedFile {
    file: Arc<File>,
    wanted: Vec<(u64, Died)>,
    /// The listener's mark of the file, if it watches it.
    mark: Option<i32>,
}

static DEATHS: LazyLock<Mutex<Deaths>> = LazyLock::new(Mutex::default);

/// Calls `died` once no process has this file locked any more.
pub(crate) fn watch(path: &Path, file: &Arc<File>, died: Died) -> io::Result<Vigil> {
    let id = look_at(file)?.id;
    let mut deaths = DEATHS.lock();
    deaths.numbers += 1;
    let number = deaths.numbers;
    if let Some(watched) = deaths.watched.get_mut(&id) {
        watched.wanted.push((number, died));
    } else {
        let mut watched =
            WatchedFile { file: file.clone(), wanted: vec![(number, died)], mark: None };
        let mark = deaths.begin(path, id, &watched.file)?;
        watched.mark = mark;
        deaths.watched.insert(id, watched);
        if let (Some(mark), Some(listener)) = (mark, &deaths.listener)
            && flock::is_free(file)
        {
            // It died before the watch began. The end of the watch notifies the listener.
            listener.stop(mark);
        }
    }
    Ok(Vigil { file: id, number })
}

impl Drop for Vigil {
    fn drop(&mut self) {
        let mut deaths = DEATHS.lock();
        let Some(watched) = deaths.watched.get_mut(&self.file) else { return };
        watched.wanted.retain(|(number, _)| *number != self.number);
        if watched.wanted.is_empty() {
            let mark = watched.mark;
            deaths.watched.remove(&self.file);
            if let (Some(mark), Some(listener)) = (mark, &deaths.listener) {
                listener.stop(mark);
            }
        }
    }
}

impl Deaths {
    /// Begins to watch a file. Returns the listener's mark of it; `None` if a thread sleeps for it.
    fn begin(&mut self, path: &Path, id: FileId, file: &Arc<File>) -> io::Result<Option<i32>> {
        let heard = match &self.listener {
            Some(listener) => listener.listen(path),
            None => self.start(path),
        };
        match heard {
            Ok(mark) => Ok(Some(mark)),
            Err(_) => self.sleep(id, file).map(|()| None),
        }
    }

    fn start(&mut self, path: &Path) -> io::Result<i32> {
        let (listener, mark) = CloseListener::start(path)?;
        let source = listener.clone();
        spawn(move || source.run(hear))?;
        self.listener = Some(listener);
        Ok(mark)
    }

    fn sleep(&mut self, id: FileId, file: &Arc<File>) -> io::Result<()> {
        if self.asleep.contains(&id) {
            return Ok(());
        }
        let file = file.clone();
        spawn(move || {
            flock::wait_until_free(&file);
            DEATHS.lock().asleep.remove(&id);
            tell(id);
        })?;
        self.asleep.insert(id);
        Ok(())
    }
}

/// Handles an event of the kernel. Returns whether any watch is left.
fn hear(noise: Noise) -> bool {
    let soon = Haste::Patient(Patience::until(Instant::now() + LETS_GO_WITHIN));
    match noise {
        Noise::Closed(mark) => marked(mark).into_iter().for_each(|id| look(id, false, soon)),
        Noise::Over(mark) => marked(mark).into_iter().for_each(|id| look(id, true, soon)),
        Noise::Missed => {
            let all: Vec<_> = DEATHS.lock().watched.keys().copied().collect();
            for id in all {
                // Most of them live. The time limit of one is that of all together.
                look(id, false, soon);
            }
        }
        Noise::Deaf => {
            DEATHS.lock().listener = None;
            return false;
        }
    }
    let mut deaths = DEATHS.lock();
    let listens = deaths.watched.values().any(|watched| watched.mark.is_some());
    if !listens {
        deaths.listener = None;
    }
    listens
}

fn marked(mark: i32) -> Option<FileId> {
    let deaths = DEATHS.lock();
    deaths.watched.iter().find(|(_, it)| it.mark == Some(mark)).map(|(id, _)| *id)
}

/// Calls the callbacks if the process is dead. `over`: the kernel reports no more of this file.
fn look(id: FileId, over: bool, soon: Haste) {
    let file = DEATHS.lock().watched.get(&id).map(|watched| watched.file.clone());
    let Some(file) = file else { return };
    if flock::attempt(soon, || flock::is_free(&file).then_some(()), || true).is_some() {
        return tell(id);
    }
    if over {
        let mut deaths = DEATHS.lock();
        let slept = deaths.sleep(id, &file);
        if let Some(watched) = deaths.watched.get_mut(&id).filter(|_| slept.is_ok()) {
            watched.mark = None;
        }
    }
}

fn tell(id: FileId) {
    let watched = DEATHS.lock().watched.remove(&id);
    // A callback may do anything, so no lock is held meanwhile.
    for (_, died) in watched.into_iter().flat_map(|watched| watched.wanted) {
        // A panic of one callback does not stop the others: all stores share this thread.
        let _ = catch_unwind(AssertUnwindSafe(died)); // the panic hook has reported it
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("tenure-file-peer".to_owned());
    thread.stack_size(STACK_BYTES).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_end_before_and_after_the_watch_begins_is_told_once_to_everyone() {
        let path = std::env::temp_dir().join(format!("tenure-file-death-{}", std::process::id()));
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (hear, heard) = mpsc::channel();
        let listen = |who: u32| {
            let (hear, read) = (hear.clone(), Arc::new(File::open(&path).unwrap()));
            watch(&path, &read, Box::new(move || hear.send(who).unwrap())).unwrap()
        };
        for _ in 0..100 {
            let held = open().unwrap();
            held.lock().unwrap();
            let (first, second) = (listen(1), listen(2));
            drop(listen(3));
            drop(held);
            let mut both = [heard.recv().unwrap(), heard.recv().unwrap()];
            both.sort_unstable();
            assert_eq!(both, [1, 2]);
            drop((first, second));
            let late = listen(4);
            assert_eq!(heard.recv().unwrap(), 4, "nobody had it any more");
            drop(late);
        }
        assert!(heard.try_recv().is_err(), "nobody is told twice, or after it wanted no more");
        std::fs::remove_file(path).unwrap();
    }

    /// Returns a locked file of this name.
    fn held(name: &str) -> (std::path::PathBuf, File, Arc<File>) {
        let name = format!("tenure-file-death-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        let read = Arc::new(File::open(&path).unwrap());
        (path, file, read)
    }

    #[test]
    fn a_panic_of_who_is_told_keeps_nobody_else_from_being_told() {
        let (hear, heard) = mpsc::channel();
        for round in 0..2 {
            let (path, file, read) = held(&format!("panic-{round}"));
            let first = watch(&path, &read, Box::new(|| panic!("whoever is told may panic")));
            let hear = hear.clone();
            let second = watch(&path, &read, Box::new(move || hear.send(round).unwrap()));
            drop(file);
            let told = heard.recv_timeout(Duration::from_secs(60));
            assert_eq!(told, Ok(round));
            drop((first, second));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn who_lives_on_is_not_waited_for_one_after_another_when_events_were_missed() {
        const LIVING: u32 = 30;
        let (hear_of_it, heard) = mpsc::channel();
        let living: Vec<_> = (0..LIVING).map(|count| held(&format!("living-{count}"))).collect();
        let watches: Vec<_> = living
            .iter()
            .map(|(path, _, read)| {
                let hear_of_it = hear_of_it.clone();
                watch(path, read, Box::new(move || hear_of_it.send(()).unwrap())).unwrap()
            })
            .collect();
        let began = Instant::now();
        hear(Noise::Missed);
        assert!(began.elapsed() < LETS_GO_WITHIN * (LIVING / 3), "{:?}", began.elapsed());
        assert!(heard.try_recv().is_err(), "all of them live");
        drop(watches);
        for (path, ..) in living {
            std::fs::remove_file(path).unwrap();
        }
    }
}
