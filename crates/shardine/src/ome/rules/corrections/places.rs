//! Where the wells of a plate are.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Correction, WellPlace, members_mut};
use crate::ome::OmeRelease;
use crate::ome::rules::{metadata_members, release};

/// Gives wells the numbers of their row and column that they lack: their paths name both.
pub(crate) fn places(attributes: &Map<String, Value>) -> Option<Correction> {
    // Before, wells had none.
    if release(attributes)? < OmeRelease::V0_4 {
        return None;
    }
    let wells = missing(metadata_members(attributes)?)?;
    (!wells.is_empty()).then_some(Correction::Places { wells })
}

fn missing(members: &Map<String, Value>) -> Option<Vec<WellPlace>> {
    let plate = members.get("plate")?.as_object()?;
    let (rows, columns) = (names(plate, "rows")?, names(plate, "columns")?);
    let wells = plate.get("wells")?.as_array()?;
    let mut found = Vec::new();
    for (well, members) in wells.iter().enumerate() {
        let Some(members) = members.as_object() else { continue };
        let path = members.get("path").and_then(Value::as_str);
        let Some((row, column)) = path.and_then(|path| path.split_once('/')) else { continue };
        // A well that says it is somewhere else may have a wrong path.
        let sides = [("rowIndex", &rows, row), ("columnIndex", &columns, column)];
        let numbers = sides.map(|(side, names, name)| (side, names.get(name).copied().flatten()));
        let is_wrong = |(side, number): &(&str, Option<u64>)| {
            number.is_none() || members.get(*side).is_some_and(|known| known.as_u64() != *number)
        };
        if numbers.iter().any(is_wrong) {
            continue;
        }
        for (side, number) in numbers {
            if let Some(number) = number.filter(|_| !members.contains_key(side)) {
                found.push(WellPlace { well, side, number });
            }
        }
    }
    Some(found)
}

/// The places of rows or columns by their names; `None` for a name that occurs more than once.
fn names<'v>(plate: &'v Map<String, Value>, side: &str) -> Option<HashMap<&'v str, Option<u64>>> {
    let mut names = HashMap::new();
    for (place, one) in plate.get(side)?.as_array()?.iter().enumerate() {
        if let Some(name) = one.get("name").and_then(Value::as_str) {
            names.entry(name).and_modify(|known| *known = None).or_insert(Some(place as u64));
        }
    }
    Some(names)
}

pub(super) fn apply(attributes: &mut Map<String, Value>, wells: &[WellPlace]) -> bool {
    let Some(members) = members_mut(attributes) else { return false };
    if missing(members).as_deref() != Some(wells) {
        return false;
    }
    let list = members.get_mut("plate").and_then(|plate| plate.get_mut("wells"));
    let Some(list) = list.and_then(Value::as_array_mut) else { return false };
    for place in wells {
        if let Some(well) = list.get_mut(place.well).and_then(Value::as_object_mut) {
            well.insert(place.side.to_owned(), place.number.into());
        }
    }
    true
}
