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

use serde_json::{Value, json};
use shardine_store::{Condition, FileStore, JobLock, Key, Store, StoreError, StoreExt};

use super::build::{Build, is_stale};
use super::{
    RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, consolidated, target,
};
use crate::zarr::metadata::{ArrayMetadata, NodeMetadata};
use crate::zarr::{APPEND_MARKER, DOCUMENT, grid_folder};
use crate::{Array, Error, Location};

/// How often the parts of an array are moved again that were changed meanwhile.
const ATTEMPTS: usize = 3;

/// The documents of Zarr v2.
const V2_DOCUMENTS: [&str; 2] = [".zarray", ".zattrs"];

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

    /// Takes the lock of the job, whose folder is there.
    fn lock(&self) -> Result<Option<JobLock>, Error> {
        match self.beside.lock_job(&self.work) {
            Ok(Some(lock)) => Ok(Some(lock)),
            Ok(None) => Err(RepackError::Busy { at: self.at.clone() }.into()),
            // It was just finished by somebody else.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the folder of a job that was killed when it had nothing but that to remove.
    fn remove_remains(&self) -> Result<(), Error> {
        if !self.beside.has_folder(&self.work) {
            return Ok(());
        }
        match self.lock() {
            Err(Error::Repack(RepackError::Busy { .. })) | Ok(None) => Ok(()),
            Ok(Some(_lock)) if self.marker()?.is_none() => {
                Ok(self.beside.remove_tree(&self.work)?)
            }
            locked => locked.map(drop),
        }
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

/// Whether an earlier job on the array at this place was interrupted so that the array itself is missing, and ends it then.
///
/// That can only be where folders cannot be exchanged.
pub(super) fn recover_missing(location: &Location) -> Result<bool, Error> {
    let Some(files) = location.store.files() else { return Ok(false) };
    // The folder is not there, so it is named by what it would be.
    let (above, name) = match &location.path {
        None => {
            let root = files.root();
            let (Some(above), Some(name)) = (root.parent(), root.file_name()) else {
                return Ok(false);
            };
            (FileStore::new(above), Key::new(&name.to_string_lossy())?)
        }
        Some(path) => match path.as_str().rsplit_once('/') {
            None => (files.clone(), path.clone()),
            Some((above, name)) => (FileStore::new(files.root().join(above)), Key::new(name)?),
        },
    };
    let work = above.job_folder(&name)?;
    let new = work.join("new")?;
    if above.has_folder(&name) || above.get(&new.join(DOCUMENT)?)?.is_none() {
        return Ok(false);
    }
    above.move_folder(&new, &name)?;
    Ok(true)
}

/// Packs the chunks of one array anew.
pub(super) fn repack(
    array: &Array,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<(), Error> {
    let location = array.location();
    let job = Job::of(location)?;
    if options.restart && job.beside.get(&job.file)?.is_some() {
        give_up(&job)?;
    }
    let Some((marker, _lock)) = begin(&job, array, options, report)? else { return Ok(()) };
    let current = job.document(&job.name)?.unwrap_or_default();
    if current == marker.to {
        return end(&job, &marker);
    }
    if current != marker.from {
        return Err(job.refuse("the metadata of the array was changed since"));
    }
    let marker = build(&job, array, options, marker, report)?;
    consolidated::take_away(&job.beside, &job.name, &job.work)?;
    match job.beside.exchange(&job.name, &job.new) {
        Err(StoreError::Unsupported { .. }) => {
            job.beside.move_folder(&job.name, &job.old)?;
            job.beside.move_folder(&job.new, &job.name)?;
        }
        exchanged => exchanged?,
    }
    end(&job, &marker)
}

/// Gives up an earlier job, unless it has come so far that the array is what it was to be.
fn give_up(job: &Job) -> Result<(), Error> {
    let _lock = job.lock()?;
    let is_there = job.document(&job.name)?;
    let done = |text: &String| job.marker().ok().flatten().is_some_and(|marker| marker.to == *text);
    match is_there {
        Some(text) if !done(&text) => {
            consolidated::put_back(&job.beside, &job.work)?;
            job.clean_up()
        }
        _ => Ok(()),
    }
}

/// Marks that the job is under way, or finds that it is; `None` if there is nothing to do.
fn begin(
    job: &Job,
    array: &Array,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<Option<(Marker, JobLock)>, Error> {
    let request = options.request();
    let mut outcome = RepackOutcome::Resumed;
    loop {
        if let Some(marker) = job.marker()? {
            let Some(lock) = job.lock()? else { continue };
            // It may have been finished, and begun anew by another, before the lock was free.
            if job.marker()?.is_none() {
                continue;
            }
            if marker.request != request {
                let (at, request) = (job.at.clone(), marker.request.to_string());
                return Err(RepackError::OtherJob { at, request }.into());
            }
            report.outcome = outcome;
            describe(report, &parsed(job, &marker.to)?)?;
            return Ok(Some((marker, lock)));
        }
        if job.beside.has_folder(&job.new) || job.beside.has_folder(&job.old) {
            return Err(job.refuse("it is missing"));
        }
        check(array)?;
        let wanted = target::wanted(array, options, *array.metadata().key_encoding())?;
        describe(report, &wanted.metadata)?;
        report.moves = wanted.same_chunks && moves(array);
        if wanted.unchanged {
            report.outcome = RepackOutcome::Unchanged;
        }
        if options.dry_run {
            return Ok(None);
        }
        if wanted.unchanged {
            job.remove_remains()?;
            return Ok(None);
        }
        let from = job.document(&job.name)?.unwrap_or_default();
        let to = String::from_utf8_lossy(&wanted.metadata.to_bytes()).into_owned();
        job.beside.make_folder_at(&job.work)?;
        Marker { request: request.clone(), from, to, fingerprint: None }.put(job)?;
        outcome = RepackOutcome::Done;
    }
}

fn describe(report: &mut RepackedArray, metadata: &ArrayMetadata) -> Result<(), Error> {
    if let Ok(stored) = target::Stored::of(metadata) {
        report.chunk_shape = stored.chunk_shape;
        report.shard_shape = stored.shards.map(|shards| shards.shape);
    }
    Ok(())
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

/// Refuses an array that must not be replaced now.
fn check(array: &Array) -> Result<(), Error> {
    let location = array.location();
    let is_there = |name: &str| -> Result<bool, Error> {
        Ok(location.store.get(&location.key(name)?)?.is_some())
    };
    if V2_DOCUMENTS
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
    let store = std::sync::Arc::new(job.beside.clone());
    let place = Location { store, path: Some(job.new.clone()), format: None };
    let new = Array::from_metadata(&old.engine, &place, metadata)?;
    let same = target::Stored::of(old.metadata()).ok().zip(target::Stored::of(new.metadata()).ok());
    let same = same.is_some_and(|(a, b)| (a.codecs, a.chunk_shape) == (b.codecs, b.chunk_shape));
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
        let built = built.and_then(|()| carry_over(job, old));
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
fn carry_over(job: &Job, old: &Array) -> Result<(), Error> {
    let encoding = *old.metadata().key_encoding();
    let rank = old.shape().len();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let at = if folder.is_empty() { job.name.clone() } else { job.name.join(&folder)? };
        let mut strays = Vec::new();
        job.beside.each_name(&at, &mut |name, is_folder| {
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if is_folder && grid_folder(&encoding, &path, rank).is_some() {
                folders.push(path);
            } else if path != DOCUMENT && (is_folder || encoding.parse(&path, rank).is_none()) {
                strays.push(path);
            }
            Ok(())
        })?;
        for path in strays {
            let to = job.new.join(&path)?;
            if let Some((above, _)) = to.as_str().rsplit_once('/') {
                job.beside.make_folder_at(&Key::new(above)?)?;
            }
            job.beside.carry(&job.name.join(&path)?, &to)?;
        }
    }
    Ok(())
}

/// The new array is in its place: removes the old one, unless somebody has changed it at the last moment.
fn end(job: &Job, marker: &Marker) -> Result<(), Error> {
    let old = if job.beside.has_folder(&job.old) { &job.old } else { &job.new };
    consolidated::put_back(&job.beside, &job.work)?;
    // Its document goes first, so what is half removed is not taken for an array, nor for one that was changed.
    let document = old.join(DOCUMENT)?;
    if job.beside.get(&document)?.is_some() {
        let changed = match marker.fingerprint {
            Some(before) => job.beside.fingerprint(old)? != before,
            None => false,
        };
        if changed {
            let kept = Key::new(&format!("{}.before", job.name))?;
            job.beside.move_folder(old, &kept)?;
            job.clean_up()?;
            let kept = format!("{}/{kept}", job.beside.name());
            return Err(RepackError::ChangedAtCommit { at: job.at.clone(), kept }.into());
        }
        job.beside.remove_tree(&document)?;
    }
    job.clean_up()
}
