//! Which levels an image gets, on the command line.

use crate::units;

/// A number of levels, or none.
#[derive(Debug, Clone, Copy)]
pub struct Levels(pub Option<usize>);

pub fn levels_argument(text: &str) -> Result<Levels, String> {
    match text {
        "auto" => Ok(Levels(None)),
        text => match text.parse() {
            Ok(levels) => Ok(Levels(Some(levels))),
            Err(_) => Err(format!("\"{text}\" is not a number of levels, or auto")),
        },
    }
}

/// Factors, or none.
#[derive(Debug, Clone)]
pub struct Factors(pub Option<Vec<u64>>);

pub fn factors_argument(text: &str) -> Result<Factors, String> {
    match text {
        "auto" => Ok(Factors(None)),
        text => match units::parse_shape(text) {
            Ok(factors) => Ok(Factors(Some(factors))),
            Err(_) => Err(format!("\"{text}\" is not a list of factors such as 1,2,2, or auto")),
        },
    }
}
