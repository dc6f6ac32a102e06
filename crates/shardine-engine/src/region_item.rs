//! What a region says about one axis.

use std::fmt;

use crate::selection::{Axis, RegionError};

/// What a region says about one axis, or about all axes not mentioned otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Ellipsis,
    // Wide enough for every position on an axis, counted from either end.
    Index(i128),
    Slice { start: Option<i128>, stop: Option<i128>, step: u64 },
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ellipsis => f.write_str("..."),
            Self::Index(i) => write!(f, "{i}"),
            Self::Slice { start, stop, step } => {
                let text = |i: &Option<i128>| i.map(|i| i.to_string()).unwrap_or_default();
                write!(f, "{}:{}", text(start), text(stop))?;
                if *step != 1 { write!(f, ":{step}") } else { Ok(()) }
            }
        }
    }
}

impl Item {
    /// A whole axis.
    pub const WHOLE: Self = Self::Slice { start: None, stop: None, step: 1 };

    pub fn parse(region: &str, item: &str) -> Result<Self, RegionError> {
        if item == "..." {
            return Ok(Self::Ellipsis);
        }
        let refuse = || RegionError::Syntax { region: region.into(), item: item.into() };
        let number = |text: &str| -> Result<Option<i128>, RegionError> {
            match text.trim() {
                "" => Ok(None),
                text => text.parse().map(Some).map_err(|_| refuse()),
            }
        };
        let parts: Vec<&str> = item.split(':').collect();
        match parts[..] {
            [index] => Ok(Self::Index(number(index)?.ok_or_else(refuse)?)),
            [start, stop] => {
                Ok(Self::Slice { start: number(start)?, stop: number(stop)?, step: 1 })
            }
            [start, stop, step] => {
                let step = number(step)?.unwrap_or(1);
                if step < 1 {
                    return Err(RegionError::Step { region: region.into(), step });
                }
                Ok(Self::Slice {
                    start: number(start)?,
                    stop: number(stop)?,
                    // A step past the end of every axis selects one element, as the largest step
                    // does.
                    step: u64::try_from(step).unwrap_or(u64::MAX),
                })
            }
            _ => Err(refuse()),
        }
    }

    pub fn resolve(&self, axis: usize, len: u64) -> Result<Axis, RegionError> {
        let from_end = |i: i128| {
            let counted = if i < 0 { i.saturating_add(len.into()).max(0) } else { i };
            u64::try_from(counted).unwrap_or(u64::MAX)
        };
        match *self {
            Self::Ellipsis => Ok(Axis { start: 0, step: 1, count: len }),
            Self::Index(i) => {
                if !(-i128::from(len)..i128::from(len)).contains(&i) {
                    return Err(RegionError::PastEnd { axis, start: i, len });
                }
                Ok(Axis { start: from_end(i), step: 1, count: 1 })
            }
            Self::Slice { start, stop, step } => {
                let first = start.map_or(0, from_end);
                let end = stop.map_or(len, from_end).min(len);
                if let Some(start) = start
                    && first >= len
                    && len > 0
                {
                    return Err(RegionError::PastEnd { axis, start, len });
                }
                let count = end.saturating_sub(first).div_ceil(step);
                if count == 0 && !(len == 0 && start.is_none() && stop.is_none()) {
                    return Err(RegionError::Empty { axis, len });
                }
                Ok(Axis { start: first, step, count })
            }
        }
    }
}
