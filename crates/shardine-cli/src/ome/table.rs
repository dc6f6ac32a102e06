//! Tables and numbers for display.

use std::io::{self, Write};

/// The most columns of a line before a table is squeezed.
const WIDTH: usize = 100;

/// A table with columns as wide as needed, indented; all but the first are aligned to the right.
/// Where it would be too wide, shapes are written without spaces.
pub fn write_table(out: &mut dyn Write, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let widths = |rows: &[Vec<String>]| -> Vec<usize> {
        let width = |k: usize| {
            let cells = rows.iter().filter_map(|row| row.get(k)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(head[k].chars().count())
        };
        (0..head.len()).map(width).collect()
    };
    let squeezed: Vec<Vec<String>>;
    let (mut rows, mut columns) = (rows, widths(rows));
    if columns.iter().sum::<usize>() + 2 * columns.len() > WIDTH {
        let squeeze = |cell: &String| cell.replace(" x ", "x");
        squeezed = rows.iter().map(|row| row.iter().map(squeeze).collect()).collect();
        (columns, rows) = (widths(&squeezed), &squeezed);
    }
    let mut write = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (k, (cell, &width)) in cells.zip(&columns).enumerate() {
            match k {
                0 => line.push_str(&format!("  {cell:<width$}")),
                _ => line.push_str(&format!("  {cell:>width$}")),
            }
        }
        writeln!(out, "{}", line.trim_end())
    };
    write(&mut head.iter().copied())?;
    rows.iter().try_for_each(|row| write(&mut row.iter().map(String::as_str)))
}

/// A number without the digits that come from computing with fractions.
pub fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// The usual sign of a unit; its name if it has none.
pub fn sign(unit: &str) -> &str {
    match unit {
        "angstrom" => "Å",
        "nanometer" => "nm",
        "micrometer" => "µm",
        "millimeter" => "mm",
        "centimeter" => "cm",
        "meter" => "m",
        "microsecond" => "µs",
        "millisecond" => "ms",
        "second" => "s",
        "minute" => "min",
        "hour" => "h",
        "day" => "d",
        other => other,
    }
}

/// Numbers along axes with their units, those of one unit together: `0.5 s, 1, 2 x 0.65 x 0.65 µm`.
pub fn along_axes(numbers: &[f64], units: &[Option<&str>]) -> String {
    let mut text = String::new();
    let mut axes = numbers.iter().zip(units).peekable();
    while let Some((value, unit)) = axes.next() {
        text.push_str(&number(*value));
        match (axes.peek(), unit) {
            (Some((_, next)), _) if *next == unit => text.push_str(" x "),
            (next, unit) => {
                if let Some(unit) = unit {
                    text.push_str(&format!(" {}", sign(unit)));
                }
                text.push_str(if next.is_some() { ", " } else { "" });
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_one_unit_stand_together() {
        let (second, micrometer) = (Some("second"), Some("micrometer"));
        assert_eq!(
            along_axes(&[0.5, 1.0, 2.0, 0.65], &[second, None, micrometer, micrometer]),
            "0.5 s, 1, 2 x 0.65 µm"
        );
        assert_eq!(along_axes(&[1.0, 0.1 + 0.2], &[None, None]), "1 x 0.3");
        assert_eq!(along_axes(&[], &[]), "");
    }

    #[test]
    fn a_wide_table_is_squeezed() {
        let head = ["path", "shape"];
        let narrow = [vec!["0".to_owned(), "5 x 6".to_owned()]];
        let mut out = Vec::new();
        write_table(&mut out, &head, &narrow).unwrap();
        assert_eq!(out, b"  path  shape\n  0     5 x 6\n");
        let wide = [vec!["0".repeat(94), "5 x 6".to_owned()]];
        let mut out = Vec::new();
        write_table(&mut out, &head, &wide).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("0    5x6\n"));
    }
}
