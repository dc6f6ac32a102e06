//! Are two data sets equal, and where not. Nothing is ever written.

mod axes;
mod elements;
mod error;
mod images;
mod objects;
mod operand;
mod report;
mod sets;

use super::frame::JobContext;
use super::span::job_span;
use super::whole::check_walked;
use crate::files::Input;
use crate::{Error, Location, open_in};

pub use error::CompareError;
pub use objects::{ObjectDifference, ObjectSummary, compare_objects};
use operand::ElementFile;
pub use report::{
    AttributeDiffers, CompareSide, CompareSummary, Difference, DifferenceKind, ElementPlace,
    ElementsDiffer,
};
use sets::{Content, Run};

/// What is compared: a data set at a place, or a `.npy` file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Comparand {
    /// A data set of any format.
    Place(Location),
    /// A file of elements that says their shape and type.
    File(Box<Input>),
}

impl From<&Location> for Comparand {
    fn from(location: &Location) -> Self {
        Self::Place(location.clone())
    }
}

impl From<Location> for Comparand {
    fn from(location: Location) -> Self {
        Self::Place(location)
    }
}

impl From<Input> for Comparand {
    fn from(input: Input) -> Self {
        Self::File(Box::new(input))
    }
}

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompareOptions {
    /// Only shapes, types and elements count, not attributes, fill values and dimension names.
    pub data_only: bool,
    /// Of a data set with levels only this one, where 0 is the finest. Without it all levels of two
    /// such data sets are compared, and an array with the finest.
    pub level: Option<usize>,
}

impl CompareOptions {
    /// Everything counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether attributes, fill values and dimension names are ignored.
    pub fn data_only(mut self, data_only: bool) -> Self {
        self.data_only = data_only;
        self
    }

    /// With one level only.
    pub fn level(mut self, level: Option<usize>) -> Self {
        self.level = level;
        self
    }
}

/// Compares two data sets of any formats, and reports where they differ.
///
/// Groups are compared node by node, by their paths. The levels of a volume are compared in their
/// order with those of another one, and with the arrays of a Zarr group: those listed in its
/// `multiscales`, or named as [`convert_to_zarr`](super::convert_to_zarr) names them, or else all its
/// arrays, the largest first. An array is compared with one level of a data set that has several.
///
/// Arrays are equal if they have the same type and the same element everywhere; how they are cut
/// into chunks, encoded and packed does not matter, and a chunk that is not stored is equal to one
/// full of the fill value. Numbers are compared as [`DataType::differences`](crate::DataType) does:
/// a NaN is equal to every NaN. Axes are matched by name where both arrays name all of theirs: a
/// volume and the OME-Zarr made from it are equal, though the order of their axes differs. Different
/// shapes are a difference, and the elements are not compared then.
///
/// Between two Zarr data sets, attributes, fill values and dimension names count too, between two of
/// another format what [`DataSet::attributes`](crate::DataSet::attributes) returns. Between different
/// formats only elements count.
///
/// `tell` is called with each difference: at most one of each kind per node. An error means that it
/// is not known whether they are equal: something could not be read, is damaged, or is left out by
/// listings, such as a link to a folder. No in-place job replaces an array while it is compared; one
/// that is written to meanwhile is compared as it is before or after each write to an object.
///
/// Where both arrays have the same chunks and codecs, stored bytes are compared first, and only
/// chunks that differ are decoded; damage that is the same on both sides goes unnoticed. Costs a read
/// of each stored chunk on both sides, two where stored bytes differ. Memory is that of two boxes of
/// elements per worker.
///
/// ```
/// use shardine::jobs::{CompareOptions, DifferenceKind, compare};
/// use shardine::{Array, Engine, Location};
///
/// let (a, b) = (Location::memory(), Location::memory());
/// for (place, chunk) in [(&a, [3, 3]), (&b, [4, 4])] {
///     Array::builder([8, 8], "uint8").chunks(chunk).create(place)?.write(.., &[1u8; 64])?;
/// }
/// let engine = Engine::shared()?;
/// let summary = compare(&engine, &a, &b, &CompareOptions::new(), &mut |_| ())?;
/// assert!(summary.is_equal());
///
/// Array::open(&b)?.write((5, 2..4), &[4u8, 2])?;
/// compare(&engine, &a, &b, &CompareOptions::new(), &mut |difference| {
///     let DifferenceKind::Elements(found) = difference.kind else { unreachable!() };
///     assert_eq!((found.count, &found.a.at[..]), (2, &[5, 2][..]));
/// })?;
/// # Ok::<(), shardine::Error>(())
/// ```
pub fn compare(
    context: impl Into<JobContext>,
    a: impl Into<Comparand>,
    b: impl Into<Comparand>,
    options: &CompareOptions,
    tell: &mut dyn FnMut(Difference),
) -> Result<CompareSummary, Error> {
    let context = &context.into();
    let (a, b) = (a.into(), b.into());
    let _span = match (&a, &b) {
        (Comparand::Place(place), _) | (_, Comparand::Place(place)) => {
            Some(job_span("compare", place))
        }
        _ => None,
    };
    context.check()?;
    let (a, b) = (opened(context, a)?, opened(context, b)?);
    let mut run = Run::new(context, options, tell);
    run.data_sets(a, b)?;
    Ok(run.summary())
}

fn opened(context: &JobContext, comparand: Comparand) -> Result<Content, Error> {
    match comparand {
        Comparand::File(input) => {
            let memory = context.engine().memory_in_flight() / 8;
            Ok(Content::File(ElementFile::new(*input, memory)?))
        }
        Comparand::Place(location) => {
            let set = open_in(context.engine(), &location)?;
            check_walked(&location).map_err(not_walked)?;
            Content::of_set(set)
        }
    }
}

/// The error of what is left out, in the words of a comparison.
fn not_walked(error: Error) -> Error {
    match error {
        Error::LeftOut { at, what } => CompareError::LeftOut { at, what }.into(),
        error => error,
    }
}
