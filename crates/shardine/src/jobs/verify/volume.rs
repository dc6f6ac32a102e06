//! Volumes in Neuroglancer's precomputed format, and folders of meshes, skeletons and annotations.

use shardine_store::{Key, StoreError};

use super::hierarchy::{refusal, refused};
use crate::jobs::check::keyed::{Chunks, Folder};
use crate::jobs::check::{
    Finding, FindingKind, InfoSet, Run, beside, is_known_in_volume, scale_place, value_places,
};
use crate::precomputed::{CHUNK_SIZES, INFO, Volume};
use crate::{Error, Location};

impl Run<'_> {
    /// Checks what the `info` at a location describes; `false` if there is none.
    pub(super) fn data_set(&self, location: &Location) -> Result<bool, Error> {
        // Read while held in place, so that it describes what is checked.
        let _hold = self.hold(location)?;
        match InfoSet::read(self.engine, location)? {
            None => return Ok(false),
            Some(InfoSet::Volume(volume)) => self.volume(&volume)?,
            Some(InfoSet::Folders(folders)) => self.value_folders(&folders)?,
        }
        Ok(true)
    }

    fn value_folders(&self, folders: &[Folder]) -> Result<(), Error> {
        if self.scope.metadata_only {
            return Ok(());
        }
        value_places(folders).try_for_each(|place| self.shards(&place).map(drop))
    }

    fn volume(&self, volume: &Volume) -> Result<(), Error> {
        let location = volume.location();
        self.sum(|summary| summary.groups += 1);
        match self.leftovers(location, location.path.as_ref()) {
            // It is reported with the scales.
            Ok(()) | Err(Error::Store(StoreError::Unsupported { .. })) => {}
            Err(error) => self.unreadable(location.path.as_ref(), &error),
        }
        let mut fillings = Vec::new();
        for (level, scale) in volume.info().scales().iter().enumerate() {
            self.sum(|summary| summary.arrays += 1);
            self.decodable(volume, level)?;
            if self.scope.metadata_only || self.scope.level.is_some_and(|wanted| wanted != level) {
                continue;
            }
            let filling = match scale_place(volume, level, scale) {
                Ok(Some(place)) => self.shards(&place)?,
                Ok(None) => {
                    let known = |key: &Key| is_known_in_volume(volume, level, key);
                    let chunks = Chunks::new(volume.info(), scale, volume.array(level).ok());
                    self.boxes(volume, scale, &chunks, &known)?
                }
                Err(error) => {
                    self.note(refused(location, &error));
                    continue;
                }
            };
            fillings.push((scale, filling));
        }
        // One scale alone shows nothing.
        if self.is_first() && self.scope.level.is_none() {
            self.missing(&fillings);
        }
        let others = beside(volume).filter(|_| self.scope.level.is_none());
        for place in others {
            match InfoSet::read(self.engine, &place) {
                Ok(Some(InfoSet::Folders(folders))) => self.value_folders(&folders)?,
                // Without an `info`, or without shards, there is nothing of ours.
                Ok(_) | Err(Error::NoKeyValues { .. }) => {}
                Err(error) if refusal(&error).is_some() => self.note(refused(&place, &error)),
                Err(error) => self.unreadable(place.path.as_ref(), &error),
            }
        }
        Ok(())
    }

    /// Reports if the chunks of a scale cannot be decoded here, or not at all.
    fn decodable(&self, volume: &Volume, level: usize) -> Result<(), Error> {
        let Err(error) = volume.array(level) else { return Ok(()) };
        let kind = match &error {
            // An encoding unknown here, or a folder out of reach: the chunks may be fine.
            Error::Info { source, .. } if source.member != CHUNK_SIZES => FindingKind::NotChecked,
            error => refusal(error).unwrap_or(FindingKind::NotChecked),
        };
        if kind == FindingKind::NotChecked && !self.scope.decode {
            return Ok(());
        }
        let message = format!("scale {level}: {error}");
        self.note(Finding::new(kind, Some(volume.location().key(INFO)?), message));
        Ok(())
    }
}
