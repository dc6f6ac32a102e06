//! The `zarrs` crate behind the small command line that the differential tests speak.
//!
//! ```text
//! zarrs-peer create DIR --metadata FILE
//! zarrs-peer write DIR [--region 0:4,2:7] FILE
//! zarrs-peer read DIR [--region 0:4,2:7] -o FILE
//! ```
//!
//! A region is `start:stop` for every axis; without one it is the whole array. Files hold raw
//! elements: C order, little-endian, one byte for types below a byte; strings are UTF-8 joined by
//! NUL; variable-length bytes are a `u32` length and the bytes, per element.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use zarrs::array::{Array, ArrayBytes, ArrayBytesOffsets, ArrayMetadataOptions, ArraySubset};
use zarrs::filesystem::FilesystemStore;
use zarrs::metadata::{ArrayMetadata, DataTypeSize};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type StoredArray = Array<FilesystemStore>;

/// How variable-length elements are laid out in a raw file.
enum Variable {
    /// UTF-8, joined by NUL.
    Text,
    /// A little-endian `u32` length before each element.
    Counted,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zarrs-peer: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["create", root, "--metadata", file] => create(root, file),
        ["write", root, "--region", region, file] => write(root, Some(region), file),
        ["write", root, file] => write(root, None, file),
        ["read", root, "--region", region, "-o", file] => read(root, Some(region), file),
        ["read", root, "-o", file] => read(root, None, file),
        _ => Err(format!("unknown command: {}", words.join(" ")).into()),
    }
}

/// Parses the metadata and stores it as zarrs itself writes it.
fn create(root: &str, file: &str) -> Result<()> {
    std::fs::create_dir_all(root)?;
    let metadata: ArrayMetadata = serde_json::from_slice(&std::fs::read(file)?)?;
    let array = Array::new_with_metadata(store(root)?, "/", metadata)?;
    let options = ArrayMetadataOptions::default().with_include_zarrs_metadata(false);
    array.store_metadata_opt(&options)?;
    Ok(())
}

fn write(root: &str, region: Option<&str>, file: &str) -> Result<()> {
    let array = open(root)?;
    let subset = subset(&array, region)?;
    let raw = std::fs::read(file)?;
    let elements = match layout(&array)? {
        None => ArrayBytes::new_flen(raw),
        Some(layout) => parse_variable(&raw, &layout, usize::try_from(subset.num_elements())?)?,
    };
    array.store_array_subset(&subset, elements)?;
    Ok(())
}

fn read(root: &str, region: Option<&str>, file: &str) -> Result<()> {
    let array = open(root)?;
    let subset = subset(&array, region)?;
    let elements: ArrayBytes = array.retrieve_array_subset(&subset)?;
    let raw = match layout(&array)? {
        None => elements.into_fixed()?.into_owned(),
        Some(layout) => {
            let (bytes, offsets) = elements.into_variable()?.into_parts();
            format_variable(&bytes, &offsets, &layout)?
        }
    };
    std::fs::write(file, raw)?;
    Ok(())
}

fn store(root: &str) -> Result<Arc<FilesystemStore>> {
    Ok(Arc::new(FilesystemStore::new(Path::new(root))?))
}

fn open(root: &str) -> Result<StoredArray> {
    Ok(Array::open(store(root)?, "/")?)
}

/// The layout of the raw file if elements differ in length, or `None` if they all have one size.
fn layout(array: &StoredArray) -> Result<Option<Variable>> {
    match array.data_type().size() {
        DataTypeSize::Fixed(_) => Ok(None),
        DataTypeSize::Variable => {
            let is_text = array.data_type().is::<zarrs::array::data_type::StringDataType>();
            Ok(Some(if is_text { Variable::Text } else { Variable::Counted }))
        }
    }
}

fn subset(array: &StoredArray, region: Option<&str>) -> Result<ArraySubset> {
    let Some(region) = region else { return Ok(array.subset_all()) };
    let ranges = region.split(',').map(parse_range).collect::<Result<Vec<_>>>()?;
    Ok(ArraySubset::new_with_ranges(&ranges))
}

fn parse_range(item: &str) -> Result<Range<u64>> {
    let (start, stop) = item
        .split_once(':')
        .ok_or_else(|| format!("not a range of the form start:stop: {item}"))?;
    Ok(start.parse()?..stop.parse()?)
}

fn parse_variable(raw: &[u8], layout: &Variable, count: usize) -> Result<ArrayBytes<'static>> {
    let mut offsets = vec![0];
    let mut bytes = Vec::with_capacity(raw.len());
    match layout {
        Variable::Text => {
            for element in raw.split(|byte| *byte == 0) {
                bytes.extend_from_slice(element);
                offsets.push(bytes.len());
            }
        }
        Variable::Counted => {
            let mut rest = raw;
            while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_le_bytes(*length))?;
                let element = tail.get(..length).ok_or("an element is cut short")?;
                bytes.extend_from_slice(element);
                offsets.push(bytes.len());
                rest = &tail[length..];
            }
        }
    }
    if offsets.len() != count + 1 {
        return Err(format!("{} elements in a region of {count}", offsets.len() - 1).into());
    }
    Ok(ArrayBytes::new_vlen(bytes, ArrayBytesOffsets::new(offsets)?)?)
}

fn format_variable(bytes: &[u8], offsets: &[usize], layout: &Variable) -> Result<Vec<u8>> {
    let mut raw = Vec::with_capacity(bytes.len());
    for (position, pair) in offsets.windows(2).enumerate() {
        let element = &bytes[pair[0]..pair[1]];
        match layout {
            Variable::Text if position > 0 => raw.push(0),
            Variable::Text => {}
            Variable::Counted => {
                raw.extend_from_slice(&u32::try_from(element.len())?.to_le_bytes());
            }
        }
        raw.extend_from_slice(element);
    }
    Ok(raw)
}
