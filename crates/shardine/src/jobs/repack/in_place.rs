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

use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{Condition, FolderExchange, FolderPart, Key, LeftoverKind, Modes, StoreExt};

use super::error::is_stale;
use super::job::{Built, Job, Marker, WAIT};
use super::{
    RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, consolidated, target,
};
use crate::jobs::frame::JobContext;
use crate::jobs::rebuild::{AxisMap, Sides, Transfer, TransferOptions, moves};
use crate::precomputed::INFO;
use crate::zarr::MAX_DEPTH;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NodeMetadata};
use crate::zarr::{APPEND_MARKER, AppendClaim, DOCUMENT, grid_folder, has_same_chunks};
use crate::{ArrayNode, Engine, Error, Location, Node};

/// How often the parts of an array are moved again that were changed meanwhile.
const ATTEMPTS: usize = 3;

/// Ends jobs that were interrupted when the array at this place, or one below the group there, had no name: between two renames,
/// where folders cannot be exchanged.
pub(super) fn recover_missing(
    engine: &Arc<Engine>,
    location: &Location,
    depth: usize,
) -> Result<(), Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(()) };
    recover(location)?;
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for leftover in location.store.leftovers(location.path.as_ref())? {
        if let (LeftoverKind::Job, Some(array)) = (leftover.kind, leftover.object) {
            recover_at(exchange, Some(&array))?;
        }
    }
    let group = match Node::open(engine, location) {
        Ok(Node::Group(group)) => group,
        Ok(Node::Array(_)) => return Ok(()),
        // What cannot be read could hold anything.
        Err(error @ Error::Store(_)) => return Err(error),
        Err(_) => return Ok(()),
    };
    for child in group.children()? {
        if let Ok(Node::Group(inside)) = child.node {
            recover_missing(engine, inside.location(), depth + 1)?;
        }
    }
    Ok(())
}

/// Gives an array or a precomputed volume its name back, if a job on it was stopped between two renames, where folders cannot be
/// exchanged: then nothing has that name, and nobody can open what is there.
///
/// Whoever packs anew in place does so by himself; this is for who wants to look first at what is there. Does nothing for
/// stores other than files. Some `stat` if there is nothing to do.
pub fn recover(location: &Location) -> Result<(), Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(()) };
    recover_at(exchange, location.path.as_ref())
}

/// The same for what was in this folder.
fn recover_at(exchange: &dyn FolderExchange, folder: Option<&Key>) -> Result<(), Error> {
    let Some((store, name)) = exchange.beside_missing(folder) else { return Ok(()) };
    let at = store.root().join(name.as_str()).display().to_string();
    let job = Job::on(store, name, at, DOCUMENT)?;
    let lacks = |job: &Job| -> Result<bool, Error> {
        Ok(!job.beside.has_name(&job.name)? && job.beside.has_folder(&job.old)?)
    };
    if !lacks(&job)? {
        return Ok(());
    }
    let _lock = job.lock()?;
    if !lacks(&job)? || job.marker()?.is_none() {
        return Ok(());
    }
    // The document comes last: what has one is whole.
    for document in [DOCUMENT, INFO] {
        if job.beside.get(&job.new.join(document)?)?.is_some() {
            return Ok(job.beside.move_folder(&job.new, &job.name)?);
        }
    }
    Ok(())
}

/// Packs the chunks of one array anew.
pub(super) fn repack(
    context: &JobContext,
    array: &ArrayNode,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<(), Error> {
    let location = array.location();
    let job = Job::of(location, DOCUMENT)?;
    if options.dry_run || job.is_empty()? {
        // Nothing is made for what needs nothing, or cannot be done.
        if let Some(marker) = job.marker()? {
            let to = parsed(&job, &marker.to)?;
            describe(report, &to);
            let new = ArrayNode::from_metadata(array.engine(), location, to)?;
            report.moves = moves(array, &new);
            report.outcome = RepackOutcome::Resumed;
            return Ok(());
        }
        let wanted = wanted(array, options, report)?;
        let remains = job.beside.has_folder(&job.work)?;
        if options.dry_run || wanted.unchanged && !remains {
            return Ok(());
        }
    }
    let _lock = job.lock()?;
    let done = locked(context, &job, array, options, report);
    // A job that is refused, or has nothing to do, leaves nothing.
    if job.is_empty()? {
        job.beside.remove_tree(&job.work)?;
    }
    done
}

/// The same by who has the lock. What was read before it was had may be out of date.
fn locked(
    context: &JobContext,
    job: &Job,
    array: &ArrayNode,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<(), Error> {
    if options.restart && job.beside.get(&job.file)?.is_some() {
        give_up(job, array)?;
    }
    let (engine, place) = (array.engine(), array.location());
    let mut resumed = job.marker()?.is_some();
    for attempt in 1.. {
        let Some(current) = job.document(&job.name)? else {
            check(array)?;
            return Err(Error::NoNode { at: job.at.clone() });
        };
        let array = &ArrayNode::from_metadata(engine, place, parsed(job, &current)?)?;
        let Some((marker, state)) = begun(job, array, &current, options, report)? else {
            return Ok(());
        };
        if current == marker.to || job.is_exchanged(&marker)? {
            return end(job, array, &marker);
        }
        job.check_locks(options.exclusive)?;
        if !options.exclusive {
            // An append that is under way now is not waited for after all the work.
            drop(AppendClaim::at(place, false)?);
        }
        let built = build(context, job, array, options, (marker, state), report, resumed);
        let marker = match built {
            Ok(marker) => marker,
            // What is wrong counts only if the array is still the one that was being read.
            Err(_) if job.document(&job.name)?.as_ref() != Some(&current) => {
                if attempt == ATTEMPTS {
                    break;
                }
                resumed = true;
                continue;
            }
            Err(error) => return Err(error),
        };
        let alone = job.alone(options.exclusive, options.wait.unwrap_or(WAIT))?;
        // A writer may have come between the last look and the lock. From here on none can.
        let unchanged = job.document(&job.name)?.as_ref() == Some(&marker.from)
            && Some(job.beside.fingerprint(&job.name)?) == marker.fingerprint;
        if unchanged {
            // Planes that an append has not committed yet would be lost with the old array. The claim's file goes with it.
            let claim = (!options.exclusive).then(|| AppendClaim::at(place, false)).transpose()?;
            let taken = consolidated::take_away(&job.beside, &job.name, &job.work, place);
            let exchanged = taken.and_then(|()| Ok(job.exchange()?));
            drop(claim);
            consolidated::put_back(&job.beside, &job.name, &job.work, place)?;
            exchanged?;
            return job.end_alone(alone, &marker, &|| count(job, engine, &marker));
        }
        if attempt == ATTEMPTS {
            break;
        }
        resumed = true;
    }
    Err(RepackError::Changed { at: job.at.clone() }.into())
}

/// The fingerprint of the old array and the modes of its files, if they are known.
type State = Option<(u64, Modes)>;

/// What the job is to do: what an earlier run has said, or a new plan, which is recorded. `None` if there is nothing to do.
fn begun(
    job: &Job,
    array: &ArrayNode,
    current: &str,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<Option<(Marker, State)>, Error> {
    let mut known = job.marker()?;
    match &known {
        Some(marker) => {
            if marker.request != options.request() {
                let (at, request) = (job.at.clone(), marker.request.to_string());
                return Err(RepackError::OtherJob { at, request }.into());
            }
            if current == marker.from || current == marker.to || job.is_exchanged(marker)? {
                report.outcome = RepackOutcome::Resumed;
                describe(report, &parsed(job, &marker.to)?);
                return Ok(known.take().map(|marker| (marker, None)));
            }
            // It has grown, or its attributes were changed. Anything else is another array, of which nobody knows what it
            // has to do with what was built.
            if !describes_same(job, current, &marker.from)? {
                return Err(job.refuse("the metadata of the array was changed since"));
            }
        }
        None if !job.is_empty()? => return Err(job.refuse("it is missing")),
        None => {}
    }
    let wanted = wanted(array, options, report)?;
    if wanted.unchanged {
        if known.is_some() {
            job.clean_up()?;
        }
        return Ok(None);
    }
    let to = String::from_utf8_lossy(&wanted.metadata.to_bytes()).into_owned();
    let fits = match &known {
        None => true,
        Some(marker) => describes_same(job, &to, &marker.to)? && !shrinks(job, marker, &to)?,
    };
    if !fits {
        // What was built is of another grid.
        job.beside.remove_tree(&job.new)?;
    }
    // What cannot be replaced, or cannot be looked at, is told before anything is begun.
    job.beside.check_movable(&job.name, &job.work)?;
    let mut state = None;
    let fingerprint = match known {
        Some(known) => known.fingerprint,
        None => Some(state.insert(job.beside.state_of(&job.name)?).0),
    };
    let (request, from) = (options.request(), current.to_owned());
    let marker = Marker { request, from, to, fingerprint, built: None };
    marker.put(job)?;
    Ok(Some((marker, state)))
}

/// Whether two documents describe arrays whose chunks have the same names and mean the same.
fn describes_same(job: &Job, one: &str, other: &str) -> Result<bool, Error> {
    Ok(has_same_chunks(&parsed(job, one)?, other.as_bytes()))
}

/// Whether an array is shorter along an axis than what was being built.
fn shrinks(job: &Job, marker: &Marker, to: &str) -> Result<bool, Error> {
    let (before, after) = (parsed(job, &marker.to)?, parsed(job, to)?);
    Ok(before.shape().iter().zip(after.shape()).any(|(before, after)| after < before))
}

/// What is to be built from an array on which no job was interrupted.
fn wanted(
    array: &ArrayNode,
    options: &RepackOptions,
    report: &mut RepackedArray,
) -> Result<target::Wanted, Error> {
    check(array)?;
    let wanted = target::wanted(array, options, *array.metadata().key_encoding())?;
    describe(report, &wanted.metadata);
    let new = ArrayNode::from_metadata(array.engine(), array.location(), wanted.metadata.clone())?;
    report.moves = moves(array, &new);
    report.outcome = match wanted.unchanged {
        true => RepackOutcome::Unchanged,
        false => RepackOutcome::Done,
    };
    Ok(wanted)
}

/// Gives up an earlier job; if it had come so far that the array is what it was to be, ends it.
fn give_up(job: &Job, array: &ArrayNode) -> Result<(), Error> {
    let Some(text) = job.document(&job.name)? else { return Ok(()) };
    let marker = match job.marker() {
        Err(error @ Error::Store(_)) => return Err(error),
        // What cannot be understood is given up all the same.
        marker => marker.ok().flatten(),
    };
    if let Some(marker) = marker
        && (marker.to == text || job.is_exchanged(&marker)?)
    {
        return end(job, array, &marker);
    }
    consolidated::put_back(&job.beside, &job.name, &job.work, array.location())?;
    job.give_up()
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

/// How chunks are made, as the options of a job say.
pub(super) fn transfer_options(options: &RepackOptions, check: RepackCheck) -> TransferOptions {
    TransferOptions { order: options.order, store_empty: false, check }
}

/// Refuses an array that must not be replaced now.
fn check(array: &ArrayNode) -> Result<(), Error> {
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
    context: &JobContext,
    job: &Job,
    old: &ArrayNode,
    options: &RepackOptions,
    (mut marker, found): (Marker, State),
    report: &mut RepackedArray,
    mut resumed: bool,
) -> Result<Marker, Error> {
    let metadata = parsed(job, &marker.to)?;
    let (mut fingerprint, modes) = match found {
        Some(found) => found,
        None => job.beside.state_of(&job.name)?,
    };
    let store = Arc::new(job.beside.with_modes(modes));
    let place = Location::root(store).at(Some(job.new.clone()));
    let new = ArrayNode::from_metadata(old.engine(), &place, metadata)?;
    let moves = moves(old, &new);
    report.moves = moves;
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
        let axes = AxisMap::identity(old.shape().len());
        let sides = Sides { old, axes: &axes, new: &new };
        let options = transfer_options(options, check);
        let transfer = Transfer::new(context, sides, options, resumed, &path);
        let built = transfer.run();
        report.count(&transfer.counts(), check);
        let built = built.and_then(|()| carry_over(job, old, &new));
        let now = job.beside.fingerprint(&job.name)?;
        match built {
            Ok(()) if now == fingerprint => break,
            Err(error) if now == fingerprint || !is_stale(&error) => return Err(error),
            _ => {}
        }
        (fingerprint, resumed) = (now, true);
    }
    marker.built = Some(Built {
        objects: report.objects_written.saturating_add(report.objects_kept),
        chunks: moves.then_some(report.chunks_moved),
    });
    marker.put(job)?;
    let modes = job.beside.modes_of(&job.name.join(DOCUMENT)?)?;
    let document = job.new.join(DOCUMENT)?;
    job.beside.with_modes(modes).put(&document, marker.to.as_bytes(), Condition::None)?;
    Ok(marker)
}

/// Gives the new array all that lies in the folder of the old one and is no part of it.
fn carry_over(job: &Job, old: &ArrayNode, new: &ArrayNode) -> Result<(), Error> {
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
fn end(job: &Job, array: &ArrayNode, marker: &Marker) -> Result<(), Error> {
    consolidated::put_back(&job.beside, &job.name, &job.work, array.location())?;
    job.end(marker, &|| count(job, array.engine(), marker))
}

/// What is stored of the new array, where the old one was. A listing, and of shards a read for each index.
fn count(job: &Job, engine: &Arc<Engine>, marker: &Marker) -> Result<Built, Error> {
    let store = Arc::new(job.beside.clone());
    let place = Location::root(store).at(Some(job.name.clone()));
    let array = ArrayNode::from_metadata(engine, &place, parsed(job, &marker.to)?)?;
    let objects = array.possible_objects()?;
    let countable = array.chunks.layout.is_addressable_throughout();
    let mut chunks = countable.then_some(objects.len() as u64);
    if chunks.is_some() && array.shard_shape().is_some() {
        let (mut stored, mut failed) = (0, None);
        array.each_shard(&objects, &mut |_, found| match found {
            Ok(found) => {
                let entries = found.iter().flat_map(|found| &found.entries);
                stored += entries.filter(|entry| entry.is_some()).count() as u64;
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        chunks = Some(stored);
    }
    Ok(Built { objects: objects.len() as u64, chunks })
}
