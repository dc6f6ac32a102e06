//! Where the levels of an image are built: in their places, or beside old levels that they replace.

use shardine_store::{Condition, StoreExt};

use super::build::Build;
use super::plan::LevelPlan;
use super::replace::Replaced;
use crate::jobs::frame::marker::is_report;
use crate::{ArrayNode, Error, Location};

/// A level in the place where it is built.
pub(super) struct BuiltLevel<'p> {
    pub plan: &'p LevelPlan,
    /// Where it is in the end.
    pub home: Location,
    /// Where it is built.
    pub array: ArrayNode,
    /// The old level, if there is one.
    pub replaced: Option<Replaced>,
}

impl BuiltLevel<'_> {
    /// Whether it is in the place of the old level already, or on the way there.
    pub fn is_switched(&self) -> bool {
        self.replaced.as_ref().is_some_and(Replaced::is_switched)
    }
}

impl Build<'_> {
    pub(super) fn home(&self, level: &LevelPlan) -> Result<Location, Error> {
        self.image.place(&level.path)
    }

    /// Whether a level has its documents at a location, which come after everything else.
    pub(super) fn is_documented(&self, level: &LevelPlan, place: &Location) -> Result<bool, Error> {
        for (name, document) in &level.documents {
            let found = place.store.get(&place.key(name)?)?;
            if found.is_none_or(|found| *found != **document) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The levels in the places where they are built.
    pub(super) fn places(&self) -> Result<Vec<BuiltLevel<'_>>, Error> {
        let image = self.image.image()?;
        let mut levels = Vec::new();
        for plan in &self.plan.levels {
            let home = self.home(plan)?;
            let listed = image.levels.iter().any(|old| old.path == plan.path);
            let replaced = Replaced::of(&home, self.image.format, listed)?;
            let place = match &replaced {
                Some(replaced) => replaced.place()?,
                None => home.clone(),
            };
            let engine = self.context.engine();
            let array = ArrayNode::from_metadata(engine, &place, plan.metadata.clone())?;
            levels.push(BuiltLevel { plan, home, array, replaced });
        }
        if levels.iter().any(BuiltLevel::is_switched) {
            levels
                .iter_mut()
                .filter_map(|level| level.replaced.as_mut())
                .try_for_each(Replaced::settle)?;
        }
        Ok(levels)
    }

    /// Removes everything that was made so far.
    pub(super) fn clear(
        &self,
        levels: &[BuiltLevel<'_>],
        abandoned: &[String],
    ) -> Result<(), Error> {
        for level in levels {
            match &level.replaced {
                Some(replaced) => replaced.clear()?,
                None => remove_all(&level.home)?,
            }
        }
        let image = self.image.image()?;
        let at = &self.image.location;
        for (key, _) in at.store.list(at.path.as_ref())?.objects {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            if is_report(name) {
                at.store.delete(&key, &Condition::None)?;
            }
        }
        for path in abandoned {
            let listed = image.levels.iter().any(|old| old.path == *path);
            if !listed && !levels.iter().any(|level| level.plan.path == *path) {
                remove_all(&self.image.place(path)?)?;
            }
        }
        Ok(())
    }

    /// Whether all levels are complete, down to their documents.
    pub(super) fn are_built(&self, levels: &[BuiltLevel<'_>]) -> Result<bool, Error> {
        for level in levels {
            if !self.is_documented(level.plan, level.array.location())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Removes everything below a location that this job has made, or has replaced.
pub(in crate::jobs) fn remove_all(location: &Location) -> Result<(), Error> {
    if let Some(exchange) = location.store.exchange()
        && let Some((beside, name)) = exchange.beside_missing(location.path.as_ref())
    {
        return Ok(beside.remove_tree(&name)?);
    }
    let mut folders = vec![location.path.clone()];
    while let Some(folder) = folders.pop() {
        let listing = location.store.list(folder.as_ref())?;
        for (key, _) in &listing.objects {
            location.store.delete(key, &Condition::None)?;
        }
        folders.extend(listing.folders.into_iter().map(Some));
    }
    Ok(())
}
