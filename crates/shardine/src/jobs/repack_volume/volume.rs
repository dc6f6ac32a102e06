//! The scales of a volume, packed anew.

use std::sync::Arc;

use serde_json::Value;
use shardine_store::{FolderPart, Key};

use super::values::Values;
use super::write::{check, write};
use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::repack::RepackError;
use crate::precomputed::{INFO, Volume, VolumeInfo};
use crate::{Engine, Error, Location, RepackOutcome};

/// A volume, and what it is to become.
pub(super) struct Scales {
    old: Volume,
    info: VolumeInfo,
    /// What becomes of each scale; those that stay as they are come with the outcome `Unchanged`.
    scales: Vec<RepackedScale>,
    /// The folders of the scales that change, relative to the volume's.
    changed: Vec<String>,
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
            let sharding = if asked {
                (options.sharding)(old.info(), scale).map_err(refuse)?
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
            scales.push(RepackedScale::new(level, &scale.key, sharding, outcome));
        }
        let changed = changed_folders(&old, &scales)?;
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

    fn build(
        &mut self,
        engine: &Arc<Engine>,
        place: &Location,
        options: &RepackVolumeOptions,
        resumed: bool,
    ) -> Result<(), Error> {
        let new = Volume::bind(engine, place, self.info.clone());
        let changed = |scale: &&mut RepackedScale| scale.outcome != RepackOutcome::Unchanged;
        for report in self.scales.iter_mut().filter(changed) {
            let from = Values::of_scale(&self.old, report.level)?;
            let to = Values::of_scale(&new, report.level)?;
            report.add(&write(engine, &from, &to, resumed, options)?);
            if options.check || resumed {
                check(engine, &from, &to)?;
            }
        }
        Ok(())
    }

    fn part(&self, path: &str, is_folder: bool) -> FolderPart {
        if path == INFO || self.changed.iter().any(|folder| folder == path) {
            FolderPart::Left
        } else if is_folder
            && self.changed.iter().any(|folder| folder.starts_with(&format!("{path}/")))
        {
            FolderPart::Inside
        } else {
            FolderPart::Carried
        }
    }

    fn reports(self, resumed: bool) -> Vec<RepackedScale> {
        let mut scales = self.scales;
        for scale in scales.iter_mut().filter(|_| resumed) {
            if scale.outcome == RepackOutcome::Done {
                scale.outcome = RepackOutcome::Resumed;
            }
        }
        scales
    }
}

/// The folders of the scales that change, relative to the volume's.
fn changed_folders(volume: &Volume, scales: &[RepackedScale]) -> Result<Vec<String>, Error> {
    let mut folders = Vec::new();
    for scale in scales.iter().filter(|scale| scale.outcome != RepackOutcome::Unchanged) {
        let folder = volume.folder(volume.scale(scale.level)?)?;
        let base = volume.location().path.as_ref().map(Key::as_str).unwrap_or_default();
        let inside = folder.as_ref().map(Key::as_str).unwrap_or_default();
        let inside = match base {
            "" => Some(inside),
            base => inside.strip_prefix(base).and_then(|rest| rest.strip_prefix('/')),
        };
        match inside {
            Some(folder) if !folder.is_empty() => folders.push(folder.to_owned()),
            _ => {
                let reason =
                    format!("the chunks of scale \"{}\" are not in a folder of its own", scale.key);
                return Err(
                    RepackError::Layout { at: volume.location().to_string(), reason }.into()
                );
            }
        }
    }
    Ok(folders)
}
