//! Reads boxes.

use std::str::FromStr;

use super::{BoxError, BoxItem, PhysicalBox, Quantity};
use crate::ome::{length_in_nanometers, time_in_seconds};

impl FromStr for PhysicalBox {
    type Err = BoxError;

    fn from_str(text: &str) -> Result<Self, BoxError> {
        let mut items: Vec<(String, BoxItem)> = Vec::new();
        for item in text.split(',') {
            let syntax =
                || BoxError::Syntax { text: text.to_owned(), item: item.trim().to_owned() };
            // A name may hold the sign, a number cannot.
            let (name, value) = item.rsplit_once('=').ok_or_else(syntax)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(syntax());
            }
            let value = match value.split_once(':') {
                None => BoxItem::Position(quantity(value)?.ok_or_else(syntax)?),
                Some((start, stop)) => {
                    let end = |text: &str| match text.trim() {
                        "" => Ok(None),
                        text => quantity(text)?.ok_or_else(syntax).map(Some),
                    };
                    BoxItem::Range { start: end(start)?, stop: end(stop)? }
                }
            };
            if items.iter().any(|(known, _)| known == name) {
                return Err(BoxError::NamedTwice { axis: name.to_owned() });
            }
            items.push((name.to_owned(), value));
        }
        Ok(Self { text: text.to_owned(), items })
    }
}

/// A number and maybe a unit; `None` if it is neither.
fn quantity(text: &str) -> Result<Option<Quantity>, BoxError> {
    let text = text.trim();
    // The longest that is a number: `1e3um` has an exponent, `3eV` has none. Not `inf` and `nan`.
    let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let most = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let found = (1..=most).rev().find_map(|end| Some((end, text[..end].parse::<f64>().ok()?)));
    let Some((end, number)) = found.filter(|(_, number)| number.is_finite()) else {
        return Ok(None);
    };
    let unit = text[end..].trim();
    if unit.is_empty() {
        return Ok(Some(Quantity { number, unit: None }));
    }
    if !unit.chars().all(char::is_alphabetic) {
        return Ok(None);
    }
    // Capitals would make another unit of an abbreviation: Mm are not mm.
    let is_short = unit.chars().count() <= 3;
    let is_known = length_in_nanometers(unit).or_else(|| time_in_seconds(unit)).is_some();
    if !is_known || is_short && unit.chars().any(char::is_uppercase) {
        return Err(BoxError::UnknownUnit { unit: unit.to_owned() });
    }
    Ok(Some(Quantity { number, unit: Some(unit.to_owned()) }))
}
