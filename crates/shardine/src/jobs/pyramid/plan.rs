//! The levels that an image is to have.

use shardine_codec::{Downsample, DownsampleMethod};

use super::geometry::{Grid, SMALL_TASK, Stage, stages};
use super::image::PyramidImage;
use super::layout::LevelLayout;
use super::{PyramidError, PyramidOptions};
use crate::jobs::JobContext;
use crate::jobs::rebuild::is_plain;
use crate::layout::Layout;
use crate::ome::{LevelPlacement, length_in_nanometers};
use crate::zarr::metadata::ArrayMetadata;
use crate::{Array, ArrayNode, Error};

const MOST_LEVELS: usize = 64;

/// A level that is to be made.
#[derive(Debug, Clone)]
pub(super) struct LevelPlan {
    /// Its path below the image.
    pub path: String,
    /// How many elements of the level before make one.
    pub factors: Vec<u64>,
    pub placement: LevelPlacement,
    pub metadata: ArrayMetadata,
    /// Its documents, by name; the one that makes it an array is the last.
    pub documents: Vec<(&'static str, Vec<u8>)>,
}

/// All levels that are to be made.
pub(super) struct Plan {
    pub method: DownsampleMethod,
    pub levels: Vec<LevelPlan>,
    pub grids: Vec<Grid>,
    pub stages: Vec<Stage>,
}

impl PyramidImage {
    /// The factors that the options give, for each axis.
    fn given_factors(&self, given: &[u64], spatial: &[bool]) -> Result<Vec<u64>, Error> {
        let in_space = spatial.iter().filter(|space| **space).count();
        let factors: Vec<u64> = if given.len() == spatial.len() {
            given.to_vec()
        } else if given.len() == in_space {
            let mut given = given.iter().copied();
            spatial.iter().map(|&space| if space { given.next().unwrap_or(1) } else { 1 }).collect()
        } else {
            let (count, rank) = (given.len(), spatial.len());
            return Err(self.refuse_factors(format!(
                "{count} factors were given, but it has {rank} axes, {in_space} of them in space"
            )));
        };
        if factors.contains(&0) || factors.iter().all(|&factor| factor == 1) {
            return Err(
                self.refuse_factors(format!("factors of {factors:?} make no smaller level"))
            );
        }
        if factors.iter().zip(spatial).any(|(&factor, &space)| factor > 1 && !space) {
            return Err(self.refuse_factors("only axes in space are reduced"));
        }
        Ok(factors)
    }

    /// The distances between voxels in one unit, as far as units are known.
    fn comparable_scale(&self, scale: &[f64]) -> Result<Vec<f64>, Error> {
        let axes = &self.image()?.axes;
        let units: Vec<Option<f64>> =
            axes.iter().map(|axis| axis.unit.as_deref().and_then(length_in_nanometers)).collect();
        let in_space = self.spatial()?;
        let known = units.iter().zip(&in_space).all(|(unit, &space)| unit.is_some() || !space);
        let comparable = |(&scale, unit): (&f64, &Option<f64>)| {
            scale.abs() * unit.filter(|_| known).unwrap_or(1.0)
        };
        Ok(scale.iter().zip(&units).map(comparable).collect())
    }

    /// The levels that the image is to have.
    pub(super) fn plan(
        &self,
        context: &JobContext,
        options: &PyramidOptions,
    ) -> Result<Plan, Error> {
        let image = self.image()?;
        let method = self.method(options);
        let spatial = self.spatial()?;
        let at = || self.location.to_string();
        let given = match &options.factors {
            Some(factors) => Some(self.given_factors(factors, &spatial)?),
            None => None,
        };
        let layout = LevelLayout::of(self, options)?;
        let chunk = layout.chunk.clone();
        let level = image.levels.first().ok_or_else(|| self.refuse_factors("it has no levels"))?;
        let mut placement = image
            .own_placement(level)
            .map_err(|source| Error::Ome { at: at(), source: Box::new(source) })?;
        let mut shape = self.finest.shape().to_vec();
        let mut levels = Vec::new();
        let wanted = match options.levels {
            Some(0 | 1) => {
                return Err(self.refuse_factors("an image with lower levels has 2 levels or more"));
            }
            Some(levels) if levels > MOST_LEVELS => {
                return Err(self.refuse_factors(format!("there can be {MOST_LEVELS} levels")));
            }
            wanted => wanted,
        };
        while levels.len() + 1 < wanted.unwrap_or(MOST_LEVELS) {
            if wanted.is_none() && fits_one_chunk(&shape, &chunk, &spatial) {
                break;
            }
            let factors = match &given {
                // There is nothing to reduce along an axis of one element.
                Some(given) => {
                    given.iter().zip(&shape).map(|(&f, &n)| if n > 1 { f } else { 1 }).collect()
                }
                None => halves(&shape, &self.comparable_scale(&placement.scale)?, &spatial),
            };
            if factors.iter().all(|&factor: &u64| factor == 1) {
                if wanted.is_some() {
                    let count = levels.len() + 1;
                    return Err(self.refuse_factors(format!(
                        "level {} is a single element in space, so there are no more than {count} \
                         levels",
                        count - 1
                    )));
                }
                break;
            }
            Downsample::new(self.finest.data_type(), method, &factors)
                .map_err(|source| PyramidError::Method { at: at(), source })?;
            shape = shape.iter().zip(&factors).map(|(&n, &f)| n.div_ceil(f)).collect();
            placement = match method {
                // The voxel that is kept stays where it is.
                DownsampleMethod::Stride => LevelPlacement::new(
                    placement.scale.iter().zip(&factors).map(|(s, &f)| s * f as f64).collect(),
                    placement.translation,
                ),
                _ => placement.downsampled(&factors),
            };
            let number = levels.len() + 1;
            let path = match image.levels.get(number) {
                Some(level) => level.path.clone(),
                None => path_of(&image.levels[0].path, number),
            };
            let (metadata, documents) = layout.level(self, &shape)?;
            let placement = placement.clone();
            levels.push(LevelPlan { path, factors, placement, metadata, documents });
        }
        if levels.is_empty() {
            let reason = "its finest level fits one chunk".to_owned();
            return Err(PyramidError::Nothing { at: at(), reason }.into());
        }
        let paths = || image.levels.first().map(|level| &level.path).into_iter();
        let all: Vec<&String> = paths().chain(levels.iter().map(|level| &level.path)).collect();
        let is_inside = |a: &str, b: &str| {
            a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'))
        };
        for (i, one) in all.iter().enumerate() {
            if all.iter().enumerate().any(|(k, other)| i != k && is_inside(one, other)) {
                let place = self.place(one)?.to_string();
                return Err(PyramidError::InTheWay { at: place }.into());
            }
        }
        let finest = grid(&self.finest, vec![1; spatial.len()]);
        let mut grids = Vec::new();
        for level in &levels {
            let place = self.place(&level.path)?;
            let array = ArrayNode::from_metadata(context.engine(), &place, level.metadata.clone())?;
            grids.push(grid(&array, level.factors.clone()));
        }
        let element = self.finest.chunks.layout.element_size() as u64;
        let small = options.task_size.unwrap_or(SMALL_TASK);
        let stages = stages(&finest, &grids, element, small);
        Ok(Plan { method, levels, grids, stages })
    }
}

/// The geometry of an array.
fn grid(array: &Array, factors: Vec<u64>) -> Grid {
    let plain = array.chunks.layout.addressable().is_some_and(is_plain)
        || matches!(array.chunks.layout, Layout::Chunk(_));
    let object = array.cell_shape().to_vec();
    // What cannot be encoded chunk by chunk is encoded as a whole.
    let piece = if plain { array.chunk_shape().to_vec() } else { object.clone() };
    Grid { shape: array.shape().to_vec(), piece, object, factors }
}

/// Whether a level fits one chunk, as far as it is reduced. An axis along which chunks have one
/// element never does, and does not count where others have more.
fn fits_one_chunk(shape: &[u64], chunk: &[u64], spatial: &[bool]) -> bool {
    let axes = || shape.iter().zip(chunk).zip(spatial).filter(|(_, space)| **space);
    let thick = axes().any(|((_, &chunk), _)| chunk > 1);
    axes().all(|((&len, &chunk), _)| len <= chunk || thick && chunk == 1)
}

/// Halves the axes along which voxels are shortest: those that would otherwise be further from the
/// others than they are.
fn halves(shape: &[u64], scale: &[f64], spatial: &[bool]) -> Vec<u64> {
    let can = |axis: usize| spatial[axis] && shape[axis] > 1;
    let sound = |scale: f64| if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
    let axes = || (0..shape.len()).filter(|&axis| can(axis));
    let shortest = axes().map(|axis| sound(scale[axis])).fold(f64::INFINITY, f64::min);
    let most = shortest * std::f64::consts::SQRT_2 * (1.0 + 1e-9);
    let factor = |axis: usize| if can(axis) && sound(scale[axis]) <= most { 2 } else { 1 };
    (0..shape.len()).map(factor).collect()
}

/// The path of level `number`, given that of level 0: the last number in it, and so much more.
fn path_of(finest: &str, number: usize) -> String {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let bytes = finest.as_bytes();
    let end = bytes.iter().rposition(is_digit).map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|byte| !is_digit(byte)).map_or(0, |at| at + 1);
    let (before, digits, after) = (&finest[..start], &finest[start..end], &finest[end..]);
    match digits.parse::<usize>().ok().and_then(|first| first.checked_add(number)) {
        Some(next) => format!("{before}{next:0width$}{after}", width = digits.len()),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_after_the_finest() {
        for (finest, second) in [
            ("0", "2"),
            ("s0", "s2"),
            ("scale0/image", "scale2/image"),
            ("level_00", "level_02"),
            ("1", "3"),
            ("full", "2"),
            ("9/99999999999999999999999", "2"),
        ] {
            assert_eq!(path_of(finest, 2), second, "{finest}");
        }
    }

    #[test]
    fn axes_are_halved_until_voxels_are_as_long_in_all_directions() {
        let all = [false, true, true, true];
        let shape = [3, 100, 100, 100];
        assert_eq!(halves(&shape, &[1.0, 2.0, 0.5, 0.5], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 2.0, 1.0, 1.0], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 2.0, 2.0, 2.0], &all), [1, 2, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 1.4, 1.0, 1.0], &all), [1, 2, 2, 2]);
        // What has one element is not halved, and does not hold the others back.
        assert_eq!(halves(&[3, 1, 9, 9], &[1.0, 0.1, 1.0, 1.0], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&[3, 1, 1, 1], &[1.0; 4], &all), [1; 4]);
        assert_eq!(halves(&shape, &[0.0, f64::NAN, -1.0, 0.0], &all), [1, 2, 2, 2]);
    }

    #[test]
    fn a_level_fits_one_chunk_if_it_does_along_thick_axes() {
        let all = [false, true, true, true];
        assert!(fits_one_chunk(&[9, 64, 64, 64], &[1, 64, 64, 64], &all));
        assert!(!fits_one_chunk(&[9, 65, 64, 64], &[1, 64, 64, 64], &all));
        // Planes.
        assert!(fits_one_chunk(&[9, 65, 64, 64], &[1, 1, 64, 64], &all));
        assert!(!fits_one_chunk(&[9, 2, 1, 1], &[1, 1, 1, 1], &all));
    }
}
