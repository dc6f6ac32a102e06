//! Checking an object that others may be changing.

use std::sync::Arc;
use std::time::Duration;

use shardine_store::{Key, Object, ReadRange, StoreError};

use super::FindingKind;
use crate::engine::tuning::REREADS;

/// The result of checking an object.
pub(in crate::jobs) enum Settled<T> {
    /// One consistent version was checked.
    Seen(T),
    /// It does not exist.
    Gone,
    /// It could not be read, or kept changing: the kind of finding, and why.
    Failed(FindingKind, String),
}

/// Checks one version of an object: returns a result, and whether that is damage.
type Look<'a, T> = dyn FnMut(&Arc<dyn Object>) -> Result<(T, bool), StoreError> + 'a;

impl<T> Settled<T> {
    /// The result, for a caller that leaves failures for others to report.
    pub fn seen(self) -> Option<T> {
        if let Self::Seen(seen) = self { Some(seen) } else { None }
    }
}

/// Checks an object, and again while it changes. Damage counts only in the current version.
///
/// `look` returns a result and whether that is damage; it must have no other effect, as the result
/// for an older version is dropped. Costs one more open if there is damage.
pub(in crate::jobs) fn settled<T>(
    key: &Key,
    open: &dyn Fn() -> Result<Arc<dyn Object>, StoreError>,
    look: &mut Look<'_, T>,
) -> Settled<T> {
    for attempt in 0..REREADS as u64 {
        match once(key, open, look, attempt + 1 == REREADS as u64) {
            Ok(seen) => return Settled::Seen(seen),
            Err(StoreError::NotFound { .. }) => return Settled::Gone,
            Err(StoreError::Changed { .. }) => {
                std::thread::sleep(Duration::from_millis(attempt * 5));
            }
            Err(error) => return Settled::Failed(FindingKind::Unreadable, error.to_string()),
        }
    }
    let message = format!("it kept changing; gave up after {REREADS} attempts");
    Settled::Failed(FindingKind::NotChecked, message)
}

fn once<T>(
    key: &Key,
    open: &dyn Fn() -> Result<Arc<dyn Object>, StoreError>,
    look: &mut Look<'_, T>,
    is_last: bool,
) -> Result<T, StoreError> {
    let object = open()?;
    let (seen, is_damaged) = look(&object)?;
    object.check_unchanged()?;
    if is_damaged {
        let now = open()?;
        if now.version().is_none() {
            // A store where opening is free learns the version with the first read.
            now.read(ReadRange::Bounded(0..0))?;
        }
        // A file so young that its times would not show a change since is looked at again, unless it
        // stays that young: where times have no fraction of a second, that takes seconds.
        let is_young = now.file().is_some() && now.version().is_none();
        if now.version() != object.version() || (is_young && !is_last) {
            return Err(StoreError::Changed { key: key.clone() });
        }
    }
    Ok(seen)
}
