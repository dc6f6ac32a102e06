//! Repacks the scales of a volume.

use std::sync::Arc;

use serde_json::Value;
use shardine_store::{FolderPart, Key};

use super::survey::survey;
use super::values::count_chunks;
use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::RepackOutcome;
use crate::jobs::rebuild::{AxisMap, Counts, SourceRef, Step, TargetRef, Work};
use crate::jobs::repack::RepackError;
use crate::plan::measure_values;
use crate::precomputed::{INFO, Scale, ValueNames, Volume, VolumeInfo};
use crate::{Engine, Error, Location};

/// A volume, and its replacement.
#[derive(Clone)]
pub(super) struct Scales {
    old: Volume,
    info: VolumeInfo,
    /// The report of each scale; those that stay as they are have the outcome `Unchanged`.
    scales: Vec<RepackedScale>,
    changed: Vec<Changed>,
}

/// A scale that changes.
#[derive(Clone)]
struct Changed {
    level: usize,
    /// Its folder, relative to the volume's.
    folder: String,
    /// How its objects are named, before and after.
    names: [ValueNames; 2],
}

impl Scales {
    pub fn open(
        engine: &Arc<Engine>,
        location: &Location,
        options: &RepackVolumeOptions,
    ) -> Result<Self, Error> {
        let old = Volume::open(engine, location)?;
        let refuse =
            |reason: String| Error::from(RepackError::Layout { at: location.to_string(), reason });
        let mut info = old.info().clone();
        if let Some(level) = options.level {
            old.scale(level)?;
        }
        let mut scales = Vec::new();
        for (level, scale) in old.info().scales().iter().enumerate() {
            let asked = options.level.is_none_or(|only| only == level);
            let measured = match asked && options.sharding.leaves_data_encoding_open(scale) {
                true => measure_values(&old.packed_array(level)?)?,
                false => None,
            };
            let sharding = if asked {
                let alone = options.level.is_some();
                let values = measured.map(|sizes| sizes.encoding());
                options.sharding.of_scale(old.info(), scale, alone, values).map_err(refuse)?
            } else {
                scale.sharding.clone()
            };
            let outcome = if sharding == scale.sharding {
                RepackOutcome::Unchanged
            } else {
                RepackOutcome::Done
            };
            if outcome == RepackOutcome::Done {
                if scale.chunk_sizes.len() > 1 {
                    return Err(refuse(format!(
                        "scale \"{}\" has chunks of several shapes, which cannot be packed",
                        scale.key
                    )));
                }
                info = info
                    .with_sharding(level, sharding.as_ref())
                    .map_err(|error| refuse(error.to_string()))?;
            }
            let report = RepackedScale::new(level, &scale.key, sharding, outcome);
            scales.push(RepackedScale { measured, ..report });
        }
        let changed = changed_scales(&old, &info, &scales)?;
        Ok(Self { old, info, scales, changed })
    }
}

impl Packed for Scales {
    fn info(&self) -> Vec<u8> {
        self.info.to_bytes()
    }

    fn request(&self) -> Value {
        Value::Object(self.info.document().clone())
    }

    fn is_unchanged(&self) -> bool {
        self.scales.iter().all(|scale| scale.outcome == RepackOutcome::Unchanged)
    }

    fn check_inside(&self) -> Result<(), Error> {
        for scale in self.old.info().scales() {
            if folder_inside(&self.old, scale)?.is_none() {
                let key = &scale.key;
                let reason = format!(
                    "the chunks of scale \"{key}\" are not in a folder inside the volume, so a \
                     copy would lack them"
                );
                let at = self.old.location().to_string();
                return Err(RepackError::Layout { at, reason }.into());
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Error> {
        let store = &*self.old.location().store;
        for changed in &self.changed {
            let folder = self.old.folder(self.old.scale(changed.level)?)?;
            let [old, new] = &changed.names;
            survey(store, folder.as_ref(), old, new)?;
        }
        Ok(())
    }

    fn steps(&self, engine: &Arc<Engine>, place: &Location) -> Result<Vec<Step>, Error> {
        let new = Volume::bind(engine, place, self.info.clone());
        let mut steps = Vec::new();
        for &Changed { level, .. } in &self.changed {
            // Refuses what no reader finds, before anything is moved.
            count_chunks(engine, &self.old, level)?;
            let (old, new) = (self.old.packed_array(level)?, new.packed_array(level)?);
            let (axes, folder) =
                (AxisMap::identity(old.shape().len()), self.old.location().clone());
            let name = self.old.scale(level)?.key.clone();
            let work = Work::Array { old, axes, new };
            let info = Value::Object(self.info.document().clone());
            let source = SourceRef { path: String::new(), level, packed: true };
            let target = TargetRef::Volume { info, level, packed: true };
            steps.push(Step { name, folder, work, source, target, documents: Vec::new() });
        }
        Ok(steps)
    }

    fn count(&mut self, counts: &[Counts]) {
        for (changed, counts) in self.changed.iter().zip(counts) {
            if let Some(report) = self.scales.get_mut(changed.level) {
                report.add(counts);
            }
        }
    }

    fn part(&self, path: &str, is_folder: bool) -> FolderPart {
        if path == INFO {
            return FolderPart::Left;
        }
        if is_folder {
            let leads = |changed: &Changed| {
                let rest = changed.folder.strip_prefix(path);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            return match self.changed.iter().any(leads) {
                true => FolderPart::Inside,
                false => FolderPart::Carried,
            };
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_part = |changed: &Changed| {
            changed.folder == folder && changed.names.iter().any(|names| names.has(name))
        };
        match self.changed.iter().any(is_part) {
            true => FolderPart::Left,
            false => FolderPart::Carried,
        }
    }

    fn recount(&self, engine: &Arc<Engine>, place: &Location) -> Result<u64, Error> {
        let new = Volume::bind(engine, place, self.info.clone());
        self.changed.iter().try_fold(0u64, |all, changed| {
            let before = count_chunks(engine, &self.old, changed.level)?;
            let after = count_chunks(engine, &new, changed.level)?;
            if before != after {
                return Err(RepackError::Count { before, after }.into());
            }
            Ok(all.saturating_add(after))
        })
    }

    fn reports(&self, resumed: bool) -> Vec<RepackedScale> {
        let mut scales = self.scales.clone();
        for scale in scales.iter_mut().filter(|_| resumed) {
            if scale.outcome == RepackOutcome::Done {
                scale.outcome = RepackOutcome::Resumed;
            }
        }
        scales
    }
}

/// The folder of a scale, relative to the volume's; `None` if it lies outside.
fn folder_inside(volume: &Volume, scale: &Scale) -> Result<Option<String>, Error> {
    let folder = volume.folder(scale)?;
    let base = volume.location().path.as_ref().map(Key::as_str).unwrap_or_default();
    let inside = folder.as_ref().map(Key::as_str).unwrap_or_default();
    let inside = match base {
        "" => Some(inside),
        base => inside.strip_prefix(base).and_then(|rest| rest.strip_prefix('/')),
    };
    Ok(inside.filter(|folder| !folder.is_empty()).map(str::to_owned))
}

/// The scales that change. Each must have a folder of its own.
fn changed_scales(
    volume: &Volume,
    info: &VolumeInfo,
    scales: &[RepackedScale],
) -> Result<Vec<Changed>, Error> {
    let refuse = |reason: String| RepackError::Layout { at: volume.location().to_string(), reason };
    let mut changed = Vec::new();
    for report in scales.iter().filter(|scale| scale.outcome != RepackOutcome::Unchanged) {
        let level = report.level;
        let (old, new) = (volume.scale(level)?, info.scales().get(level));
        let Some(folder) = folder_inside(volume, old)? else {
            let key = &report.key;
            let reason = format!("the chunks of scale \"{key}\" are not in a folder of its own");
            return Err(refuse(reason).into());
        };
        let others = volume.info().scales().iter().enumerate().filter(|(other, _)| *other != level);
        for (_, other) in others {
            // A scale outside the volume's folder does not share this one.
            if folder_inside(volume, other).ok().flatten().as_ref() == Some(&folder) {
                let (one, two) = (&report.key, &other.key);
                let reason = format!("the chunks of scales \"{one}\" and \"{two}\" share a folder");
                return Err(refuse(reason).into());
            }
        }
        let names = [old, new.unwrap_or(old)].map(ValueNames::of_scale);
        changed.push(Changed { level, folder, names });
    }
    Ok(changed)
}
