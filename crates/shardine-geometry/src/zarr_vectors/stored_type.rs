//! The types of values that numpy can write into a cell, and how each becomes a column.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array as _, ArrayRef, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::attributes::{Column, Scalar};
use crate::GeometryError;

/// How the values of an attribute are stored, beyond a type of numbers.
///
/// zarr-vectors writes the memory of a numpy array, whatever its type is, and only points get
/// dictionaries of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredType {
    /// The type of the numbers that a value consists of.
    pub scalar: Scalar,
    /// How many of them a value has: 2 of a complex number, as many bytes as a string takes.
    pub unit: usize,
    /// Whether the highest byte of a number comes first.
    pub swapped: bool,
    text: Option<Text>,
}

/// How characters are stored. Strings that are shorter than others end in zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Four bytes each.
    Utf32,
    /// As UTF-8.
    Bytes,
}

impl StoredType {
    /// The most characters of a string: a longer one makes a row of more than 64 KiB.
    pub(super) const MOST_CHARACTERS: usize = 1 << 14;

    /// Numbers with their lowest byte first.
    pub fn of(scalar: Scalar) -> Self {
        Self { scalar, unit: 1, swapped: false, text: None }
    }

    /// Strings of `size` bytes with four bytes for each character.
    pub fn utf32(size: usize) -> Option<Self> {
        let fits = size > 0 && size.is_multiple_of(4) && size / 4 <= Self::MOST_CHARACTERS;
        let text = Some(Text::Utf32);
        fits.then_some(Self { scalar: Scalar::Uint8, unit: size, swapped: false, text })
    }

    /// Reads the name that numpy has for a type: `float32`, `<U8`, `|S3`, `complex64`, `>f4`,
    /// `datetime64[ns]`. `None` if values of the type cannot be read: `object` is an address in the
    /// memory of the process that wrote it, `float128` differs between machines.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(scalar) = Scalar::parse(name) {
            return Some(Self::of(scalar));
        }
        let swapped = name.starts_with('>');
        let short = name.strip_prefix(['<', '|', '=', '>']).unwrap_or(name);
        let known = |scalar, unit| Some(Self { scalar, unit, swapped, text: None });
        if let Some(scalar) = Scalar::parse(short) {
            return known(scalar, 1);
        }
        if let Some(characters) = short.strip_prefix('U') {
            let size = characters.parse::<usize>().ok()?.checked_mul(4)?;
            return Self::utf32(size).map(|text| Self { swapped, ..text });
        }
        if let Some(bytes) = short.strip_prefix('S') {
            let unit = bytes.parse::<usize>().ok()?;
            let text = Some(Text::Bytes);
            let fits = (1..=Self::MOST_CHARACTERS).contains(&unit);
            return fits.then_some(Self { scalar: Scalar::Uint8, unit, swapped: false, text });
        }
        match short {
            "complex64" | "c8" => known(Scalar::Float32, 2),
            "complex128" | "c16" => known(Scalar::Float64, 2),
            _ => {
                let time = ["datetime64[", "timedelta64[", "M8[", "m8["];
                let is_time = time.iter().any(|start| short.starts_with(start));
                if is_time { known(Scalar::Int64, 1) } else { None }
            }
        }
    }

    /// The type of coordinates of this name; `None` if it is none.
    pub fn of_coordinates(name: &str) -> Option<Self> {
        let is_number = |stored: &Self| stored.scalar != Scalar::Bool && stored.unit == 1;
        Self::parse(name).filter(|stored| is_number(stored) && !stored.is_text())
    }

    /// Whether values are strings.
    pub fn is_text(self) -> bool {
        self.text.is_some()
    }

    /// How many bytes a number has whose order may be swapped.
    pub fn swap_size(self) -> usize {
        if self.text == Some(Text::Utf32) { 4 } else { self.scalar.size() }
    }

    /// The string in the bytes of a value, lowest byte first; `None` if they are none.
    pub fn text(self, value: &[u8]) -> Option<String> {
        match self.text? {
            Text::Bytes => {
                let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                str::from_utf8(value.get(..end)?).ok().map(str::to_owned)
            }
            Text::Utf32 => {
                let (characters, []) = value.as_chunks::<4>() else { return None };
                let end = characters.iter().rposition(|one| *one != [0; 4]);
                let characters = characters.get(..end.map_or(0, |last| last + 1))?;
                characters.iter().map(|one| char::from_u32(u32::from_le_bytes(*one))).collect()
            }
        }
    }

    /// Takes the rows of a column of strings out. Each row must be one string.
    pub fn finish_text(
        self,
        column: &mut Column,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, GeometryError> {
        let rows = column.finish(None)?;
        let bytes = match rows.data_type() {
            DataType::FixedSizeList(..) => Arc::clone(rows.as_fixed_size_list().values()),
            _ => Arc::clone(&rows),
        };
        let Some(bytes) = bytes.as_primitive_opt::<UInt8Type>() else {
            return Ok(rows);
        };
        let mut words = Vec::with_capacity(rows.len());
        for (row, value) in bytes.values().chunks_exact(self.unit).enumerate() {
            words.push(self.text(value).ok_or_else(|| GeometryError::Invalid {
                format: "Zarr Vectors",
                place: format!("row {row} of a batch of strings"),
                reason: "its bytes are no text".to_owned(),
            })?);
        }
        let words = StringArray::from(words);
        let (offsets, values, _) = words.into_parts();
        Ok(Arc::new(StringArray::try_new(offsets, values, nulls)?))
    }
}

/// Turns the numbers of `size` bytes in `bytes` round.
pub fn swap_bytes(bytes: &mut [u8], size: usize) {
    bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_numpy_are_known_by_both_of_their_names() {
        let named = |name: &str| StoredType::parse(name).map(|one| (one.scalar, one.unit));
        assert_eq!(named("float32"), Some((Scalar::Float32, 1)));
        assert_eq!(named(">i2"), Some((Scalar::Int16, 1)));
        assert!(StoredType::parse(">i2").is_some_and(|one| one.swapped && one.swap_size() == 2));
        assert_eq!(named("<U4"), Some((Scalar::Uint8, 16)));
        assert_eq!(named("|S3"), Some((Scalar::Uint8, 3)));
        assert_eq!(named("complex128"), Some((Scalar::Float64, 2)));
        assert_eq!(named("datetime64[ns]"), Some((Scalar::Int64, 1)));
        for unknown in ["object", "float128", "[('a', '<f4')]", "<U0", "<U99999999999", "U", ""] {
            assert_eq!(StoredType::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn strings_end_at_their_zeros_and_no_sooner() {
        let words = StoredType::parse("<U4").unwrap();
        let bytes = |text: &[u32]| -> Vec<u8> {
            text.iter().flat_map(|character| character.to_le_bytes()).collect()
        };
        assert_eq!(words.text(&bytes(&[0xfc, 0, 0x61, 0])).as_deref(), Some("ü\0a"));
        assert_eq!(words.text(&bytes(&[0; 4])).as_deref(), Some(""));
        assert_eq!(words.text(&bytes(&[0xd800, 0, 0, 0])), None);
        let short = StoredType::parse("|S3").unwrap();
        assert_eq!(short.text(b"ab\0").as_deref(), Some("ab"));
        assert_eq!(short.text(&[0xff, 0, 0]), None);
    }
}
