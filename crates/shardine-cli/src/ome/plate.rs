//! A plate drawn as its lid shows it: rows with letters, columns with numbers.

use std::io::{self, Write};

use serde_json::{Value, json};
use shardine::ome::{Plate, PlateWell};

use crate::info::line;
use crate::units;

/// The most columns of a line, and the most rows that are drawn.
const WIDTH: usize = 96;
const ROWS: usize = 64;

/// The place of a well: its row and its column, by number, or by the names in its path.
fn place(plate: &Plate, well: &PlateWell) -> Option<(usize, usize)> {
    let number = |index: Option<u64>, names: &[shardine::ome::Named], name: &str| {
        let given = index.and_then(|index| usize::try_from(index).ok());
        let given = given.filter(|index| *index < names.len());
        given.or_else(|| names.iter().position(|known| known.name == name))
    };
    let (row, column) = well.path.split_once('/').unwrap_or((&well.path, ""));
    Some((number(well.row, &plate.rows, row)?, number(well.column, &plate.columns, column)?))
}

/// The plate for display.
pub fn write(out: &mut dyn Write, plate: &Plate) -> io::Result<()> {
    let (rows, columns) = (&plate.rows, &plate.columns);
    let possible = rows.len().saturating_mul(columns.len());
    let span = |names: &[shardine::ome::Named], what: &str| match names {
        [] => format!("no {what}s"),
        [one] => format!("1 {what} {}", one.name),
        [first, .., last] => format!("{} {what}s {} to {}", names.len(), first.name, last.name),
    };
    line(
        out,
        "wells",
        format!(
            "{} of {possible}: {}, {}",
            plate.wells.len(),
            span(rows, "row"),
            span(columns, "column")
        ),
    )?;
    if let Some(fields) = &plate.field_count {
        line(out, "fields", format!("up to {fields} in a well"))?;
    }
    let acquisitions = acquisitions(plate);
    if !acquisitions.is_empty() {
        let names: Vec<String> = acquisitions
            .iter()
            .map(|one| {
                let id = one.get("id").map(Value::to_string).unwrap_or_default();
                match one.get("name").and_then(Value::as_str) {
                    Some(name) => format!("{id} ({name})"),
                    None => id,
                }
            })
            .collect();
        line(out, "acquisitions", format!("{}: {}", names.len(), names.join(", ")))?;
    }
    draw(out, plate)
}

/// The members of `acquisitions`, as they are.
fn acquisitions(plate: &Plate) -> Vec<Value> {
    plate.other.get("acquisitions").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A mark for each well that exists. Where the names of columns do not fit, every tenth has one;
/// a plate that does not fit even then is not drawn.
fn draw(out: &mut dyn Write, plate: &Plate) -> io::Result<()> {
    let (rows, columns) = (plate.rows.len(), plate.columns.len());
    let longest = |names: &[shardine::ome::Named]| {
        names.iter().map(|named| named.name.chars().count()).max().unwrap_or(0)
    };
    let margin = longest(&plate.rows).max(2) + 2;
    if rows == 0 || columns == 0 || rows > ROWS || margin + columns + 1 > WIDTH {
        return Ok(());
    }
    let mut exists = vec![vec![false; columns]; rows];
    let mut strange = 0u64;
    for well in &plate.wells {
        match place(plate, well).and_then(|(row, column)| exists.get_mut(row)?.get_mut(column)) {
            Some(place) => *place = true,
            None => strange += 1,
        }
    }
    let cell = longest(&plate.columns) + 1;
    let is_wide = margin + cell * columns <= WIDTH;
    let cell = if is_wide { cell } else { 1 };
    let mut head = " ".repeat(margin);
    for (number, column) in plate.columns.iter().enumerate() {
        if is_wide {
            head.push_str(&format!("{:>cell$}", column.name));
        } else if (number + 1) % 10 == 0 {
            // Ends above its column.
            let name = &column.name;
            let width = (margin + number + 1).saturating_sub(head.chars().count());
            head.push_str(&format!("{name:>width$}"));
        }
    }
    writeln!(out, "{}", head.trim_end())?;
    for (row, wells) in plate.rows.iter().zip(&exists) {
        let marks: String = wells
            .iter()
            .map(|exists| format!("{:>cell$}", if *exists { "●" } else { "·" }))
            .collect();
        writeln!(out, "{:>margin$}{marks}", row.name)?;
    }
    if strange > 0 {
        let wells = units::count(strange, "well");
        line(out, "", format!("{wells} outside these rows and columns"))?;
    }
    Ok(())
}

/// The plate in JSON.
pub fn describe(plate: &Plate) -> Value {
    let names = |names: &[shardine::ome::Named]| -> Vec<Value> {
        names.iter().map(|named| json!(named.name)).collect()
    };
    let well = |well: &PlateWell| {
        let place = place(plate, well);
        json!({
            "path": well.path,
            "row": place.map(|(row, _)| row),
            "column": place.map(|(_, column)| column),
        })
    };
    json!({
        "name": plate.name,
        "rows": names(&plate.rows),
        "columns": names(&plate.columns),
        "wells": plate.wells.iter().map(well).collect::<Vec<_>>(),
        "field_count": plate.field_count,
        "acquisitions": acquisitions(plate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plate(rows: usize, columns: usize, wells: &[(u64, u64)]) -> Plate {
        let row = |i: usize| match i {
            0..26 => char::from(b'A' + i as u8).to_string(),
            _ => format!("A{}", char::from(b'A' + (i - 26) as u8)),
        };
        let named = |name: String| json!({ "name": name });
        let rows: Vec<Value> = (0..rows).map(|i| named(row(i))).collect();
        let columns: Vec<Value> = (1..=columns).map(|i| named(i.to_string())).collect();
        let wells: Vec<Value> = wells
            .iter()
            .map(|(r, c)| {
                let path = format!("{}/{}", row(*r as usize), c + 1);
                json!({ "path": path, "rowIndex": r, "columnIndex": c })
            })
            .collect();
        let plate = json!({ "rows": rows, "columns": columns, "wells": wells });
        serde_json::from_value(plate).unwrap()
    }

    fn drawn(plate: &Plate) -> String {
        let mut out = Vec::new();
        write(&mut out, plate).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plate_is_drawn_with_the_wells_that_exist() {
        let text = drawn(&plate(2, 3, &[(0, 0), (1, 2)]));
        let expected = "wells        2 of 6: 2 rows A to B, 3 columns 1 to 3\n     1 2 3\n   A ● · ·\n   B · · ●\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn plates_of_every_size_stay_narrow() {
        for (rows, columns) in [(1, 1), (4, 6), (8, 12), (16, 24), (32, 48), (1, 90), (64, 80)] {
            let text = drawn(&plate(rows.min(52), columns, &[(0, 0)]));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest < 100 && text.contains('●'), "{text}");
        }
        // Too large to be drawn.
        assert_eq!(drawn(&plate(8, 200, &[(0, 0)])).lines().count(), 1);
        let text = drawn(&plate(32, 48, &[(0, 0)]));
        let head = text.lines().nth(1).unwrap();
        assert_eq!(head.find("10"), Some(4 + 8), "{text}");
    }

    #[test]
    fn wells_that_do_not_fit_are_counted() {
        let mut plate = plate(2, 3, &[(0, 0)]);
        plate.wells[0].row = Some(7);
        // The path says where it is.
        assert!(drawn(&plate).contains("A ●"));
        plate.wells[0].path = "Q/1".to_owned();
        assert!(drawn(&plate).ends_with("1 well outside these rows and columns\n"));
    }
}
