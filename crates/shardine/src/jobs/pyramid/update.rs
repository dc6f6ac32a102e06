//! Renews the lower levels of an image where the level before each has changed.
//!
//! An object of a level is out of date if one that it is made from was changed after it, or if only
//! one of the two exists. So a run that is killed leaves what it has not done yet out of date, and
//! the next one does it. What changes while it is read is made again; what changes later is newer
//! than what was made, and out of date for the next run.

use std::collections::{BTreeSet, HashMap};

use shardine_codec::{Downsample, DownsampleMethod};
use shardine_store::{ObjectTimes, StoreExt};

use super::build::PYRAMID_MARKER;
use super::geometry::grid_of;
use super::image::PyramidImage;
use super::source::reducing;
use super::{LevelCounts, PyramidError, PyramidLevel, PyramidOptions, PyramidSummary};
use crate::engine::Cells;
use crate::jobs::JobContext;
use crate::jobs::frame::{JobError, Part, remove_leftovers_below};
use crate::jobs::import::counting;
use crate::jobs::rebuild::PartOutcome;
use crate::jobs::watched::Watched;
use crate::jobs::whole::check_walked;
use crate::ome::LevelPlacement;
use crate::selection::{Axis, Selection};
use crate::{Array, ArrayNode, Error, Node, WriteOptions, WriteReport};

/// Attempts to make a level from one that keeps changing.
const ATTEMPTS: usize = 8;

/// Objects that are renewed together.
const TOGETHER: usize = 64;

/// A level, with what leads to it from the one before.
struct Level {
    path: String,
    array: ArrayNode,
    factors: Vec<u64>,
    kernel: Downsample,
    placement: LevelPlacement,
}

/// When the objects of an array were changed, by cell.
type Times = HashMap<Vec<u64>, ObjectTimes>;

pub(super) fn update(
    context: &JobContext,
    image: &PyramidImage,
    options: &PyramidOptions,
    tell: &mut dyn FnMut(&PyramidLevel),
) -> Result<PyramidSummary, Error> {
    let at = || image.location.to_string();
    refuse_parts(options.part)?;
    if image.location.store.get(&image.location.key(PYRAMID_MARKER)?)?.is_some() {
        return Err(JobError::Busy { at: at() }.into());
    }
    let method = method(image, options)?;
    let levels = levels(context, image, method)?;
    let changed = match &options.region {
        Some(region) => Some(region.resolve(image.finest.shape())?),
        None if image.location.store.folders().is_none() => {
            return Err(PyramidError::NoTimes { at: at() }.into());
        }
        None => {
            // What is behind a link may change without anyone seeing it.
            check_walked(image.finest.location())?;
            levels.iter().try_for_each(|level| check_walked(level.array.location()))?;
            if !options.dry_run {
                // A run that was killed has left what it was writing.
                let mut places = levels.iter().map(|level| level.array.location());
                places.try_for_each(remove_leftovers_below)?;
            }
            None
        }
    };
    let mut summary = PyramidSummary {
        method,
        levels: Vec::new(),
        resumed: false,
        unchanged: true,
        passes: levels.len(),
        outcome: PartOutcome::Complete,
    };
    let sizes = levels.iter().map(|level| level.array.decoded_len());
    let context = &context.of_steps(sizes.fold(0, u64::saturating_add));
    let mut finer: &Array = &image.finest;
    let mut boxed = changed.map(|selection| bounding_box(&selection));
    let mut bytes = 0;
    for level in &levels {
        context.begin_step(level.array.decoded_len(), bytes);
        let job = Renewal { context, finer, level, dry_run: options.dry_run };
        let counts = match &mut boxed {
            Some(boxed) => {
                *boxed = reduced(boxed, &level.factors);
                job.renew_box(boxed)?
            }
            None => job.renew_changed()?,
        };
        bytes = counts.bytes;
        summary.unchanged &= counts.objects == 0;
        let done = level.summary(counts);
        tell(&done);
        summary.levels.push(done);
        finer = &level.array;
    }
    Ok(summary)
}

fn refuse_parts(part: Option<Part>) -> Result<(), Error> {
    let reason = "levels are renewed one after another";
    match part {
        Some(_) => Err(JobError::NotInParts { option: "--update", reason }.into()),
        None => Ok(()),
    }
}

/// The method that the levels were made with.
fn method(image: &PyramidImage, options: &PyramidOptions) -> Result<DownsampleMethod, Error> {
    if let Some(method) = options.method {
        return Ok(method);
    }
    match image.image()?.other.get("type") {
        None => Ok(image.method(options)),
        Some(kind) => {
            let known = kind.as_str().and_then(|kind| kind.parse().ok());
            let kind = kind.as_str().map_or_else(|| kind.to_string(), str::to_owned);
            let at = image.location.to_string();
            Ok(known.ok_or(PyramidError::UnknownMethod { at, kind })?)
        }
    }
}

/// Opens the levels below the finest, and finds out by which factors they are smaller.
fn levels(
    context: &JobContext,
    image: &PyramidImage,
    method: DownsampleMethod,
) -> Result<Vec<Level>, Error> {
    let at = || image.location.to_string();
    let model = image.image()?;
    if model.levels.len() < 2 {
        let reason = "it has none that could be renewed".to_owned();
        return Err(PyramidError::Nothing { at: at(), reason }.into());
    }
    let Node::Group(group) = Node::open(context.engine(), &image.location)? else {
        return Err(PyramidError::NotAnImage { at: at(), found: "it is an array".into() }.into());
    };
    let mut levels: Vec<Level> = Vec::new();
    for (number, level) in model.levels.iter().enumerate().skip(1) {
        let unrelated =
            |reason: String| PyramidError::Unrelated { at: at(), level: number, reason };
        let array = group.level(&level.path)?;
        let finer = levels.last().map_or(&image.finest, |level| &level.array);
        if array.data_type() != finer.data_type() || array.shape().len() != finer.shape().len() {
            let reason =
                "its elements or axes are others than those of the level before".to_owned();
            return Err(unrelated(reason).into());
        }
        let placement = |number: usize| model.placement(number).ok();
        let scales = placement(number).zip(placement(number - 1));
        let factors = factors(finer.shape(), array.shape(), scales.as_ref()).ok_or_else(|| {
            unrelated(format!(
                "its shape {:?} does not follow from {:?} by whole factors, rounded up",
                array.shape(),
                finer.shape()
            ))
        })?;
        let kernel = Downsample::new(array.data_type(), method, &factors)
            .map_err(|source| PyramidError::Method { at: at(), source })?;
        let placement =
            placement(number).unwrap_or_else(|| LevelPlacement::identity(array.shape().len()));
        levels.push(Level { path: level.path.clone(), array, factors, kernel, placement });
    }
    Ok(levels)
}

/// By which factors a shape is smaller than another one; `None` if it is not.
fn factors(
    finer: &[u64],
    coarser: &[u64],
    scales: Option<&(LevelPlacement, LevelPlacement)>,
) -> Option<Vec<u64>> {
    let along = |axis: usize| {
        let (from, to) = (finer[axis], coarser[axis]);
        let fits = |factor: &u64| *factor > 0 && from.div_ceil(*factor) == to;
        let by_scale = scales.and_then(|(coarse, fine)| {
            let ratio = (coarse.scale.get(axis)? / fine.scale.get(axis)?).round();
            (1.0..1e9).contains(&ratio).then_some(ratio as u64)
        });
        let by_shape = [from.checked_div(to), from.checked_div(to).map(|n| n + 1)];
        let one = (from == to).then_some(1);
        by_scale.into_iter().chain(one).chain(by_shape.into_iter().flatten()).find(fits)
    };
    (0..finer.len()).map(along).collect()
}

/// The box around a selection.
fn bounding_box(selection: &Selection) -> Vec<(u64, u64)> {
    let span = |axis: &Axis| {
        let last = axis.start + axis.count.saturating_sub(1).saturating_mul(axis.step);
        (axis.start, last + 1)
    };
    selection.axes.iter().map(span).collect()
}

/// The box of the next level that a box is part of.
fn reduced(boxed: &[(u64, u64)], factors: &[u64]) -> Vec<(u64, u64)> {
    boxed.iter().zip(factors).map(|(&(start, end), &f)| (start / f, end.div_ceil(f))).collect()
}

impl Level {
    fn summary(&self, counts: LevelCounts) -> PyramidLevel {
        PyramidLevel {
            path: self.path.clone(),
            shape: self.array.shape().to_vec(),
            factors: self.factors.clone(),
            scale: self.placement.scale.clone(),
            translation: self.placement.translation.clone(),
            chunk_shape: self.array.chunk_shape().to_vec(),
            shard_shape: self.array.shard_shape().map(<[u64]>::to_vec),
            counts,
        }
    }
}

/// The renewal of one level.
struct Renewal<'a> {
    context: &'a JobContext,
    finer: &'a Array,
    level: &'a Level,
    dry_run: bool,
}

impl Renewal<'_> {
    /// Renews a box of elements.
    fn renew_box(&self, boxed: &[(u64, u64)]) -> Result<LevelCounts, Error> {
        let axes = boxed.iter().zip(self.level.array.shape());
        let axes = axes.map(|(&(start, end), &len)| Axis {
            start,
            step: 1,
            count: end.min(len).saturating_sub(start),
        });
        let selection = Selection { axes: axes.collect() };
        if self.dry_run || selection.axes.iter().any(|axis| axis.count == 0) {
            return Ok(LevelCounts::default());
        }
        self.write(&[selection])
    }

    /// Renews the objects that are older than what they are made from.
    fn renew_changed(&self) -> Result<LevelCounts, Error> {
        let mut counts = LevelCounts::default();
        let mut forced: BTreeSet<Vec<u64>> = BTreeSet::new();
        for _ in 0..ATTEMPTS {
            let (before, own) = (times(self.finer)?, times(&self.level.array)?);
            let mut stale = self.stale(&before, &own);
            stale.append(&mut forced);
            counts.kept = (own.len() as u64).saturating_sub(stale.len() as u64);
            if self.dry_run {
                counts.objects = stale.len() as u64;
                return Ok(counts);
            }
            let boxes: Vec<Selection> = stale.iter().map(|cell| self.cell_box(cell)).collect();
            for some in boxes.chunks(TOGETHER) {
                counts.add(&self.write(some)?);
            }
            if boxes.is_empty() {
                return Ok(counts);
            }
            let after = times(self.finer)?;
            forced = self.touched(&before, &after);
            if forced.is_empty() {
                return Ok(counts);
            }
        }
        Err(PyramidError::Unsettled { at: self.finer.location().to_string() }.into())
    }

    fn write(&self, boxes: &[Selection]) -> Result<LevelCounts, Error> {
        let Self { context, finer, level, .. } = self;
        context.check()?;
        let source = reducing(finer, &level.kernel, &level.factors);
        let watched = Watched { source: &source, context };
        let progress = counting(context, 0, level.array.decoded_len());
        let options = WriteOptions::new().progress(progress);
        let written = level.array.write_boxes(boxes, &watched, &options);
        context.check()?;
        let WriteReport {
            objects_written,
            objects_removed,
            chunks_encoded,
            chunks_empty,
            bytes_written,
            ..
        } = written?;
        Ok(LevelCounts {
            chunks: chunks_encoded,
            empty: chunks_empty,
            objects: objects_written + objects_removed,
            kept: 0,
            bytes: bytes_written,
        })
    }

    /// The elements of an object.
    fn cell_box(&self, cell: &[u64]) -> Selection {
        let array = &self.level.array;
        let axes = cell.iter().zip(array.cell_shape()).zip(array.shape());
        let axes = axes.map(|((&i, &n), &len)| {
            let start = i.saturating_mul(n);
            Axis { start, step: 1, count: n.min(len.saturating_sub(start)) }
        });
        Selection { axes: axes.collect() }
    }

    /// The objects that are made from an object of the finer level.
    fn made_from(&self, cell: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
        let (array, finer) = (&self.level.array, self.finer);
        let grid = grid_of(array.shape(), array.cell_shape());
        let span = |axis: usize| {
            let n = finer.cell_shape()[axis];
            let start = cell[axis].saturating_mul(n);
            let end = start.saturating_add(n).min(finer.shape()[axis]);
            let (factor, object) = (self.level.factors[axis], array.cell_shape()[axis].max(1));
            let first = start / factor / object;
            (first, end.div_ceil(factor).div_ceil(object).min(grid[axis]).saturating_sub(first))
        };
        let (first, count): (Vec<u64>, Vec<u64>) = (0..cell.len()).map(span).unzip();
        Cells::new(count)
            .map(move |inside| first.iter().zip(&inside).map(|(&a, &b)| a + b).collect())
    }

    /// The objects that are out of date.
    fn stale(&self, finer: &Times, own: &Times) -> BTreeSet<Vec<u64>> {
        let mut sources: HashMap<Vec<u64>, bool> = HashMap::new();
        for (cell, times) in finer {
            for made in self.made_from(cell) {
                let is_newer = own.get(&made).is_none_or(|own| {
                    // Objects that come to their places together may share a tick of the clock
                    // that nobody can set; the other one is precise.
                    times.modified >= own.modified || times.changed > own.changed
                });
                *sources.entry(made).or_default() |= is_newer;
            }
        }
        let orphans = own.keys().filter(|cell| !sources.contains_key(*cell)).cloned();
        let stale = sources.iter().filter(|(_, stale)| **stale).map(|(cell, _)| cell.clone());
        stale.chain(orphans).collect()
    }

    /// The objects that are made from what changed between two looks.
    fn touched(&self, before: &Times, after: &Times) -> BTreeSet<Vec<u64>> {
        let changed = after.iter().filter(|(cell, times)| before.get(*cell) != Some(times));
        let gone = before.iter().filter(|(cell, _)| !after.contains_key(*cell));
        changed.chain(gone).flat_map(|(cell, _)| self.made_from(cell)).collect()
    }
}

/// When the objects of an array were changed. A listing, and a `stat` for each object.
fn times(array: &Array) -> Result<Times, Error> {
    let store = &array.chunks.store;
    let Some(folders) = store.folders() else {
        return Err(PyramidError::NoTimes { at: array.location().to_string() }.into());
    };
    let mut all = Times::new();
    for object in array.possible_objects()? {
        if let Some(times) = folders.times(&object.key)? {
            all.insert(object.cell, times);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_follow_from_shapes_and_scales() {
        let scaled = |scale: f64| LevelPlacement::new(vec![scale], vec![0.0]);
        for (finer, coarser, ratio, expected) in [
            (100, 50, None, Some(2)),
            (101, 51, None, Some(2)),
            (101, 50, None, None),
            (7, 7, None, Some(1)),
            (10, 4, None, Some(3)),
            (1, 1, Some(2.0), Some(2)),
            (1, 1, None, Some(1)),
            (100, 50, Some(3.0), Some(2)),
            (0, 0, None, Some(1)),
        ] {
            let scales = ratio.map(|ratio| (scaled(ratio), scaled(1.0)));
            let found = factors(&[finer], &[coarser], scales.as_ref());
            assert_eq!(found, expected.map(|factor| vec![factor]), "{finer} {coarser}");
        }
    }
}
