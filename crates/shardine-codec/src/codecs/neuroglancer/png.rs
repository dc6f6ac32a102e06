use std::io::Cursor;
use std::sync::Arc;

use png::{BitDepth, ColorType, Decoder, DeflateCompression, Encoder, Limits, Transformations};

use super::{Sides, fixed, image};
use crate::codecs::config::Config;
use crate::codecs::output;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize,
};

const NAME: &str = "neuroglancer_png";

/// The longest side that the format supports.
const LONGEST: u32 = i32::MAX as u32;

/// What a decoder may use in addition to the pixels, whatever the file says.
const BESIDE: usize = 1 << 20;

pub(in crate::codecs) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = config.integer("level", 0..=9)?.map(|level| level as u8);
    Ok(Codec::ArrayToBytes(Arc::new(Png { level })))
}

/// One lossless image with one to four channels.
#[derive(Debug)]
struct Png {
    /// The effort, from 0 for none to 9.
    level: Option<u8>,
}

fn sides(spec: &ArraySpec) -> Result<Sides, CodecError> {
    let sides = Sides::new(NAME, spec, &[8, 16])?;
    image::check_channels(NAME, sides, &[1, 2, 3, 4])?;
    Ok(sides)
}

fn is_deep(spec: &ArraySpec) -> bool {
    spec.data_type.bits() == 16
}

/// Reverses the bytes of each element: files are big-endian.
fn swap(elements: &mut [u8]) {
    elements.as_chunks_mut::<2>().0.iter_mut().for_each(|element| element.reverse());
}

impl Png {
    fn write(
        &self,
        (width, height): (u32, u32),
        color: ColorType,
        depth: BitDepth,
        pixels: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), png::EncodingError> {
        let mut encoder = Encoder::new(out, width, height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        match self.level {
            None => {}
            Some(0) => encoder.set_deflate_compression(DeflateCompression::NoCompression),
            Some(level) => encoder.set_deflate_compression(DeflateCompression::Level(level)),
        }
        let mut writer = encoder.write_header()?;
        writer.write_image_data(pixels)?;
        writer.finish()
    }
}

/// Reads the pixels as they are in the file.
fn read(
    context: &mut Context,
    sides: Sides,
    depth: BitDepth,
    encoded: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let corrupt = |reason: String| CodecError::corrupt(NAME, encoded.len(), reason);
    let failed = |error: png::DecodingError| corrupt(error.to_string());
    let len =
        image::pixels(sides) * sides.channels * if depth == BitDepth::Sixteen { 2 } else { 1 };
    let limits = Limits { bytes: len.saturating_add(BESIDE) };
    let mut decoder = Decoder::new_with_limits(Cursor::new(encoded), limits);
    // Expands palettes and pixels of fewer than 8 bits.
    decoder.set_transformations(Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.ignore_checksums(false);
    let info = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (info.width as usize, info.height as usize);
    // The number of channels is known later: a palette may have alpha.
    image::check(sides, width, height, sides.channels).map_err(corrupt)?;
    let mut reader = decoder.read_info().map_err(failed)?;
    let (color, found) = reader.output_color_type();
    image::check(sides, width, height, color.samples()).map_err(corrupt)?;
    if found != depth {
        let bits = found as u8;
        return Err(corrupt(format!("{bits} bits for each value, {} expected", depth as u8)));
    }
    let mut pixels = context.take_filled(len)?;
    reader.next_frame(&mut pixels).map_err(failed)?;
    // The last checksums come after the last pixel.
    reader.finish().map_err(failed)?;
    Ok(pixels)
}

impl ArrayToBytes for Png {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        sides(spec).map(drop)
    }

    fn encode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let sides = sides(spec)?;
        let elements = fixed(NAME, spec, elements)?;
        let size = image::size(NAME, sides, LONGEST)?;
        let color = match sides.channels {
            1 => ColorType::Grayscale,
            2 => ColorType::GrayscaleAlpha,
            3 => ColorType::Rgb,
            _ => ColorType::Rgba,
        };
        let start = out.len();
        output::reserve(NAME, out, elements.len() / 2)?;
        let mut pixels = context.take_filled(elements.len())?;
        let depth = if is_deep(spec) {
            image::interleave::<2>(sides.channels, elements, &mut pixels);
            swap(&mut pixels);
            BitDepth::Sixteen
        } else {
            image::interleave::<1>(sides.channels, elements, &mut pixels);
            BitDepth::Eight
        };
        let result = self.write(size, color, depth, &pixels, out);
        context.give_buffer(pixels);
        result.map_err(|error| {
            out.truncate(start);
            CodecError::Encode { codec: NAME, reason: error.to_string() }
        })
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let sides = sides(spec)?;
        let depth = if is_deep(spec) { BitDepth::Sixteen } else { BitDepth::Eight };
        let mut pixels = read(context, sides, depth, encoded)?;
        if is_deep(spec) {
            swap(&mut pixels);
        }
        if sides.channels == 1 {
            return Ok(Elements::Fixed(pixels));
        }
        let mut elements = context.take_filled(pixels.len())?;
        if is_deep(spec) {
            image::deinterleave::<2>(sides.channels, &pixels, &mut elements);
        } else {
            image::deinterleave::<1>(sides.channels, &pixels, &mut elements);
        }
        context.give_buffer(pixels);
        Ok(Elements::Fixed(elements))
    }

    fn encoded_size(&self, _spec: &ArraySpec) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
