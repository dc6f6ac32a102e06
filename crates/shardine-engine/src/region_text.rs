//! Regions as people write them for an array that they know: by the names of its axes, and in the
//! coordinates of the data set that it belongs to.

use std::fmt;
use std::str::FromStr;

use crate::region_item::Item;
use crate::selection::{Region, RegionError};

/// A region as text, with its items by position, `0:64,:,7`, or by the name of their axis,
/// `z=10:20,x=5`. Axes of which nothing is said are whole.
///
/// What it means depends on an array:
///
/// ```
/// # use shardine_engine::selection::{RegionAxes, RegionError, RegionText};
/// let text: RegionText = "x=5, z=10:20".parse()?;
/// let names = ["z", "y", "x"].map(|name| Some(name.to_owned()));
/// let axes = RegionAxes { shape: &[100, 30, 8], names: Some(&names), origin: None };
/// assert_eq!(text.region(&axes)?.resolve(axes.shape)?.shape(), [10, 30, 1]);
/// // The same elements, if the first one is at z = 1000.
/// let axes = RegionAxes { origin: Some(&[1000, 0, 0]), ..axes };
/// let text: RegionText = "1010:1020,:,5".parse()?;
/// assert_eq!(text.region(&axes)?.to_string(), "10:20,:,5");
/// # Ok::<(), RegionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionText {
    text: String,
    items: Items,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Items {
    ByPosition(Region),
    ByName(Vec<(String, Item)>),
}

/// The axes that a [`RegionText`] speaks of.
#[derive(Debug, Clone, Copy)]
pub struct RegionAxes<'a> {
    /// Elements along each axis.
    pub shape: &'a [u64],
    /// The names of the axes, as far as they have some.
    pub names: Option<&'a [Option<String>]>,
    /// The coordinates of the first element, if the region is given in coordinates: then a negative
    /// number is a coordinate like any other, and does not count from the end.
    pub origin: Option<&'a [i64]>,
}

impl Default for RegionText {
    /// All of an array.
    fn default() -> Self {
        Self { text: String::new(), items: Items::ByPosition(Region::all()) }
    }
}

impl fmt::Display for RegionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "..." } else { &self.text })
    }
}

impl FromStr for RegionText {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        if !text.contains('=') {
            return Ok(Self { text: text.to_owned(), items: Items::ByPosition(text.parse()?) });
        }
        let mut items: Vec<(String, Item)> = Vec::new();
        for item in text.split(',') {
            // A name may hold the sign, an item cannot.
            let Some((name, item)) = item.rsplit_once('=') else {
                return Err(RegionError::Mixed { region: text.to_owned() });
            };
            let (name, item) = (name.trim(), Item::parse(text, item.trim())?);
            if item == Item::Ellipsis || name.is_empty() {
                let item = format!("{name}={item}");
                return Err(RegionError::Syntax { region: text.to_owned(), item });
            }
            if items.iter().any(|(known, _)| known == name) {
                return Err(RegionError::NamedTwice { name: name.to_owned() });
            }
            items.push((name.to_owned(), item));
        }
        Ok(Self { text: text.to_owned(), items: Items::ByName(items) })
    }
}

impl RegionText {
    /// The region that it means in an array with these axes.
    pub fn region(&self, axes: &RegionAxes<'_>) -> Result<Region, RegionError> {
        let items = match &self.items {
            Items::ByPosition(region) if axes.origin.is_none() => return Ok(region.clone()),
            Items::ByPosition(region) => region.items_of(axes.shape.len())?,
            Items::ByName(named) => by_name(named, axes)?,
        };
        let Some(origin) = axes.origin else { return Ok(Region::of_items(items)) };
        let place = |axis: usize| origin.get(axis).copied().unwrap_or(0);
        let moved = items.iter().zip(axes.shape).enumerate();
        let moved = moved.map(|(axis, (item, &len))| moved_item(item, axis, place(axis), len));
        Ok(Region::of_items(moved.collect::<Result<Vec<_>, _>>()?))
    }
}

/// The items by axis.
fn by_name(named: &[(String, Item)], axes: &RegionAxes<'_>) -> Result<Vec<Item>, RegionError> {
    let known = axes.names.filter(|names| names.iter().any(Option::is_some));
    let Some(known) = known.filter(|names| names.len() == axes.shape.len()) else {
        return Err(RegionError::Unnamed { rank: axes.shape.len() });
    };
    let mut items = vec![Item::WHOLE; known.len()];
    for (name, item) in named {
        let mut found = (0..known.len()).filter(|&i| known[i].as_deref() == Some(name.as_str()));
        match (found.next(), found.next()) {
            (Some(axis), None) => items[axis] = item.clone(),
            (Some(_), Some(_)) => {
                return Err(RegionError::SharedName { name: name.clone() });
            }
            (None, _) => {
                let names = known.iter().flatten().cloned().collect();
                return Err(RegionError::UnknownAxis { name: name.clone(), names });
            }
        }
    }
    Ok(items)
}

/// An item in coordinates as one that counts from the first element.
fn moved_item(item: &Item, axis: usize, origin: i64, len: u64) -> Result<Item, RegionError> {
    let (first, end) = (i128::from(origin), i128::from(origin) + i128::from(len));
    let outside = |at| RegionError::Outside { axis, at, first, end };
    Ok(match *item {
        Item::Ellipsis => Item::WHOLE,
        Item::Index(at) if (first..end).contains(&at) => Item::Index(at - first),
        Item::Index(at) => return Err(outside(at)),
        Item::Slice { start, stop, step } => {
            if let Some(start) = start.filter(|start| !(first..end.max(first + 1)).contains(start))
            {
                return Err(outside(start));
            }
            // A stop before the first element selects nothing, which resolving refuses.
            let from_first = |at: i128| at.clamp(first, end) - first;
            Item::Slice { start: start.map(from_first), stop: stop.map(from_first), step }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(text: &str, axes: &RegionAxes<'_>) -> Result<String, RegionError> {
        let region = text.parse::<RegionText>()?.region(axes)?;
        region.resolve(axes.shape)?;
        Ok(region.to_string())
    }

    fn names(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| (!name.is_empty()).then(|| (*name).to_owned())).collect()
    }

    #[test]
    fn names_find_their_axes_and_the_others_are_whole() {
        let names = names(&["z", "y", "x"]);
        let axes = RegionAxes { shape: &[10, 20, 30], names: Some(&names), origin: None };
        assert_eq!(region("x=5,z=2:4", &axes).unwrap(), "2:4,:,5");
        assert_eq!(region(" y = -3: ", &axes).unwrap(), ":,-3:,:");
        assert_eq!(region("2:4,:,5", &axes).unwrap(), "2:4,:,5");
        assert_eq!(region("", &axes).unwrap(), "...");
        let unknown = region("q=1", &axes).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no axis \"q\"; the axes are z, y, x");
        assert!(matches!(region("z=1,2", &axes), Err(RegionError::Mixed { .. })));
        assert!(matches!(region("2,z=1", &axes), Err(RegionError::Mixed { .. })));
        assert!(matches!(region("z=1,...", &axes), Err(RegionError::Mixed { .. })));
        assert!(matches!(region("z=1,z=2", &axes), Err(RegionError::NamedTwice { .. })));
        for bad in ["=1", "z=", "z=...", "z=1:2:0", "z=a", "z=1,"] {
            assert!(region(bad, &axes).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_axis_without_a_name_of_its_own_cannot_be_named() {
        let none = RegionAxes { shape: &[10, 20], names: None, origin: None };
        assert_eq!(region("z=1", &none), Err(RegionError::Unnamed { rank: 2 }));
        let (some, twice) = (names(&["", "x"]), names(&["x", "x"]));
        let axes = RegionAxes { names: Some(&some), ..none };
        assert_eq!(region("x=1", &axes).unwrap(), ":,1");
        let axes = RegionAxes { names: Some(&twice), ..none };
        assert!(matches!(region("x=1", &axes), Err(RegionError::SharedName { .. })));
        // A name with the sign in it is a name.
        let odd = names(&["a=b", "x"]);
        let axes = RegionAxes { names: Some(&odd), ..none };
        assert_eq!(region("a=b=3", &axes).unwrap(), "3,:");
    }

    #[test]
    fn coordinates_count_from_the_origin_and_negative_ones_are_coordinates() {
        let names = names(&["x", "y"]);
        let axes = RegionAxes { shape: &[10, 20], names: Some(&names), origin: Some(&[-3, 1000]) };
        assert_eq!(region("-3:2,1000", &axes).unwrap(), "0:5,0");
        assert_eq!(region("y=1019,x=-1", &axes).unwrap(), "2,19");
        assert_eq!(region("...,1005:", &axes).unwrap(), ":,5:");
        assert_eq!(region("x=:99:2", &axes).unwrap(), ":10:2,:");
        for (text, at) in [("0,5", 5), ("7", 7), ("-4:", -4), ("y=1020", 1020), ("x=7:9", 7)] {
            let refused = region(text, &axes);
            assert!(
                matches!(refused, Err(RegionError::Outside { at: found, .. }) if found == at),
                "{text} {refused:?}"
            );
        }
        assert!(matches!(region("x=:-3", &axes), Err(RegionError::Empty { .. })));
        assert!(matches!(region("1,1001,0", &axes), Err(RegionError::Rank { items: 3, rank: 2 })));
        let far = RegionAxes { shape: &[u64::MAX], names: None, origin: Some(&[i64::MIN]) };
        assert_eq!(region("-9223372036854775808:-9223372036854775807", &far).unwrap(), "0:1");
    }
}
