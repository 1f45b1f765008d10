//! The commands that another process carries out for a test.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use tenure_core::{Engine as _, LeaveMode, Share, Ticket, TicketState, WaitMode, Wake};
use tenure_file::FileStore;

use super::{block_on, is_ready, join, key, leave, part, ticket, wait, work};

/// Serves commands in the other process: one command a line.
pub(crate) fn serve() {
    let Ok(dir) = std::env::var("TENURE_FILE_TEST_DIR") else { return };
    let store = match FileStore::open(&dir) {
        Ok(store) => store,
        Err(error) => return println!("\n@refused: {error}"),
    };
    let mut held = Vec::new();
    let mut locked = Vec::new();
    let mut children = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["join", name, ref share @ ..] => {
                let ticket = match share {
                    [take, of] => part(name, take.parse().unwrap(), of.parse().unwrap()),
                    _ => ticket(name),
                };
                let place = join(&store, &ticket);
                held.push(ticket);
                format!("{:?} {}", place.state, place.number)
            }
            ["wait"] => wait(&store, held.last().unwrap()).to_string(),
            ["leave"] => format!("{:?}", leave(&store, &held.pop().unwrap())),
            ["lost"] => {
                let watch = store.watch(held.last().unwrap(), TicketState::Holding);
                format!("{:?}", block_on(watch).unwrap())
            }
            ["child"] => {
                let child =
                    Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
                children.push(child);
                children.last().unwrap().id().to_string()
            }
            ["count", name, path, times] => {
                count(&store, name, Path::new(path), times.parse().unwrap());
                "counted".to_owned()
            }
            ["sign", name, path, times] => {
                sign(&store, name, Path::new(path), times.parse().unwrap());
                "signed".to_owned()
            }
            ["lock", path] => {
                let file = std::fs::File::open(path).unwrap();
                file.lock_shared().unwrap();
                locked.push(file);
                "locked".to_owned()
            }
            ["unlock"] => {
                locked.clear();
                "unlocked".to_owned()
            }
            ["work", name, times] => {
                work(&store, name, times.parse().unwrap());
                "worked".to_owned()
            }
            ["many", name, times] => {
                let next = || block_on(store.add(&key(name), 1, None)).unwrap().value;
                let numbers: Vec<_> =
                    (0..times.parse().unwrap()).map(|_: u32| next().to_string()).collect();
                numbers.join(" ")
            }
            ["damage", book] => damage(&store, Path::new(&dir), book),
            ["torn"] => torn(&store, &Path::new(&dir).join("filler")),
            ["fill"] => fill(&store, &Path::new(&dir).join("filler")),
            ["next", name] => block_on(store.add(&key(name), 1, None)).unwrap().value.to_string(),
            _ => panic!("{line:?} is no command"),
        };
        println!("\n@{answer}");
    }
}

/// Signs a file and checks that its own signature is still there, `times` times. The file may have
/// half a signature of a killed process, but no other signature may appear.
fn sign(store: &FileStore, name: &str, path: &Path, times: u32) {
    for turn in 0..times {
        let ticket = ticket(name);
        if join(store, &ticket).state == TicketState::Waiting {
            wait(store, &ticket);
        }
        let signature = format!("{} {turn}", std::process::id());
        std::fs::write(path, &signature).unwrap();
        thread::yield_now();
        assert_eq!(std::fs::read_to_string(path).unwrap(), signature, "two are in");
        leave(store, &ticket);
    }
}

/// Fills the disk, joins until that is refused, makes room and joins again.
fn fill(store: &FileStore, filler: &Path) -> String {
    let mut file = std::fs::File::create(filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let mut joined = 0;
    let error = loop {
        match block_on(store.join(&ticket("k"), WaitMode::Wait)) {
            Ok(_) => joined += 1,
            Err(error) => break error,
        }
    };
    let kept = block_on(store.line(&key("k"))).unwrap().len() == joined;
    drop(file);
    std::fs::remove_file(filler).unwrap();
    join(store, &ticket("k"));
    let more = block_on(store.line(&key("k"))).unwrap().len() == joined + 1;
    format!("{kept} {more} {:?} {error}", error.kind())
}

/// A reader waits behind a writer, and the release of the writer cannot be written. Returns whether
/// the reader was served nevertheless.
fn torn(store: &FileStore, filler: &Path) -> String {
    let reader = || Ticket { share: Share::READER, ..ticket("k") };
    let (holds, writer, waits) = (reader(), ticket("k"), reader());
    for ticket in [&holds, &writer, &waits] {
        join(store, ticket);
    }
    // Their releases fill the last page of the log.
    let others: Vec<_> = (0..400).map(|_| ticket("k")).collect();
    for other in &others {
        join(store, other);
    }
    let mut file = std::fs::File::create(filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let release = |ticket: &Ticket| block_on(store.leave(ticket, LeaveMode::Now));
    let is_full = others.iter().any(|other| release(other).is_err());
    let error = release(&writer).unwrap_err();
    let line = block_on(store.line(&key("k"))).unwrap();
    assert!(is_full && line.iter().any(|(ticket, _)| ticket.id == writer.id), "{error}");
    loop {
        match is_ready(&mut Box::pin(store.watch(&waits, TicketState::Waiting))) {
            None => return "it waits".to_owned(),
            Some(Ok(Wake::Look)) => {
                let place = block_on(store.renew(&waits)).unwrap().expect("it is in the line");
                assert_eq!(place.state, TicketState::Waiting);
            }
            Some(other) => return format!("{other:?}"),
        }
    }
}

/// Finds a damaged book on a full disk several times, and once more when there is room. Returns the
/// number of files that were set aside by then.
fn damage(store: &FileStore, dir: &Path, book: &str) -> String {
    let aside = || {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("damaged-")).count()
    };
    std::fs::write(dir.join("books").join(book), vec![1; 100_000]).unwrap();
    let filler = dir.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    for _ in 0..10 {
        assert!(block_on(store.join(&ticket("k"), WaitMode::Wait)).is_err());
    }
    let refused = aside();
    drop(file);
    std::fs::remove_file(filler).unwrap();
    join(store, &ticket("k"));
    format!("{refused} refused, {} joined", aside())
}

/// Counts in a file without any care, but for the lock.
fn count(store: &FileStore, name: &str, path: &Path, times: u32) {
    let mut last = 0;
    for _ in 0..times {
        let ticket = ticket(name);
        let place = join(store, &ticket);
        let number = match place.state {
            TicketState::Holding => place.number,
            TicketState::Waiting => wait(store, &ticket),
        };
        assert!(number > last, "numbers grow");
        last = number;
        let text = std::fs::read_to_string(path).unwrap();
        let (value, token) = text.split_once(' ').unwrap();
        assert!(number > token.parse().unwrap(), "numbers grow in the order of the holders");
        let value: u64 = value.parse().unwrap();
        std::fs::write(path, format!("{} {number}", value + 1)).unwrap();
        leave(store, &ticket);
    }
}
