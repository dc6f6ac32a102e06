//! `compresso`: where labels change, and the label of each region in between.
//!
//! ```text
//! 36 bytes   header
//! ids        the label of each region, in the order of their first elements
//! values     distinct windows: bits of a small box, set where an element is on a boundary
//! locations  labels of boundary elements that cannot be derived from their neighbours
//! windows    which value each window has; odd numbers are runs of the first one
//! offsets    of each slice, in version 1 (not needed to read all slices)
//! ```

mod regions;

use std::sync::Arc;

use super::Sides;
use crate::codecs::config::Config;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize,
};

const NAME: &str = "neuroglancer_compresso";

const HEADER: usize = 36;

pub(in crate::codecs) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::ArrayToBytes(Arc::new(Compresso)))
}

/// Labels by their boundaries; decode only.
#[derive(Debug)]
struct Compresso;

fn sides(spec: &ArraySpec) -> Result<Sides, CodecError> {
    let sides = Sides::new(NAME, spec, &[8, 16, 32, 64])?;
    if sides.channels != 1 {
        let reason = format!("{} channels, but only 1 is allowed", sides.channels);
        return Err(CodecError::unsupported(NAME, reason));
    }
    Ok(sides)
}

/// Numbers of one width, one after another.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl Numbers<'_> {
    fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    fn get(&self, i: usize) -> Option<u64> {
        let start = i.checked_mul(self.width)?;
        let bytes = self.bytes.get(start..start.checked_add(self.width)?)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

/// The parts of a chunk, split as its header says.
struct Parts<'a> {
    ids: Numbers<'a>,
    values: Numbers<'a>,
    locations: Numbers<'a>,
    windows: Numbers<'a>,
    /// The sides of a window: x, y, z.
    step: [usize; 3],
    /// Whether regions extend across slices.
    is_solid: bool,
}

impl<'a> Parts<'a> {
    fn new(sides: Sides, label: usize, encoded: &'a [u8]) -> Result<Self, String> {
        let (header, rest) = (encoded.split_at_checked(HEADER))
            .ok_or_else(|| format!("the header alone has {HEADER} bytes"))?;
        if !header.starts_with(b"cpso") {
            return Err("it does not begin with \"cpso\"".into());
        }
        let number = |at, width| Numbers { bytes: &header[at..at + width], width }.get(0);
        let number = |at: usize, width: usize| number(at, width).unwrap_or_default();
        let version = number(4, 1);
        if version > 1 {
            return Err(format!("format version {version}"));
        }
        let width = number(5, 1);
        if width != label as u64 {
            return Err(format!("labels of {width} bytes, {label} expected"));
        }
        let size = [number(6, 2), number(8, 2), number(10, 2)];
        let expected = [sides.x, sides.y, sides.z];
        if size != expected.map(|side| side as u64) {
            return Err(format!("a volume of {size:?}, {expected:?} expected"));
        }
        let step = [12, 13, 14].map(|at| number(at, 1) as usize);
        let window = match step.iter().product() {
            1..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            _ => return Err(format!("windows of {step:?}")),
        };
        let is_solid = match number(35, 1) {
            4 => false,
            6 => true,
            other => return Err(format!("connectivity {other}")),
        };
        let mut rest = rest;
        let mut cut = |part: &str, count: u64, width: usize| {
            let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
            let (bytes, tail) = (len.and_then(|len| rest.split_at_checked(len)))
                .ok_or_else(|| format!("{count} {part} are more than there are bytes for"))?;
            rest = tail;
            Ok::<_, String>(Numbers { bytes, width })
        };
        let ids = cut("labels of regions", number(15, 8), label)?;
        let values = cut("values of windows", number(23, 4), window)?;
        let locations = cut("labels on boundaries", number(27, 8), label)?;
        let offsets = if version == 1 { 2 * sides.z * offset_width(sides) } else { 0 };
        let len = rest.len().checked_sub(offsets).ok_or("the offsets of slices are cut short")?;
        let windows = Numbers { bytes: &rest[..len], width: window };
        Ok(Self { ids, values, locations, windows, step, is_solid })
    }
}

/// Bytes of a slice's offset: as few as suffice for two labels per element.
fn offset_width(sides: Sides) -> usize {
    match 2 * sides.x * sides.y {
        0..=0xfe => 1,
        0xff..=0xfffe => 2,
        0xffff..=0xffff_fffe => 4,
        _ => 8,
    }
}

/// This many zeros, if there is enough memory.
fn zeros<T: Clone + Default>(count: usize) -> Result<Vec<T>, CodecError> {
    let mut zeros = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    zeros.try_reserve_exact(count).map_err(|_| CodecError::OutOfMemory { codec: NAME, bytes })?;
    zeros.resize(count, T::default());
    Ok(zeros)
}

/// Whether each element is on a boundary.
fn boundaries(
    sides: Sides,
    parts: &Parts<'_>,
    mut boundaries: Vec<bool>,
) -> Result<Vec<bool>, String> {
    let [x, y, z] = parts.step;
    let (columns, rows) = (sides.x.div_ceil(x), sides.y.div_ceil(y));
    let count = columns * rows * sides.z.div_ceil(z);
    if parts.values.len() == 0 {
        return Ok(boundaries);
    }
    let mut mark = |window: usize, value: u64| {
        let (column, row, layer) =
            (window % columns, window / columns % rows, window / columns / rows);
        let mut left = value;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            let at = [column * x + bit % x, row * y + bit / x % y, layer * z + bit / x / y];
            // Windows at the edges extend beyond the volume.
            if at[0] < sides.x && at[1] < sides.y && at[2] < sides.z {
                boundaries[(at[2] * sides.y + at[1]) * sides.x + at[0]] = true;
            }
        }
    };
    let first = parts.values.get(0).unwrap_or_default();
    let mut window = 0usize;
    for i in 0..parts.windows.len() {
        let number = parts.windows.get(i).unwrap_or_default();
        let run = if number & 1 == 1 { number >> 1 } else { 1 };
        let run = usize::try_from(run).ok().filter(|&run| run <= count - window);
        let run = run.ok_or_else(|| format!("more than {count} windows"))?;
        let value =
            if number & 1 == 1 { Some(first) } else { parts.values.get((number >> 1) as usize) };
        let value = value.ok_or_else(|| format!("window {window} has no value"))?;
        if value != 0 {
            (window..window + run).for_each(|window| mark(window, value));
        }
        window += run;
    }
    // Windows left out at the end count as a run.
    if first != 0 {
        (window..count).for_each(|window| mark(window, first));
    }
    Ok(boundaries)
}

/// Decodes all labels, of `SIZE` bytes each.
fn decode<const SIZE: usize>(
    context: &mut Context,
    sides: Sides,
    encoded: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let corrupt = |reason| CodecError::corrupt(NAME, encoded.len(), reason);
    let parts = Parts::new(sides, SIZE, encoded).map_err(corrupt)?;
    let elements = sides.x * sides.y * sides.z;
    let boundaries = boundaries(sides, &parts, zeros(elements)?).map_err(corrupt)?;
    let regions = regions::number(sides, &boundaries, parts.is_solid, zeros(elements)?);
    let regions = regions.map_err(corrupt)?;
    let mut out = context.take_filled(elements * SIZE)?;
    let labels = out.as_chunks_mut::<SIZE>().0;
    let ids = parts.ids.bytes.as_chunks::<SIZE>().0;
    for (label, &region) in labels.iter_mut().zip(&regions) {
        *label = match (region as usize).checked_sub(1) {
            None => [0; SIZE],
            Some(id) => {
                *(ids.get(id)).ok_or_else(|| corrupt(format!("region {region} has no label")))?
            }
        };
    }
    fill_boundaries(sides, &parts, &boundaries, labels).map_err(corrupt)?;
    Ok(out)
}

/// The bytes of a label that was read from `SIZE` bytes.
fn label_bytes<const SIZE: usize>(label: u64) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes.iter_mut().zip(label.to_le_bytes()).for_each(|(to, byte)| *to = byte);
    bytes
}

/// Gives the elements on boundaries their labels: that of the preceding neighbour if it is not on a
/// boundary itself, otherwise what the next location says.
fn fill_boundaries<const SIZE: usize>(
    sides: Sides,
    parts: &Parts<'_>,
    boundaries: &[bool],
    labels: &mut [[u8; SIZE]],
) -> Result<(), String> {
    let (row, slice) = (sides.x, sides.x * sides.y);
    let mut locations = 0..parts.locations.len();
    let mut at = 0;
    for z in 0..sides.z {
        for y in 0..sides.y {
            for x in 0..sides.x {
                let i = at;
                at += 1;
                if !boundaries[i] {
                    continue;
                }
                if x > 0 && !boundaries[i - 1] {
                    labels[i] = labels[i - 1];
                    continue;
                }
                if y > 0 && !boundaries[i - row] {
                    labels[i] = labels[i - row];
                    continue;
                }
                if parts.is_solid && z > 0 && !boundaries[i - slice] {
                    labels[i] = labels[i - slice];
                    continue;
                }
                let mut next = || locations.next().and_then(|i| parts.locations.get(i));
                let missing = || format!("element {i} has no label");
                let from = match next().ok_or_else(missing)? {
                    0 => (x > 0).then(|| i - 1),
                    1 => (x + 1 < sides.x).then(|| i + 1),
                    2 => (y > 0).then(|| i - row),
                    3 => (y + 1 < sides.y).then(|| i + row),
                    4 => (z > 0).then(|| i - slice),
                    5 => (z + 1 < sides.z).then(|| i + slice),
                    6 => {
                        labels[i] = label_bytes(next().ok_or_else(missing)?);
                        continue;
                    }
                    label => {
                        labels[i] = label_bytes(label - 7);
                        continue;
                    }
                };
                let from = from.ok_or_else(|| format!("element {i} has no such neighbour"))?;
                labels[i] = labels[from];
            }
        }
    }
    Ok(())
}

impl ArrayToBytes for Compresso {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        sides(spec).map(drop)
    }

    fn encode(
        &self,
        _context: &mut Context,
        _spec: &ArraySpec,
        _elements: ElementsRef<'_>,
        _out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let reason = "compresso can be read, but not written".into();
        Err(CodecError::Encode { codec: NAME, reason })
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let sides = sides(spec)?;
        let elements = match spec.data_type.bits() {
            8 => decode::<1>(context, sides, encoded),
            16 => decode::<2>(context, sides, encoded),
            32 => decode::<4>(context, sides, encoded),
            _ => decode::<8>(context, sides, encoded),
        };
        elements.map(Elements::Fixed)
    }

    fn encoded_size(&self, _spec: &ArraySpec) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
