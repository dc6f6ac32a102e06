//! The lower levels of an image that another job makes: it has the marker, and writes the documents.

use serde_json::{Map, Value};

use super::build::{Build, declare_in, remove_all};
use super::image::{LevelPlan, Plan, PyramidImage};
use super::{LevelCounts, PyramidError, PyramidOptions};
use crate::jobs::JobContext;
use crate::ome::OmeError;
use crate::zarr::metadata::ArrayMetadata;
use crate::{DownsampleMethod, Error};

/// The levels that an image is to have, before anything of it exists.
pub(in crate::jobs) struct LowerLevels {
    image: PyramidImage,
    plan: Plan,
    options: PyramidOptions,
}

/// A level as it is planned.
pub(in crate::jobs) struct PlannedLevel<'a> {
    /// Its path below the image.
    pub path: &'a str,
    pub metadata: &'a ArrayMetadata,
    /// By name; the one that makes it an array is the last.
    pub documents: &'a [(&'static str, Vec<u8>)],
}

impl LowerLevels {
    /// The levels of an image; `None` if its finest level fits one chunk, and no number of levels is
    /// asked for.
    pub fn plan(
        context: &JobContext,
        image: PyramidImage,
        options: PyramidOptions,
    ) -> Result<Option<Self>, Error> {
        let image = image.checked()?;
        match image.plan(context, &options) {
            Ok(plan) => Ok(Some(Self { image, plan, options })),
            Err(Error::Pyramid(PyramidError::Nothing { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn build<'a>(&'a self, context: &'a JobContext) -> Build<'a> {
        Build { context, image: &self.image, plan: &self.plan, options: &self.options }
    }

    /// Changes the attributes of the image to name these levels below the finest.
    pub fn declare(&self, attributes: &mut Map<String, Value>) -> Result<(), OmeError> {
        declare_in(attributes, &self.plan.levels, self.plan.method)
    }

    /// The levels, below the finest.
    pub fn levels(&self) -> impl Iterator<Item = PlannedLevel<'_>> {
        self.plan.levels.iter().map(|LevelPlan { path, metadata, documents, .. }| PlannedLevel {
            path,
            metadata,
            documents,
        })
    }

    /// How elements are reduced.
    pub fn method(&self) -> DownsampleMethod {
        self.plan.method
    }

    /// Elements of all levels, in bytes.
    pub fn size(&self) -> u64 {
        self.image.finest.decoded_len()
    }

    /// Makes the objects of all levels, but no documents. With `kept`, objects that exist were made
    /// from the same finest level.
    pub fn make(&self, context: &JobContext, kept: bool) -> Result<Vec<LevelCounts>, Error> {
        let build = self.build(context);
        let levels = build.places()?;
        let mut counts = vec![LevelCounts::default(); levels.len()];
        let before = (build.state(false)?, false);
        build.passes(&levels, 0..self.plan.stages.len(), None, kept, &mut counts, before)?;
        Ok(counts)
    }

    /// Removes what was made of the levels.
    pub fn clear(&self) -> Result<(), Error> {
        self.plan.levels.iter().try_for_each(|level| remove_all(&self.image.place(&level.path)?))
    }
}
