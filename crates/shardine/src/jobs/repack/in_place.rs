//! Replaces an array of files by one that is built beside it.
//!
//! Everything is done in a folder beside the array, `.shardine-NAME.job`: `job.json` says what is being done, `new` is the
//! array that is being built. When that is whole, checked and durable, the two exchange their names in one step; then the
//! old one is removed. What is there tells how far a job that was killed had come:
//!
//! | the array is | `new` | then |
//! |---|---|---|
//! | the old one | has no `zarr.json` | it is still being built |
//! | the old one | has one | it is whole, and only has to be exchanged |
//! | the new one | is the old one | it has to be removed |
//! | missing | has a `zarr.json` | the second of the two renames is missing, where folders cannot be exchanged |

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine_store::{
    Condition, FileStore, FolderPart, JobLock, Key, LeftoverKind, Store, StoreError, StoreExt,
};

use super::build::{Build, is_stale};
use super::{
    RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, consolidated, target,
};
use crate::jobs::walk::MAX_DEPTH;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NodeMetadata};
use crate::zarr::{APPEND_MARKER, DOCUMENT, grid_folder};
use crate::{Array, Engine, Error, Location, Node};

/// How often the parts of an array are moved again that were changed meanwhile.
const ATTEMPTS: usize = 3;

/// How often the lock of a job is tried for whose folder others remove.
const ATTEMPTS_TO_LOCK: usize = 100;

/// Arrays that were changed at the last moment, and are kept beside each other.
const MAX_KEPT: usize = 1000;

/// What a job says of itself.
#[derive(Debug)]
struct Marker {
    request: Value,
    /// The documents of the old and of the new array.
    from: String,
    to: String,
    /// Of the old array when its chunks were moved.
    fingerprint: Option<u64>,
}

impl Marker {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        if json.get("shardine_job")? != &json!(1) {
            return None;
        }
        let text = |member: &str| Some(json.get(member)?.as_str()?.to_owned());
        Some(Self {
            request: json.get("request")?.clone(),
            from: text("from")?,
            to: text("to")?,
            fingerprint: json.get("fingerprint")?.as_u64(),
        })
    }

    fn put(&self, job: &Job) -> Result<(), Error> {
        let json = json!({
            "shardine_job": 1,
            "request": self.request,
            "from": self.from,
            "to": self.to,
            "fingerprint": self.fingerprint,
        });
        job.beside.put(&job.file, format!("{json:#}\n").as_bytes(), Condition::None)?;
        Ok(())
    }
}

/// The place of a job.
struct Job {
    /// The store of the folder in which the array lies.
    beside: FileStore,
    /// The array in it.
    name: Key,
    work: Key,
    file: Key,
    new: Key,
    /// Where the old array waits between two renames, where folders cannot be exchanged.
    old: Key,
    at: String,
}

impl Job {
    fn of(location: &Location) -> Result<Self, Error> {
        let at = location.to_string();
        let files = location.store.files().ok_or(RepackError::NeedsTarget { at: at.clone() })?;
        let (beside, name) = files.beside(location.path.as_ref())?;
        Self::on(beside, name, at)
    }

    /// The job on a folder of a store.
    fn on(beside: FileStore, name: Key, at: String) -> Result<Self, Error> {
        let work = beside.job_folder(&name)?;
        let file = work.join("job.json")?;
        let (new, old) = (work.join("new")?, work.join("old")?);
        Ok(Self { beside, name, work, file, new, old, at })
    }

    /// The document of an array in one of the folders.
    fn document(&self, folder: &Key) -> Result<Option<String>, Error> {
        let text = self.beside.get(&folder.join(DOCUMENT)?)?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    fn marker(&self) -> Result<Option<Marker>, Error> {
        let Some(bytes) = self.beside.get(&self.file)? else { return Ok(None) };
        Marker::parse(&bytes).map(Some).ok_or_else(|| self.refuse("it cannot be understood"))
    }

    fn refuse(&self, reason: &'static str) -> Error {
        let marker = format!("{}/{}", self.beside.name(), self.file);
        RepackError::Marker { marker, reason }.into()
    }

    /// Takes the lock of the job, and makes its folder if it is not there.
    fn lock(&self) -> Result<JobLock, Error> {
        for _ in 0..ATTEMPTS_TO_LOCK {
            if !self.beside.has_folder(&self.work) {
                self.beside.make_folder_at(&self.work)?;
                self.beside.make_private(&self.work)?;
            }
            match self.beside.lock_job(&self.work) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => break,
                // Who had finished with it has just removed the folder.
                Err(StoreError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RepackError::Busy { at: self.at.clone() }.into())
    }

    /// Whether there is nothing in its folder but what a job makes before it says what it is, or leaves when that is removed.
    fn is_empty(&self) -> Result<bool, Error> {
        let built = self.beside.has_folder(&self.new) || self.beside.has_folder(&self.old);
        Ok(!built && self.beside.get(&self.file)?.is_none())
    }

    /// Removes all that the job has made. Its file goes last: it says what the rest is.
    fn clean_up(&self) -> Result<(), Error> {
        self.beside.remove_tree(&self.new)?;
        self.beside.remove_tree(&self.old)?;
        self.beside.remove_tree(&self.file)?;
        self.beside.remove_tree(&self.work)?;
        Ok(())
    }
}

/// Ends jobs that were interrupted when the array at this place, or one below the group there, had no name: between two renames,
/// where folders cannot be exchanged.
pub(super) fn recover_missing(
    engine: &Arc<Engine>,
    location: &Location,
    depth: usize,
) -> Result<(), Error> {
    let Some(files) = location.store.files() else { return Ok(()) };
    let folder = match &location.path {
        Some(path) => files.root().join(path.as_str()),
        None => files.root().to_owned(),
    };
    recover_at(&folder)?;
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for leftover in location.store.leftovers(location.path.as_ref())? {
        if let (LeftoverKind::Job, Some(array)) = (leftover.kind, leftover.object) {
            recover_at(&files.root().join(array.as_str()))?;
        }
    }
    let Ok(Node::Group(group)) = Node::open(engine, location) else { return Ok(()) };
    for child in group.children()? {
        if let Ok(Node::Group(inside)) = child.node {
            recover_missing(engine, inside.location(), depth + 1)?;
        }
    }
    Ok(())
}

/// Gives an array its name back, if a job on the array of this folder was stopped after it had taken it from the old one.
fn recover_at(folder: &Path) -> Result<(), Error> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let Some(name) = name.to_str() else { return Ok(()) };
    let (store, at) = (FileStore::new(above), folder.display().to_string());
    let job = Job::on(store, Key::new(name)?, at)?;
    let lacks = |job: &Job| !job.beside.has_folder(&job.name) && job.beside.has_folder(&job.old);
    if !lacks(&job) {
        return Ok(());
    }
    let _lock = job.lock()?;
    if lacks(&job) && job.marker()?.is_some() && job.document(&job.new)?.is_some() {
        job.beside.move_folder(&job.new, &job.name)?;
    }
    Ok(())
}

/// Packs the chunks of one array anew.
pub(super) fn repack(
    array: &Array,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<(), Error> {
    let location = array.location();
    let job = Job::of(location)?;
    let before = job.marker();
    if options.dry_run || job.is_empty()? {
        // Nothing is made for what needs nothing, or cannot be done.
        if let Ok(Some(marker)) = before {
            let to = parsed(&job, &marker.to)?;
            describe(report, &to);
            report.moves = have_same_chunks(array.metadata(), &to) && moves(array);
            report.outcome = RepackOutcome::Resumed;
            return Ok(());
        }
        let wanted = wanted(array, options, report)?;
        let remains = job.beside.has_folder(&job.work);
        if options.dry_run || wanted.unchanged && !remains {
            return Ok(());
        }
    }
    let _lock = job.lock()?;
    let done = locked(&job, array, options, report);
    // A job that is refused, or has nothing to do, leaves nothing.
    if job.is_empty()? {
        job.beside.remove_tree(&job.work)?;
    }
    done
}

/// The same by who has the lock. What was read before it was had may be out of date.
fn locked(
    job: &Job,
    array: &Array,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<(), Error> {
    if options.restart && job.beside.get(&job.file)?.is_some() {
        give_up(job)?;
    }
    let Some(current) = job.document(&job.name)? else {
        check(array)?;
        return Err(Error::NoNode { at: job.at.clone() });
    };
    let place = array.location();
    let array = &Array::from_metadata(&array.engine, place, parsed(job, &current)?)?;
    let marker = match job.marker()? {
        Some(marker) => {
            if marker.request != options.request() {
                let (at, request) = (job.at.clone(), marker.request.to_string());
                return Err(RepackError::OtherJob { at, request }.into());
            }
            report.outcome = RepackOutcome::Resumed;
            describe(report, &parsed(job, &marker.to)?);
            marker
        }
        None if !job.is_empty()? => return Err(job.refuse("it is missing")),
        None => {
            let wanted = wanted(array, options, report)?;
            if wanted.unchanged {
                return Ok(());
            }
            let to = String::from_utf8_lossy(&wanted.metadata.to_bytes()).into_owned();
            let (request, from) = (options.request(), current.clone());
            let marker = Marker { request, from, to, fingerprint: None };
            marker.put(job)?;
            marker
        }
    };
    if current == marker.to {
        return end(job, place, &marker);
    }
    if current != marker.from {
        return Err(job.refuse("the metadata of the array was changed since"));
    }
    let marker = build(job, array, options, marker, report)?;
    consolidated::take_away(&job.beside, &job.name, &job.work, place)?;
    if let Err(error) = exchange(job) {
        consolidated::put_back(&job.beside, &job.name, &job.work, place)?;
        return Err(error.into());
    }
    end(job, place, &marker)
}

/// Puts the new array into the place of the old one.
fn exchange(job: &Job) -> Result<(), StoreError> {
    match job.beside.exchange(&job.name, &job.new) {
        Err(StoreError::Unsupported { .. }) => {
            job.beside.move_folder(&job.name, &job.old)?;
            job.beside.move_folder(&job.new, &job.name)
        }
        exchanged => exchanged,
    }
}

/// What is to be built from an array on which no job was interrupted.
fn wanted(
    array: &Array,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<target::Wanted, Error> {
    check(array)?;
    let wanted = target::wanted(array, options, *array.metadata().key_encoding())?;
    describe(report, &wanted.metadata);
    report.moves = wanted.same_chunks && moves(array);
    report.outcome = match wanted.unchanged {
        true => RepackOutcome::Unchanged,
        false => RepackOutcome::Done,
    };
    Ok(wanted)
}

/// Gives up an earlier job; if it had come so far that the array is what it was to be, ends it.
fn give_up(job: &Job) -> Result<(), Error> {
    let Some(text) = job.document(&job.name)? else { return Ok(()) };
    let place = Location::root(Arc::new(job.beside.clone())).at(Some(job.name.clone()));
    match job.marker() {
        Ok(Some(marker)) if marker.to == text => end(job, &place, &marker),
        _ => {
            consolidated::put_back(&job.beside, &job.name, &job.work, &place)?;
            job.clean_up()
        }
    }
}

/// Says in the report how an array is packed.
pub(super) fn describe(report: &mut RepackedArray, metadata: &ArrayMetadata) {
    if let Ok(stored) = target::Stored::of(metadata) {
        report.chunk_shape = stored.chunk_shape;
        report.shard_shape = stored.shards.map(|shards| shards.shape);
    }
}

fn parsed(job: &Job, text: &str) -> Result<ArrayMetadata, Error> {
    match NodeMetadata::parse(text.as_bytes()) {
        Ok(NodeMetadata::Array(metadata)) => Ok(metadata),
        _ => Err(job.refuse("what it describes is no array")),
    }
}

fn moves(array: &Array) -> bool {
    array.grid.layout.is_addressable_throughout()
}

/// Whether the chunks of two arrays are encoded alike.
fn have_same_chunks(one: &ArrayMetadata, other: &ArrayMetadata) -> bool {
    let (Ok(a), Ok(b)) = (target::Stored::of(one), target::Stored::of(other)) else {
        return false;
    };
    (a.codecs, a.chunk_shape) == (b.codecs, b.chunk_shape)
}

/// Refuses an array that must not be replaced now.
fn check(array: &Array) -> Result<(), Error> {
    let location = array.location();
    let is_there = |name: &str| -> Result<bool, Error> {
        Ok(location.store.get(&location.key(name)?)?.is_some())
    };
    if [".zarray", ".zattrs"]
        .iter()
        .map(|name| is_there(name))
        .collect::<Result<Vec<_>, _>>()?
        .contains(&true)
    {
        let at = location.to_string();
        return Err(match is_there(DOCUMENT)? {
            true => RepackError::BothVersions { at }.into(),
            false => RepackError::ZarrV2 { at }.into(),
        });
    }
    if is_there(APPEND_MARKER)? {
        let reason = "an append to it was interrupted; give that append again first".to_owned();
        return Err(RepackError::Layout { at: location.to_string(), reason }.into());
    }
    Ok(())
}

/// Builds the new array, with its document last. It is durable then, and fits the old one as that is.
fn build(
    job: &Job,
    old: &Array,
    options: &RepackOptions,
    mut marker: Marker,
    report: &mut RepackedArray,
) -> Result<Marker, Error> {
    let metadata = parsed(job, &marker.to)?;
    let store = Arc::new(job.beside.clone());
    let place = Location { store, path: Some(job.new.clone()), format: None };
    let new = Array::from_metadata(&old.engine, &place, metadata)?;
    let same = have_same_chunks(old.metadata(), new.metadata());
    let moves = same && moves(old) && self::moves(&new);
    report.moves = moves;
    let mut resumed = report.outcome == RepackOutcome::Resumed;
    let mut fingerprint = job.beside.fingerprint(&job.name)?;
    for attempt in 0..=ATTEMPTS {
        if resumed && !moves && marker.fingerprint.is_some_and(|before| before != fingerprint) {
            // Nobody can tell which of the objects were made from what is there no more.
            job.beside.remove_tree(&job.new)?;
        }
        marker.fingerprint = Some(fingerprint);
        marker.put(job)?;
        if attempt == ATTEMPTS {
            return Err(RepackError::Changed { at: job.at.clone() }.into());
        }
        if resumed && job.document(&job.new)?.is_some() {
            // Whole already; but the old array may have been changed since.
            job.beside.remove_tree(&job.new.join(DOCUMENT)?)?;
        }
        job.beside.make_folder_at(&job.new)?;
        job.beside.copy_mode(&job.name, &job.new)?;
        if resumed {
            job.beside.remove_temporaries(&job.new)?;
        }
        let check = match options.check.unwrap_or_default() {
            // What an earlier run has made is compared in any case.
            RepackCheck::None if resumed => RepackCheck::Bytes,
            check => check,
        };
        let path = report.path.clone();
        let build = Build::new(old, &new, options, check, resumed, &path);
        let built = build.run(moves);
        build.report(report);
        let built = built.and_then(|()| carry_over(job, old, &new));
        let now = job.beside.fingerprint(&job.name)?;
        match built {
            Ok(()) if now == fingerprint => break,
            Err(error) if now == fingerprint || !is_stale(&error) => return Err(error),
            _ => {}
        }
        (fingerprint, resumed) = (now, true);
    }
    let document = job.new.join(DOCUMENT)?;
    job.beside.put(&document, marker.to.as_bytes(), Condition::None)?;
    Ok(marker)
}

/// Gives the new array all that lies in the folder of the old one and is no part of it.
fn carry_over(job: &Job, old: &Array, new: &Array) -> Result<(), Error> {
    let rank = old.shape().len();
    let encoding = [*old.metadata().key_encoding(), *new.metadata().key_encoding()];
    Ok(job.beside.carry_over(&job.name, &job.new, &|path, is_folder| {
        let of_grid = |encoding: &ChunkKeyEncoding| match is_folder {
            true => grid_folder(encoding, path, rank).is_some(),
            false => encoding.parse(path, rank).is_some(),
        };
        match encoding.iter().any(of_grid) {
            true if is_folder => FolderPart::Inside,
            true => FolderPart::Left,
            false if path == DOCUMENT => FolderPart::Left,
            false => FolderPart::Carried,
        }
    })?)
}

/// The new array is in its place: removes the old one, unless somebody has changed it at the last moment.
fn end(job: &Job, place: &Location, marker: &Marker) -> Result<(), Error> {
    let old = if job.beside.has_folder(&job.old) { &job.old } else { &job.new };
    consolidated::put_back(&job.beside, &job.name, &job.work, place)?;
    // Its document goes first, so what is half removed is not taken for an array, nor for one that was changed.
    let document = old.join(DOCUMENT)?;
    if job.beside.get(&document)?.is_some() {
        let changed = match marker.fingerprint {
            Some(before) => job.beside.fingerprint(old)? != before,
            None => false,
        };
        if changed {
            let names = (0..).map(|n| match n {
                0 => format!("{}.before", job.name),
                n => format!("{}.before-{n}", job.name),
            });
            let taken = |name: &String| job.beside.root().join(name).symlink_metadata().is_ok();
            let free = names.take(MAX_KEPT).find(|name| !taken(name));
            let kept = Key::new(&free.unwrap_or_else(|| format!("{}.before", job.name)))?;
            job.beside.move_folder(old, &kept)?;
            job.clean_up()?;
            let kept = format!("{}/{kept}", job.beside.name());
            return Err(RepackError::ChangedAtCommit { at: job.at.clone(), kept }.into());
        }
        job.beside.remove_tree(&document)?;
    }
    job.clean_up()
}
