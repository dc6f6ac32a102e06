//! A disk that fails, and how verbs are tried on it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use shardine::store::{DiskLook, DiskObserver, DiskStep, FileStore, Verdict};
use shardine::{Engine, EngineOptions, Location};
use tempfile::TempDir;

/// How many calls of a verb are tried if not all are.
const SAMPLE: usize = 120;

/// Anything slower counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Elements, or words that say what was found.
pub type State = Result<Vec<u8>, String>;

/// A verb of the command line, as a library call.
pub struct Verb {
    pub name: &'static str,
    /// Creates its input, in an empty folder.
    pub set_up: fn(&Path),
    /// Runs it below a root, and returns its report.
    pub run: fn(&Arc<Engine>, &Location) -> Result<String, String>,
    /// What must not be lost: the state before, or the state when the verb is done.
    pub kept: fn(&Path) -> State,
    /// The state when it is done.
    pub done: fn(&Path) -> State,
    /// Whether it can be run again after a failure.
    pub again: bool,
}

/// Fails call number `at`.
#[derive(Debug)]
struct Faulty {
    at: usize,
    count: AtomicUsize,
    failed: Mutex<Option<String>>,
}

impl Faulty {
    fn new(at: usize) -> Arc<Self> {
        Arc::new(Self { at, count: AtomicUsize::new(0), failed: Mutex::default() })
    }

    fn pass(&self, call: impl FnOnce() -> String) -> io::Result<()> {
        if self.count.fetch_add(1, Ordering::SeqCst) != self.at {
            return Ok(());
        }
        *self.failed.lock().unwrap() = Some(call());
        // EIO.
        Err(io::Error::from_raw_os_error(5))
    }
}

impl DiskObserver for Faulty {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        let text = || match step {
            DiskStep::Write { path, offset, data } => {
                format!("write {} bytes at {offset} of {}", data.len(), path.display())
            }
            step => format!("{step:?}"),
        };
        match self.pass(text) {
            Ok(()) => Verdict::Go,
            Err(error) => Verdict::Fail(error),
        }
    }

    fn before_look(&self, look: DiskLook<'_>) -> io::Result<()> {
        self.pass(|| format!("{look:?}"))
    }
}

pub fn engine() -> Arc<Engine> {
    Engine::new(&EngineOptions::new().threads(1)).unwrap()
}

pub fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

pub fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

/// Copies a folder with everything in it.
fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

/// The outcome of a verb on a disk that may fail; `None` if it hangs.
fn run(verb: &Verb, root: &Path, faulty: &Arc<Faulty>) -> Option<Result<String, String>> {
    let (tell, told) = mpsc::channel();
    let (run, root, faulty) = (verb.run, root.to_owned(), Arc::clone(faulty));
    thread::spawn(move || {
        let location = Location::root(Arc::new(FileStore::observed(root, faulty)));
        let _ = tell.send(run(&engine(), &location));
    });
    told.recv_timeout(PATIENCE).ok()
}

/// Fails call number `point`; returns whether that call was made.
fn fail_at(
    verb: &Verb,
    template: &Path,
    point: usize,
    before: &[u8],
    (answer, after, left): (&str, &[u8], &[PathBuf]),
) -> Result<bool, String> {
    let folder = folder();
    copy_tree(template, folder.path());
    let faulty = Faulty::new(point);
    let outcome = run(verb, folder.path(), &faulty);
    let call = faulty.failed.lock().unwrap().clone();
    let at = format!("call {point}, {}", call.as_deref().unwrap_or("which was not made"));
    let Some(outcome) = outcome else { return Err(format!("hangs at {at}")) };
    match &outcome {
        Ok(told) => {
            if told != answer {
                return Err(format!("{at}: told {told:?} instead of {answer:?}"));
            }
            if (verb.done)(folder.path()).as_deref() != Ok(after) {
                return Err(format!("{at}: succeeded, and is not done"));
            }
        }
        Err(_) if call.is_none() => return Err(format!("{at}: {outcome:?}")),
        Err(error) => {
            let kept = (verb.kept)(folder.path());
            let is_one =
                kept.as_deref() == Ok(before) || (verb.done)(folder.path()).as_deref() == Ok(after);
            if !is_one {
                let kept = kept.map(|kept| kept.len());
                return Err(format!("{at}: failed with {error:?}, and the data is lost: {kept:?}"));
            }
        }
    }
    if verb.again && outcome.is_err() {
        let again = (verb.run)(&engine(), &self::at(folder.path()));
        if let Err(error) = again {
            return Err(format!("{at}: failed with {outcome:?}, and again with {error:?}"));
        }
        if (verb.done)(folder.path()).as_deref() != Ok(after) {
            return Err(format!("{at}: failed, succeeded, and is not done"));
        }
        if names(folder.path()) != left {
            return Err(format!("{at}: leaves {:?}", names(folder.path())));
        }
    }
    Ok(call.is_some())
}

/// Fails every call of these verbs, or a sample of them.
pub fn try_all(verbs: &[Verb]) {
    let all = std::env::var_os("SHARDINE_EVERY_FAULT").is_some();
    let (mut points, mut tried, mut failures) = (0, 0, Vec::new());
    for (number, verb) in verbs.iter().enumerate() {
        let begun = Instant::now();
        let template = folder();
        (verb.set_up)(template.path());
        let reference = folder();
        copy_tree(template.path(), reference.path());
        let before = (verb.kept)(reference.path()).unwrap();
        let reference = folder();
        copy_tree(template.path(), reference.path());
        let counting = Faulty::new(usize::MAX);
        let answer = run(verb, reference.path(), &counting).unwrap();
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", verb.name));
        let after = (verb.done)(reference.path()).unwrap();
        let left = names(reference.path());
        let calls = counting.count.load(Ordering::SeqCst);
        let stride = if all { 1 } else { calls.div_ceil(SAMPLE).max(1) };
        let (mut here, mut unmade) = (0, 0);
        // Another share of the calls for each verb.
        for point in (number % stride..calls).step_by(stride) {
            here += 1;
            let expected = (answer.as_str(), &after[..], &left[..]);
            match fail_at(verb, template.path(), point, &before, expected) {
                Ok(made) => unmade += usize::from(!made),
                Err(error) => failures.push(format!("{}: {error}", verb.name)),
            }
        }
        println!("{}: {calls} calls, {here} failed, {:?}", verb.name, begun.elapsed());
        // Calls that depend on timing may be skipped now and then.
        assert!(unmade * 10 <= here, "{}: {unmade} of {here} calls were not made", verb.name);
        (points, tried) = (points + calls, tried + here);
    }
    println!("{points} calls, {tried} failed");
    assert!(tried > 0);
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
}
