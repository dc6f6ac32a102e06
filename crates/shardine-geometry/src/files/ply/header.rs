//! The header of a `.ply` file: its elements and their properties.

use std::io::Read;

use arrow_schema::DataType;

use super::PLY;
use crate::GeometryError;
use crate::files::invalid;
use crate::files::lines::Lines;

/// Far above any real header.
const MAX_LINES: u64 = 4096;

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Ascii,
    LittleEndian,
    BigEndian,
}

impl Encoding {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "ascii" => Some(Self::Ascii),
            "binary_little_endian" => Some(Self::LittleEndian),
            "binary_big_endian" => Some(Self::BigEndian),
            _ => None,
        }
    }
}

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Float32,
    Float64,
}

impl Scalar {
    /// Both the names of the first description and those that say the size.
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "char" | "int8" => Self::Int8,
            "uchar" | "uint8" => Self::UInt8,
            "short" | "int16" => Self::Int16,
            "ushort" | "uint16" => Self::UInt16,
            "int" | "int32" => Self::Int32,
            "uint" | "uint32" => Self::UInt32,
            "float" | "float32" => Self::Float32,
            "double" | "float64" => Self::Float64,
            _ => return None,
        })
    }

    pub fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    pub fn data_type(self) -> DataType {
        match self {
            Self::Int8 => DataType::Int8,
            Self::UInt8 => DataType::UInt8,
            Self::Int16 => DataType::Int16,
            Self::UInt16 => DataType::UInt16,
            Self::Int32 => DataType::Int32,
            Self::UInt32 => DataType::UInt32,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
        }
    }
}

/// A property of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    pub name: String,
    /// The type of the number of values, for a list.
    pub list: Option<Scalar>,
    pub scalar: Scalar,
}

/// A kind of element, of which there are `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub name: String,
    pub count: u64,
    pub properties: Vec<Property>,
}

impl Element {
    /// The fewest bytes that all of them take.
    fn least_bytes(&self, encoding: Encoding) -> Option<u64> {
        let each: usize = match encoding {
            // A digit, and white space after it; there may be none after the last.
            Encoding::Ascii => 2 * self.properties.len(),
            _ => self.properties.iter().map(|p| p.list.unwrap_or(p.scalar).size()).sum(),
        };
        self.count.checked_mul(each as u64)
    }
}

/// What a file says about its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub encoding: Encoding,
    pub elements: Vec<Element>,
}

impl Header {
    /// Reads up to the line `end_header`.
    pub fn read<R: Read>(lines: &mut Lines<R>) -> Result<Self, GeometryError> {
        if lines.next()? != Some("ply") {
            return Err(lines.wrong("the file does not begin with \"ply\""));
        }
        let mut encoding = None;
        let mut elements: Vec<Element> = Vec::new();
        loop {
            if lines.number() > MAX_LINES {
                return Err(lines.wrong("the header is too long"));
            }
            let Some(line) = lines.next()? else {
                return Err(lines.wrong("the file ends inside its header"));
            };
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let answer = match words[..] {
                [] | ["comment" | "obj_info", ..] => Ok(()),
                ["format", name, "1.0"] => {
                    encoding = Encoding::parse(name);
                    encoding.map(|_| ()).ok_or_else(|| format!("there is no format {name:?}"))
                }
                ["element", name, count] => match count.parse() {
                    Ok(_) if elements.iter().any(|element| element.name == name) => {
                        Err(format!("two elements are named {name:?}"))
                    }
                    Ok(count) => {
                        let properties = Vec::new();
                        elements.push(Element { name: name.to_owned(), count, properties });
                        Ok(())
                    }
                    Err(_) => Err(format!("{count:?} is not a number of elements")),
                },
                ["property", "list", count, scalar, name] => {
                    add(&mut elements, name, Some(count), scalar)
                }
                ["property", scalar, name] => add(&mut elements, name, None, scalar),
                ["end_header"] => break,
                _ => Err("it is no line of a header".to_owned()),
            };
            answer.map_err(|reason| lines.wrong(reason))?;
        }
        let encoding = encoding.ok_or_else(|| lines.wrong("the header names no format"))?;
        Ok(Self { encoding, elements })
    }

    /// Fails if so many bytes after the header cannot hold what it promises.
    pub fn check(&self, bytes: u64) -> Result<(), GeometryError> {
        let mut left = bytes.saturating_add(1);
        for element in &self.elements {
            let place = format!("element {}", element.name);
            if element.properties.is_empty() && element.count > 0 {
                return Err(invalid(PLY, place, "it has no properties"));
            }
            match element.least_bytes(self.encoding).and_then(|least| left.checked_sub(least)) {
                Some(rest) => left = rest,
                None => {
                    let reason = format!("the file is too short for {} of them", element.count);
                    return Err(invalid(PLY, place, reason));
                }
            }
        }
        Ok(())
    }
}

fn add(
    elements: &mut [Element],
    name: &str,
    list: Option<&str>,
    scalar: &str,
) -> Result<(), String> {
    let parse = |name: &str| Scalar::parse(name).ok_or(format!("there is no type {name:?}"));
    let list = list.map(parse).transpose()?;
    if matches!(list, Some(Scalar::Float32 | Scalar::Float64)) {
        return Err("the length of a list is no float".to_owned());
    }
    let element = elements.last_mut().ok_or("a property comes before any element")?;
    if element.properties.iter().any(|property| property.name == name) {
        return Err(format!("two properties of {} are named {name:?}", element.name));
    }
    element.properties.push(Property { name: name.to_owned(), list, scalar: parse(scalar)? });
    Ok(())
}
