//! Where the voxels of a level are.

use super::model::{Image, Level};
use super::transformation::{Parameters, Transformation, TransformationKind};
use super::{OmeError, OmeRelease, OmeVersion};

/// How array coordinates become physical ones: along each axis, the centre of element `i` is at
/// `i * scale + translation`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LevelPlacement {
    /// The distance between elements, along each axis.
    pub scale: Vec<f64>,
    /// Where the first element's centre is, along each axis.
    pub translation: Vec<f64>,
}

impl LevelPlacement {
    /// A placement along some axes. Both have a number for each axis.
    pub fn new(scale: Vec<f64>, translation: Vec<f64>) -> Self {
        Self { scale, translation }
    }

    /// Coordinates that are array indexes.
    pub fn identity(rank: usize) -> Self {
        Self::new(vec![1.0; rank], vec![0.0; rank])
    }

    /// The placement of a level from which every `factors` elements make one: its elements lie
    /// around the centre of those that they stand for.
    pub fn downsampled(&self, factors: &[u64]) -> Self {
        let axes = || self.scale.iter().zip(&self.translation).zip(factors);
        let scale = axes().map(|((scale, _), &factor)| scale * factor as f64).collect();
        let middle = |factor: u64| (factor as f64 - 1.0) / 2.0;
        let first = axes().map(|((scale, first), &factor)| first + scale * middle(factor));
        Self { translation: first.collect(), scale }
    }

    /// Whether it has a translation worth writing.
    pub fn is_translated(&self) -> bool {
        self.translation.iter().any(|step| *step != 0.0)
    }

    /// The transformations that say the same: a scale, and a translation if there is one.
    pub fn transformations(&self) -> Vec<Transformation> {
        let mut all = vec![Transformation::scale(self.scale.clone())];
        if self.is_translated() {
            all.push(Transformation::translation(self.translation.clone()));
        }
        all
    }

    /// Applies a transformation after this placement.
    fn then(&mut self, one: &Transformation) -> Result<(), String> {
        let rank = self.scale.len();
        let fits = |numbers: &[f64], what: &str| {
            if numbers.len() != rank {
                let count = numbers.len();
                return Err(format!("a {what} has {count} numbers for {rank} axes"));
            }
            if !numbers.iter().all(|number| number.is_finite()) {
                return Err(format!("a {what} has a number that is not finite"));
            }
            Ok(())
        };
        match &one.kind {
            TransformationKind::Identity => {}
            TransformationKind::Scale(Parameters::Inline(by)) => {
                fits(by, "scale")?;
                self.scale.iter_mut().zip(by).for_each(|(scale, by)| *scale *= by);
                self.translation.iter_mut().zip(by).for_each(|(first, by)| *first *= by);
            }
            TransformationKind::Translation(Parameters::Inline(by)) => {
                fits(by, "translation")?;
                self.translation.iter_mut().zip(by).for_each(|(first, by)| *first += by);
            }
            TransformationKind::Sequence(steps) => {
                steps.iter().try_for_each(|step| self.then(step))?;
            }
            TransformationKind::Scale(Parameters::Stored(path))
            | TransformationKind::Translation(Parameters::Stored(path)) => {
                return Err(format!("its numbers are in the array \"{}\"", path.escape_debug()));
            }
            TransformationKind::Other(kind) => {
                return Err(format!("the transformation \"{}\" is not known", kind.escape_debug()));
            }
            _ => return Err("it is neither a scale nor a translation".to_owned()),
        }
        Ok(())
    }
}

impl Image {
    /// Where the voxels of a level are, in the units of the axes: the level's transformations, and
    /// up to 0.5 those of the whole image after them. Array coordinates, if the document has
    /// neither.
    pub fn placement(&self, level: usize) -> Result<LevelPlacement, OmeError> {
        let missing = || {
            let levels = self.levels.len();
            OmeError::member("datasets", format!("there is no level {level}; {levels} are listed"))
        };
        let mut placement = self.own_placement(self.levels.get(level).ok_or_else(missing)?)?;
        // Between coordinate systems they do not concern the levels.
        if self.system.is_none() {
            for one in &self.transformations {
                let wrong = |reason| OmeError::member("coordinateTransformations", reason);
                placement.then(one).map_err(wrong)?;
            }
        }
        Ok(placement)
    }

    /// What the level's own transformations say.
    pub(crate) fn own_placement(&self, level: &Level) -> Result<LevelPlacement, OmeError> {
        let mut placement = LevelPlacement::identity(self.axes.len());
        for one in &level.transformations {
            placement.then(one).map_err(|reason| {
                let path = level.path.escape_debug();
                OmeError::member(format!("the transformations of level \"{path}\""), reason)
            })?;
        }
        Ok(placement)
    }

    /// Sets where the voxels of a level are.
    pub fn set_placement(&mut self, level: usize, placement: &LevelPlacement) {
        if let Some(level) = self.levels.get_mut(level) {
            level.transformations = placement.transformations();
        }
    }
}

impl OmeVersion {
    /// Whether levels say between which coordinate systems they transform.
    pub(super) fn has_systems(&self) -> bool {
        self.release() >= OmeRelease::V0_6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voxels_of_a_coarser_level_lie_between_those_they_stand_for() {
        let finest = LevelPlacement::new(vec![1.0, 0.5, 2.0], vec![0.0, 10.0, -1.0]);
        let level = finest.downsampled(&[1, 2, 4]);
        assert_eq!(level.scale, [1.0, 1.0, 8.0]);
        assert_eq!(level.translation, [0.0, 10.25, 2.0]);
        assert_eq!(finest.downsampled(&[1, 2, 2]).downsampled(&[1, 1, 2]), level);
    }

    #[test]
    fn a_translation_is_scaled_by_what_comes_after_it() {
        let mut placement = LevelPlacement::identity(1);
        for one in [
            Transformation::scale(vec![2.0]),
            Transformation::translation(vec![3.0]),
            Transformation::new(TransformationKind::Sequence(vec![Transformation::scale(vec![
                5.0,
            ])])),
            Transformation::new(TransformationKind::Identity),
        ] {
            placement.then(&one).unwrap();
        }
        assert_eq!(placement, LevelPlacement::new(vec![10.0], vec![15.0]));
        assert!(placement.then(&Transformation::scale(vec![1.0, 1.0])).is_err());
        assert!(placement.then(&Transformation::scale(vec![f64::NAN])).is_err());
        let unknown = TransformationKind::Other("spline".to_owned());
        assert!(placement.then(&Transformation::new(unknown)).is_err());
    }
}
