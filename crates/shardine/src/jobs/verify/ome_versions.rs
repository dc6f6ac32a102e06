//! The version of a hierarchy of OME-Zarr, and the documents in it that state none.
//!
//! Whether a missing version follows from the rest is known only when all of the hierarchy was
//! read, so what is wrong with those documents is told then.

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::Key;

use crate::jobs::check::{DocumentCorrection, Mend};
use crate::ome::rules::corrections::{
    Correction, fitting_releases, is_version_missing, missing_versions, stated_versions,
};
use crate::ome::rules::{Violation, Violations};
use crate::ome::{OmeRelease, OmeVersion};

/// The most documents without a version that are remembered. Further ones are reported without
/// knowing what their version should be.
const REMEMBERED: usize = 1 << 16;

/// The versions that the documents below a group state, the group's own included.
pub(super) struct HierarchyVersions {
    /// How many groups are around the outermost one with metadata.
    depth: usize,
    /// Those that were found first, each with a document that states it: two are enough to know
    /// that they differ.
    stated: Vec<(String, Key)>,
    unstated: Vec<UnstatedVersion>,
    /// Whether all of it was looked at.
    is_whole: bool,
}

/// A document that states no version, or not all that it should.
pub(super) struct UnstatedVersion {
    group: Option<Key>,
    pub document: Key,
    missing: Vec<String>,
    /// The releases that it can be of.
    fits: Vec<OmeRelease>,
    pub violations: Violations,
}

impl HierarchyVersions {
    /// The versions of a hierarchy whose outermost group has this many around it.
    pub fn new(depth: usize) -> Self {
        Self { depth, stated: Vec::new(), unstated: Vec::new(), is_whole: true }
    }

    /// Whether the outermost group was left.
    pub fn is_left(&self, depth: usize) -> bool {
        depth <= self.depth
    }

    /// Remembers that something in it could not be looked at.
    pub fn pass_over(&mut self) {
        self.is_whole = false;
    }

    /// Notes what the document of a group states, and takes the rules that it breaks by a version
    /// that is missing out of `found`.
    pub fn enter(
        &mut self,
        group: Option<&Key>,
        document: &Key,
        (attributes, zarr_format): (&Map<String, Value>, u8),
        found: &mut Vec<Violation>,
    ) {
        for version in stated_versions(attributes) {
            let is_known = self.stated.iter().any(|(known, _)| *known == version);
            if !is_known && self.stated.len() < 2 {
                self.stated.push((version, document.clone()));
            }
        }
        let missing = missing_versions(attributes);
        if missing.is_empty() || self.unstated.len() >= REMEMBERED {
            return;
        }
        let (about, others) = std::mem::take(found)
            .into_iter()
            .partition(|violation| is_version_missing(violation, &missing));
        *found = others;
        self.unstated.push(UnstatedVersion {
            group: group.cloned(),
            document: document.clone(),
            fits: fitting_releases(attributes, zarr_format, &missing),
            missing,
            violations: Violations { list: about, more: Vec::new() },
        });
    }

    /// The documents without a version, each with its correction if that follows from the others.
    pub fn finish(
        self,
        may_mend: bool,
    ) -> impl Iterator<Item = (UnstatedVersion, Option<Arc<Mend>>)> {
        let known = match self.stated.as_slice() {
            [(version, witness)] if self.is_whole && may_mend => {
                version.parse::<OmeVersion>().ok().map(|version| (version, witness.clone()))
            }
            _ => None,
        };
        self.unstated.into_iter().map(move |unstated| {
            let known =
                known.as_ref().filter(|(version, _)| unstated.fits.contains(&version.release()));
            let mend = known.map(|(version, witness)| {
                let members = unstated.missing.clone();
                Arc::new(Mend {
                    node: unstated.group.clone(),
                    document: unstated.document.clone(),
                    group: unstated.group.clone(),
                    witness: Some(witness.clone()),
                    correction: DocumentCorrection::Ome(Correction::Version {
                        version: version.clone(),
                        members,
                    }),
                })
            });
            (unstated, mend)
        })
    }
}
