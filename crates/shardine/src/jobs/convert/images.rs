//! An image made of arrays that no OME-Zarr metadata describes.

use serde_json::{Map, Value};

use super::super::rebuild::AxisMap;
use super::ConvertError;
use super::nodes::OldArray;
use super::ome_form::OmeForm;
use super::positions::centre;
use super::view::triple;
use crate::Error;
use crate::ome::{AxisRole, Image, Level, LevelPlacement, OmeAxis};
use crate::precomputed::AXES;

/// The axes x, y and z.
const SPACE: usize = 3;

/// An image, and which of its axes each axis of the source becomes.
pub(super) struct NewImage {
    pub image: Image,
    pub map: AxisMap,
}

/// How large the voxels of an array are, and where its first one begins, as formats other than
/// OME-Zarr say it: along x, y and z.
struct Corner {
    size: [f64; SPACE],
    offset: [i64; SPACE],
    unit: Option<String>,
}

impl Corner {
    /// From what is kept of a volume or a layer in the attributes of an array.
    fn of(attributes: &Map<String, Value>) -> Option<Self> {
        let numbers = |name: &str| {
            let size = triple(attributes.get(name), Value::as_f64)?;
            size.iter().all(|n| n.is_finite() && *n > 0.0).then_some(size)
        };
        let unit = |unit: &str| Some(unit.to_owned());
        if let Some(size) = numbers("resolution") {
            let offset = triple(attributes.get("voxel_offset"), Value::as_i64).unwrap_or_default();
            return Some(Self { size, offset, unit: unit("nanometer") });
        }
        let offset = [0; SPACE];
        if let Some(size) = numbers("voxel_size") {
            let unit = attributes.get("unit").and_then(Value::as_str).and_then(unit);
            return Some(Self { size, offset, unit });
        }
        Some(Self { size: numbers("magnification")?, offset, unit: None })
    }

    fn placement(&self, axes: &[OmeAxis]) -> LevelPlacement {
        let mut placement = LevelPlacement::identity(axes.len());
        for (number, axis) in axes.iter().enumerate() {
            let Some(at) = AXES.iter().take(SPACE).position(|name| *name == axis.name) else {
                continue;
            };
            placement.scale[number] = self.size[at];
            placement.translation[number] = centre(self.size[at], self.offset[at]);
        }
        placement
    }
}

/// Refuses a request for the image at some location.
fn refuse(at: &str, reason: String) -> Error {
    ConvertError::ImageAxes { at: at.to_owned(), reason }.into()
}

impl NewImage {
    /// The image whose levels are these arrays, by their paths below its group, the finest first.
    /// The names of axes and the scale in `form` are those of the last axes, if the image is one of
    /// labels.
    pub fn new(
        at: &str,
        levels: &[(String, &OldArray)],
        form: &OmeForm,
        is_label: bool,
    ) -> Result<Self, Error> {
        let Some((_, first)) = levels.first() else {
            return Err(ConvertError::NoArrays { at: at.to_owned() }.into());
        };
        let rank = first.array.shape().len();
        let names = axis_names(first, form, is_label)?;
        let mut axes: Vec<OmeAxis> = names.iter().map(OmeAxis::named).collect();
        check_axes(&first.at(), &axes)?;
        let order = usual_order(&axes);
        let place = |axis: usize| order.iter().position(|&old| old == axis);
        let map = AxisMap::new((0..rank).map(place).collect(), rank);
        axes = order.iter().filter_map(|&axis| axes.get(axis).cloned()).collect();
        let shape = |array: &OldArray| map.to_new(array.array.shape(), 1);
        check_levels(at, levels, &axes, &shape)?;
        let mut image = Image { axes, ..Image::default() };
        let base = Corner::of(&first.attributes);
        let unit = base.as_ref().and_then(|corner| corner.unit.clone());
        let finest = base
            .map_or_else(|| LevelPlacement::identity(rank), |corner| corner.placement(&image.axes));
        let whole = shape(first);
        for (number, (path, array)) in levels.iter().enumerate() {
            let own = Corner::of(&array.attributes).filter(|corner| corner.unit == unit);
            let placement = match own {
                _ if number == 0 => finest.clone(),
                Some(corner) => corner.placement(&image.axes),
                None => coarser(&finest, &whole, &shape(array)),
            };
            image.levels.push(Level { path: path.clone(), ..Level::default() });
            image.set_placement(number, &placement);
        }
        set_unit(&mut image, unit.as_deref());
        let given = form.scale.as_deref().map(|given| last(given, rank, is_label));
        if let Some(given) = given {
            // It is given along the axes of the source.
            if given.len() != rank {
                let count = given.len();
                let reason = format!("a scale along {count} axes was given for {rank}");
                return Err(refuse(at, reason));
            }
            let given: Vec<f64> = order.iter().map(|&axis| given[axis]).collect();
            stretch(at, &mut image, &given)?;
        }
        if form.unit.is_some() {
            set_unit(&mut image, form.unit.as_deref());
        }
        Ok(Self { image, map })
    }
}

/// Applies what was asked for to an image that has metadata.
pub(super) fn override_image(
    at: &str,
    image: &mut Image,
    form: &OmeForm,
    is_label: bool,
) -> Result<(), Error> {
    let rank = image.axes.len();
    if let Some(names) = &form.axes {
        let names = last(names, rank, is_label);
        if names.len() != rank {
            let count = names.len();
            return Err(refuse(at, format!("{count} axes were named, but it has {rank}")));
        }
        for (axis, name) in image.axes.iter_mut().zip(names) {
            if axis.name == *name {
                continue;
            }
            let mut named = OmeAxis::named(name);
            named.unit = axis.unit.take().filter(|_| axis.role() == named.role());
            *axis = named;
        }
        check_axes(at, &image.axes)?;
    }
    if let Some(scale) = &form.scale {
        stretch(at, image, last(scale, rank, is_label))?;
    }
    if form.unit.is_some() {
        set_unit(image, form.unit.as_deref());
    }
    Ok(())
}

/// Says where levels are of which the metadata says nothing, from how much smaller they are.
pub(super) fn place_levels(image: &mut Image, shapes: &[Vec<u64>]) {
    let of_all = image.system.is_none() && !image.transformations.is_empty();
    if of_all || image.levels.iter().any(|level| !level.transformations.is_empty()) {
        return;
    }
    let Some(whole) = shapes.first() else { return };
    let finest = LevelPlacement::identity(image.axes.len());
    for (number, shape) in shapes.iter().enumerate() {
        image.set_placement(number, &coarser(&finest, whole, shape));
    }
}

/// The last items, for as many axes as there are, of those given for an image.
fn last<T>(given: &[T], rank: usize, is_label: bool) -> &[T] {
    let skipped = given.len().saturating_sub(rank);
    if is_label { &given[skipped..] } else { given }
}

/// The names of an array's axes, in its order.
fn axis_names(old: &OldArray, form: &OmeForm, is_label: bool) -> Result<Vec<String>, Error> {
    let rank = old.array.shape().len();
    let own: Option<Vec<String>> =
        old.array.axis_names().and_then(|names| names.iter().cloned().collect());
    let own = own.filter(|names| names.iter().all(|name| !name.is_empty()));
    let names = match (&form.axes, own) {
        // Labels may lack axes that the image has.
        (Some(given), Some(own)) if is_label && given.len() != rank => own,
        (Some(given), _) => last(given, rank, is_label).to_vec(),
        // As OME-Zarr calls what other formats call channel.
        (None, Some(own)) if old.metadata.is_none() => {
            let usual = |name: String| if name == "channel" { "c".to_owned() } else { name };
            own.into_iter().map(usual).collect()
        }
        (None, Some(own)) => own,
        // An image has two axes of space at least.
        (None, None) if rank == 2 => vec!["y".to_owned(), "x".to_owned()],
        (None, None) => {
            return Err(refuse(&old.at(), format!("its {rank} axes have no names")));
        }
    };
    if names.len() != rank {
        let count = names.len();
        return Err(refuse(&old.at(), format!("{count} axes were named, but it has {rank}")));
    }
    Ok(names)
}

/// Refuses axes that no version of OME-Zarr allows.
fn check_axes(at: &str, axes: &[OmeAxis]) -> Result<(), Error> {
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let all = names.join(", ");
    let count = |role| axes.iter().filter(|axis| axis.role() == role).count();
    let twice = (1..names.len()).find(|&i| names[..i].contains(&names[i]));
    let reason = if let Some(twice) = twice {
        format!("its axes are {all}: {} twice", names[twice])
    } else if !(2..=3).contains(&count(AxisRole::Space)) {
        format!("its axes are {all}; an image has two or three axes of space")
    } else if count(AxisRole::Time) > 1 || count(AxisRole::Channel) > 1 {
        format!("its axes are {all}; an image has one axis of time and one of channels at most")
    } else {
        return Ok(());
    };
    Err(refuse(at, reason))
}

/// The axes in the order of OME-Zarr: time, channels, space, and there z, y, x.
fn usual_order(axes: &[OmeAxis]) -> Vec<usize> {
    let is_space = |axis: &&OmeAxis| axis.role() == AxisRole::Space;
    let place = |axis: &OmeAxis| AXES.iter().take(SPACE).position(|name| *name == axis.name);
    let are_usual = axes.iter().filter(is_space).all(|axis| place(axis).is_some());
    let rank = |axis: &OmeAxis| match axis.role() {
        AxisRole::Time => (0, 0),
        AxisRole::Channel | AxisRole::Other => (1, 0),
        AxisRole::Space => (2, if are_usual { SPACE - place(axis).unwrap_or(0) } else { 0 }),
    };
    let mut order: Vec<usize> = (0..axes.len()).collect();
    // Stable: what the order does not decide stays as it is.
    order.sort_by_key(|&axis| rank(&axes[axis]));
    order
}

/// Refuses arrays that are not levels of one image.
fn check_levels(
    at: &str,
    levels: &[(String, &OldArray)],
    axes: &[OmeAxis],
    shape: &dyn Fn(&OldArray) -> Vec<u64>,
) -> Result<(), Error> {
    let not_levels = |reason| ConvertError::NotLevels { at: at.to_owned(), reason }.into();
    for pair in levels.windows(2) {
        let [(first, a), (second, b)] = pair else { continue };
        let (ranks, types) = (
            (a.array.shape().len(), b.array.shape().len()),
            (a.array.data_type(), b.array.data_type()),
        );
        if ranks.0 != ranks.1 {
            let (a, b) = ranks;
            return Err(not_levels(format!("\"{first}\" has {a} axes, \"{second}\" {b}")));
        }
        if types.0 != types.1 {
            let (a, b) = (types.0.name(), types.1.name());
            return Err(not_levels(format!("\"{first}\" is of type {a}, \"{second}\" of {b}")));
        }
        let (names, others) = (a.array.axis_names(), b.array.axis_names());
        if names != others && names.is_some() && others.is_some() {
            return Err(not_levels(format!(
                "the axes of \"{first}\" and \"{second}\" have different names"
            )));
        }
        let (large, small) = (shape(a), shape(b));
        let is_space = |k: &usize| axes.get(*k).is_some_and(|a| a.role() == AxisRole::Space);
        let is_smaller = (0..large.len()).any(|k| small[k] < large[k]);
        let fits =
            (0..large.len()).all(|k| small[k] == large[k] || is_space(&k) && small[k] < large[k]);
        if !(is_smaller && fits) {
            return Err(not_levels(format!(
                "\"{second}\" of {small:?} is not a smaller \"{first}\" of {large:?}"
            )));
        }
    }
    Ok(())
}

/// By which factor a length was divided, rounded up or down: without a rest if possible, else a
/// power of 2, else the smaller. Not a whole number if none makes one of the other.
fn factor(whole: u64, part: u64) -> f64 {
    if whole == part {
        return 1.0;
    }
    let part = part.max(1);
    let least = (whole / part).max(1);
    let divides = |by: &u64| whole / by == part || whole.div_ceil(*by) == part;
    let mut found = [least, least + 1].into_iter().filter(divides);
    match (found.next(), found.next()) {
        (Some(by), _) if whole.is_multiple_of(by) => by as f64,
        (Some(_), Some(more)) if more.is_power_of_two() => more as f64,
        (Some(by), _) => by as f64,
        (None, _) => whole as f64 / part as f64,
    }
}

/// Where a level of another shape is, if each of its elements stands for a box of those of the
/// finest level.
fn coarser(finest: &LevelPlacement, whole: &[u64], shape: &[u64]) -> LevelPlacement {
    let mut placement = finest.clone();
    for (axis, (&whole, &part)) in whole.iter().zip(shape).enumerate() {
        let scale = finest.scale[axis] * factor(whole, part);
        placement.translation[axis] += (scale - finest.scale[axis]) / 2.0;
        placement.scale[axis] = scale;
    }
    placement
}

/// Gives the voxels of the finest level this size; the whole image is stretched by it.
fn stretch(at: &str, image: &mut Image, scale: &[f64]) -> Result<(), Error> {
    let rank = image.axes.len();
    if scale.len() != rank {
        let count = scale.len();
        let reason = format!("a scale along {count} axes was given for {rank}");
        return Err(refuse(at, reason));
    }
    if !scale.iter().all(|n| n.is_finite() && *n > 0.0) {
        return Err(refuse(at, "a scale must be a number above 0".to_owned()));
    }
    let unknown = |source| Error::Ome { at: at.to_owned(), source: Box::new(source) };
    let placements: Result<Vec<LevelPlacement>, Error> =
        (0..image.levels.len()).map(|level| image.placement(level).map_err(unknown)).collect();
    let placements = placements?;
    let Some(first) = placements.first().cloned() else { return Ok(()) };
    if image.system.is_none() {
        image.transformations.clear();
    }
    for (level, mut placement) in placements.into_iter().enumerate() {
        for (axis, &wanted) in scale.iter().enumerate() {
            let by = wanted / first.scale[axis];
            placement.translation[axis] *= by;
            placement.scale[axis] = match placement.scale[axis] == first.scale[axis] {
                // Without a rounding error.
                true => wanted,
                false => placement.scale[axis] * by,
            };
        }
        image.set_placement(level, &placement);
    }
    Ok(())
}

fn set_unit(image: &mut Image, unit: Option<&str>) {
    for axis in image.axes.iter_mut().filter(|axis| axis.role() == AxisRole::Space) {
        axis.unit = unit.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_put_in_the_order_of_images() {
        for (names, expected) in [
            (&["x", "y", "z", "channel"][..], &[3, 2, 1, 0][..]),
            (&["t", "c", "z", "y", "x"], &[0, 1, 2, 3, 4]),
            (&["y", "x", "c"], &[2, 0, 1]),
            (&["lat", "lon", "time"], &[2, 0, 1]),
            (&["x", "depth", "t"], &[2, 0, 1]),
        ] {
            let axes: Vec<OmeAxis> = names.iter().copied().map(OmeAxis::named).collect();
            assert_eq!(usual_order(&axes), expected, "{names:?}");
        }
    }

    #[test]
    fn a_factor_is_whole_where_it_can_be() {
        for (whole, part, expected) in [
            (10, 5, 2.0),
            (11, 5, 2.0),
            (11, 6, 2.0),
            (7, 7, 1.0),
            (5, 2, 2.0),
            (7, 2, 4.0),
            (9, 2, 4.0),
            (10, 4, 3.0),
            (10, 8, 1.25),
            (1, 1, 1.0),
            (0, 0, 1.0),
        ] {
            assert_eq!(factor(whole, part), expected, "{whole} {part}");
        }
        let finest = LevelPlacement::new(vec![0.5, 1.0], vec![3.0, 0.0]);
        let level = coarser(&finest, &[9, 4], &[3, 4]);
        assert_eq!((level.scale, level.translation), (vec![1.5, 1.0], vec![3.5, 0.0]));
    }

    #[test]
    fn a_scale_stretches_the_whole_image() {
        let mut image = Image { axes: vec![OmeAxis::named("x")], ..Image::default() };
        for path in ["0", "1"] {
            image.levels.push(Level { path: path.to_owned(), ..Level::default() });
        }
        image.set_placement(0, &LevelPlacement::new(vec![2.0], vec![10.0]));
        image.set_placement(1, &LevelPlacement::new(vec![4.0], vec![11.0]));
        stretch("here", &mut image, &[0.5]).unwrap();
        let placement = |level| image.placement(level).unwrap();
        assert_eq!(placement(0), LevelPlacement::new(vec![0.5], vec![2.5]));
        assert_eq!(placement(1), LevelPlacement::new(vec![1.0], vec![2.75]));
        for wrong in [&[0.0][..], &[f64::NAN], &[1.0, 1.0]] {
            stretch("here", &mut image, wrong).unwrap_err();
        }
    }
}
