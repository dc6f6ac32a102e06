//! A disk that is full or broken, at every step.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use shardine::Strategy;
use shardine::store::{DiskLook, DiskObserver, DiskStep, FileStore, Verdict};

use crate::disk::{Image, Random, image, put};
use crate::scene::{
    Allowed, Call, ZSTD, calls, create, document, engine, exactly, folder, is_allowed, nested,
    open, read,
};

/// How a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Once.
    Once,
    /// Once, after a part of the bytes.
    Partly,
    /// And so does everything after it.
    Forever,
    /// And so does everything after it that needs space.
    Full,
}

/// Fails step number `at`.
#[derive(Debug)]
struct Faulty {
    at: usize,
    fault: Fault,
    count: AtomicUsize,
    /// Whether it was the removal of a file: that file may stay.
    removal: AtomicBool,
    /// Whether looks fail, too.
    looks: AtomicBool,
    /// Whether one did.
    look: AtomicBool,
}

impl Faulty {
    fn new(at: usize, fault: Fault) -> Arc<Self> {
        let flag = || AtomicBool::new(false);
        let count = AtomicUsize::new(0);
        Arc::new(Self { at, fault, count, removal: flag(), looks: flag(), look: flag() })
    }

    fn has_failed(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.at
    }
}

impl DiskObserver for Faulty {
    /// A look is a step like any other, but none fails partly or for lack of space.
    fn before_look(&self, _: DiskLook<'_>) -> io::Result<()> {
        if !self.looks.load(Ordering::Relaxed) {
            return Ok(());
        }
        let fails = match self.fault {
            Fault::Once => self.count.fetch_add(1, Ordering::Relaxed) == self.at,
            Fault::Forever => self.count.fetch_add(1, Ordering::Relaxed) >= self.at,
            Fault::Partly | Fault::Full => false,
        };
        if !fails {
            return Ok(());
        }
        self.look.store(true, Ordering::Relaxed);
        // EIO.
        Err(io::Error::from_raw_os_error(5))
    }

    fn before(&self, step: DiskStep<'_>) -> Verdict {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let needs_space = matches!(step, DiskStep::Write { .. } | DiskStep::Create { .. });
        let fails = match self.fault {
            Fault::Once | Fault::Partly => count == self.at,
            Fault::Forever => count >= self.at,
            Fault::Full => count >= self.at && needs_space,
        };
        // ENOSPC and EIO.
        if fails && matches!(step, DiskStep::Remove { .. }) {
            self.removal.store(true, Ordering::Relaxed);
        }
        let error = io::Error::from_raw_os_error(if needs_space { 28 } else { 5 });
        match (fails, step) {
            (false, _) => Verdict::Go,
            (true, DiskStep::Write { data, .. }) if self.fault == Fault::Partly => {
                Verdict::Partly(data.len() / 2, error)
            }
            (true, _) => Verdict::Fail(error),
        }
    }
}

fn own_files(image: &Image, suffix: &str) -> Vec<String> {
    let names = image.keys().map(|path| path.to_string_lossy().into_owned());
    names.filter(|name| name.contains(".shardine-") && name.ends_with(suffix)).collect()
}

fn lens(image: &Image) -> Vec<(String, usize)> {
    let shards = image.iter().filter(|(path, _)| !path.to_string_lossy().contains(".shardine-"));
    let files = shards.filter_map(|(path, bytes)| Some((path, bytes.as_ref()?.len())));
    files.map(|(path, len)| (path.to_string_lossy().into_owned(), len)).collect()
}

/// Fails one call, and examines the result. `None` if it did not get that far.
fn one(
    engine: &Arc<shardine::Engine>,
    base: &Image,
    old: &[u8],
    call: &Call,
    (at, fault): (usize, Fault),
) -> Option<Result<(), String>> {
    let folder = folder();
    put(base, folder.path());
    let faulty = Faulty::new(at, fault);
    let array = open(engine, FileStore::observed(folder.path(), Arc::clone(&faulty) as _));
    faulty.looks.store(true, Ordering::Relaxed);
    let outcome = call.write(&array);
    faulty.looks.store(false, Ordering::Relaxed);
    if !faulty.has_failed() {
        return None;
    }
    let look_failed = faulty.look.load(Ordering::Relaxed);
    let tidy = !faulty.removal.load(Ordering::Relaxed)
        && !look_failed
        && matches!(fault, Fault::Once | Fault::Partly);
    // Some looks only determine how best to do something.
    if outcome.is_ok() && !look_failed && fault != Fault::Full {
        return Some(Err("nobody was told".to_owned()));
    }
    Some(look(engine, folder.path(), base, old, call, (&array, outcome.is_ok(), tidy)))
}

fn look(
    engine: &Arc<shardine::Engine>,
    root: &Path,
    base: &Image,
    old: &[u8],
    call: &Call,
    (array, done, tidy): (&shardine::Array, bool, bool),
) -> Result<(), String> {
    let mut new = old.to_vec();
    call.apply(&mut new);
    let mut allowed: Allowed = exactly(old);
    for (allowed, new) in allowed.iter_mut().zip(exactly(&new)) {
        allowed.extend(new);
    }
    if done {
        allowed = exactly(&new);
    }
    let same = read(array)?;
    is_allowed(&same, &allowed).map_err(|error| format!("in the same process: {error}"))?;
    let left = image(root);
    if tidy {
        let own = own_files(&left, "");
        if !own.is_empty() {
            return Err(format!("{own:?} were left"));
        }
        let is_old = is_allowed(&same, &exactly(old)).is_ok();
        if is_old && lens(&left) != lens(base) {
            return Err(format!("{:?} instead of {:?}", lens(&left), lens(base)));
        }
    }
    let fresh = open(engine, FileStore::new(root));
    let mut model = read(&fresh)?;
    is_allowed(&model, &allowed).map_err(|error| format!("for others: {error}"))?;
    let again = Call { data: call.data.iter().map(|byte| byte ^ 0x55).collect(), ..call.clone() };
    again.write(&fresh).map_err(|error| format!("the next write failed: {error:?}"))?;
    again.apply(&mut model);
    for array in [&fresh, array] {
        if read(array)? != model {
            return Err("what was written next is not there".to_owned());
        }
    }
    let own = own_files(&image(root), ".journal");
    if own.is_empty() { Ok(()) } else { Err(format!("{own:?} was left in the end")) }
}

fn any_fault_leaves_one_of_two_states(document: &str) {
    let engine = engine();
    for strategy in [Strategy::InPlace, Strategy::Append, Strategy::Rewrite] {
        let folder = folder();
        let array = create(&engine, folder.path(), document);
        let mut model = vec![0; 2048];
        for (number, call) in calls(strategy, &mut Random(5)).iter().enumerate() {
            let base = image(folder.path());
            for fault in [Fault::Once, Fault::Partly, Fault::Forever, Fault::Full] {
                for at in 0.. {
                    match one(&engine, &base, &model, call, (at, fault)) {
                        None => {
                            assert!(at > 0, "{strategy}, call {number}: {fault:?} never happens");
                            break;
                        }
                        Some(Ok(())) => {}
                        Some(Err(error)) => {
                            panic!("{strategy}, call {number}, {fault:?} at step {at}: {error}")
                        }
                    }
                }
            }
            call.write(&array).unwrap();
            call.apply(&mut model);
        }
    }
}

#[test]
fn any_fault_leaves_one_of_two_states_index_at_start() {
    any_fault_leaves_one_of_two_states(&document(ZSTD, "start"));
}

#[test]
fn any_fault_leaves_one_of_two_states_index_at_end() {
    any_fault_leaves_one_of_two_states(&document("", "end"));
}

#[test]
fn any_fault_leaves_one_of_two_states_nested() {
    any_fault_leaves_one_of_two_states(&nested("end"));
}
