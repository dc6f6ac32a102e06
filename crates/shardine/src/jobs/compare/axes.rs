//! Which axis of one array is which of another.

use crate::jobs::rebuild::AxisMap;
use crate::precomputed::AXES;

/// An array as far as its axes go.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxesOf<'a> {
    pub shape: &'a [u64],
    pub names: Option<&'a [Option<String>]>,
}

/// One spelling for names that mean the same in different formats.
fn canonical(name: &str) -> String {
    match name.to_lowercase().as_str() {
        "c" => "channel".to_owned(),
        "time" => "t".to_owned(),
        name => name.to_owned(),
    }
}

impl AxesOf<'_> {
    /// The names of all axes, if each has one of its own.
    fn names(self) -> Option<Vec<String>> {
        let names: Option<Vec<String>> =
            self.names?.iter().map(|name| name.as_deref().map(canonical)).collect();
        names.filter(|names| {
            names.len() == self.shape.len()
                && (1..names.len()).all(|i| !names[..i].contains(&names[i]))
        })
    }
}

/// Which axis of A each axis of B is; `None` if the arrays have different shapes.
///
/// By name, if both have names for all axes: then their order does not matter, and an axis that only
/// one has must be of length 1. Otherwise by position; a volume of one channel is also an array
/// without axis names of the shape x, y, z, as a conversion takes it.
pub(super) fn matched(a: AxesOf<'_>, b: AxesOf<'_>) -> Option<AxisMap> {
    if let (Some(in_a), Some(in_b)) = (a.names(), b.names()) {
        let found = by_name((a.shape, &in_a), (b.shape, &in_b));
        // The same names in another order, with other lengths, are other shapes.
        let same_names = in_a.len() == in_b.len() && in_a.iter().all(|name| in_b.contains(name));
        if found.is_some() || same_names {
            return found;
        }
    }
    let rank = a.shape.len();
    if a.shape == b.shape {
        return Some(AxisMap::identity(rank));
    }
    let is_volume = |axes: AxesOf<'_>| {
        axes.names().is_some_and(|names| names == AXES) && axes.shape.last() == Some(&1)
    };
    let spatial = |axes: AxesOf<'_>| axes.shape.len() == AXES.len() - 1 && axes.names().is_none();
    let same = |volume: AxesOf<'_>, other: AxesOf<'_>| {
        is_volume(volume) && spatial(other) && volume.shape[..AXES.len() - 1] == *other.shape
    };
    let axes = (0..b.shape.len()).map(|axis| (axis < rank).then_some(axis));
    (same(a, b) || same(b, a)).then(|| AxisMap::new(axes.collect(), rank))
}

fn by_name(a: (&[u64], &[String]), b: (&[u64], &[String])) -> Option<AxisMap> {
    let place = |name: &String| a.1.iter().position(|known| known == name);
    let axes: Vec<Option<usize>> = b.1.iter().map(place).collect();
    let lengths_match = axes.iter().zip(b.0).all(|(axis, &len)| match axis {
        Some(axis) => a.0[*axis] == len,
        None => len == 1,
    });
    let rest_is_flat = (0..a.0.len()).all(|axis| axes.contains(&Some(axis)) || a.0[axis] == 1);
    (lengths_match && rest_is_flat).then(|| AxisMap::new(axes, a.0.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    fn found(a: (&[u64], &[&str]), b: (&[u64], &[&str])) -> Option<AxisMap> {
        let (in_a, in_b) = (names(a.1), names(b.1));
        matched(
            AxesOf { shape: a.0, names: (!in_a.is_empty()).then_some(&in_a) },
            AxesOf { shape: b.0, names: (!in_b.is_empty()).then_some(&in_b) },
        )
    }

    #[test]
    fn names_decide_and_flat_axes_may_be_missing() {
        let map = found(
            (&[30, 20, 10, 3], &["x", "y", "z", "channel"]),
            (&[1, 3, 10, 20, 30], &["t", "c", "Z", "Y", "X"]),
        );
        assert_eq!(map, Some(AxisMap::new(vec![None, Some(3), Some(2), Some(1), Some(0)], 4)));
        let longer = (&[2, 3, 10, 20, 30][..], &["t", "c", "z", "y", "x"][..]);
        assert_eq!(found((&[30, 20, 10, 3], &["x", "y", "z", "channel"]), longer), None);
    }

    #[test]
    fn the_same_names_in_another_order_are_not_matched_by_position() {
        assert_eq!(found((&[10, 20], &["y", "x"]), (&[10, 20], &["x", "y"])), None);
        let turned = found((&[10, 10], &["y", "x"]), (&[10, 10], &["x", "y"]));
        assert_eq!(turned, Some(AxisMap::new(vec![Some(1), Some(0)], 2)));
    }

    #[test]
    fn without_names_the_order_decides() {
        assert_eq!(found((&[2, 3], &[]), (&[2, 3], &["y", "x"])), Some(AxisMap::identity(2)));
        assert_eq!(found((&[2, 3], &[]), (&[3, 2], &["y", "x"])), None);
        // Axes that were renamed are still the axes.
        assert_eq!(
            found((&[2, 3], &["a", "b"]), (&[2, 3], &["y", "x"])),
            Some(AxisMap::identity(2))
        );
    }

    #[test]
    fn a_volume_of_one_channel_is_also_an_array_of_three_axes() {
        let volume = (&[4, 5, 6, 1][..], &["x", "y", "z", "channel"][..]);
        let there = found(volume, (&[4, 5, 6], &[]));
        assert_eq!(there, Some(AxisMap::new(vec![Some(0), Some(1), Some(2)], 4)));
        let back = found((&[4, 5, 6], &[]), volume);
        assert_eq!(back, Some(AxisMap::new(vec![Some(0), Some(1), Some(2), None], 3)));
        assert_eq!(found((&[6, 5, 4], &[]), volume), None);
    }
}
