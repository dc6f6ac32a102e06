use std::sync::Arc;

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{Sides, fixed, image};
use crate::codecs::config::Config;
use crate::codecs::output;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize,
};

const NAME: &str = "neuroglancer_jpeg";

/// The longest side that the format supports.
const LONGEST: u32 = 65535;

/// The default quality in other implementations.
const QUALITY: i64 = 75;

pub(in crate::codecs) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["quality"])?;
    let quality = config.integer("quality", 0..=100)?.unwrap_or(QUALITY);
    Ok(Codec::ArrayToBytes(Arc::new(Jpeg { quality: quality.max(1) as u8 })))
}

/// One lossy image, gray or with three channels.
#[derive(Debug)]
struct Jpeg {
    /// From 1 to 100.
    quality: u8,
}

fn sides(spec: &ArraySpec) -> Result<Sides, CodecError> {
    let sides = Sides::new(NAME, spec, &[8])?;
    image::check_channels(NAME, sides, &[1, 3])?;
    Ok(sides)
}

fn decode(sides: Sides, encoded: &[u8], context: &mut Context) -> Result<Vec<u8>, CodecError> {
    let corrupt = |reason: String| CodecError::corrupt(NAME, encoded.len(), reason);
    let color = if sides.channels == 1 { ColorSpace::Luma } else { ColorSpace::RGB };
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(color)
        // Otherwise missing data at the end would be gray instead of an error.
        .set_strict_mode(true)
        .set_max_width(LONGEST as usize)
        .set_max_height(LONGEST as usize);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(encoded), options);
    decoder.decode_headers().map_err(|error| corrupt(error.to_string()))?;
    let info = decoder.info().ok_or_else(|| corrupt("no header".into()))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    image::check(sides, width, height, usize::from(info.components)).map_err(corrupt)?;
    let len = image::pixels(sides) * sides.channels;
    let mut pixels = context.take_filled(len)?;
    decoder.decode_into(&mut pixels).map_err(|error| corrupt(error.to_string()))?;
    if sides.channels == 1 {
        return Ok(pixels);
    }
    let mut elements = context.take_filled(len)?;
    image::deinterleave::<1>(sides.channels, &pixels, &mut elements);
    context.give_buffer(pixels);
    Ok(elements)
}

impl ArrayToBytes for Jpeg {
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
        let (width, height) = image::size(NAME, sides, LONGEST)?;
        let start = out.len();
        output::reserve(NAME, out, elements.len() / 4)?;
        let mut encoder = Encoder::new(&mut *out, self.quality);
        // Channels need not be colours, and neighbouring rows of the image need not be neighbours
        // in the chunk.
        encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
        let (width, height) = (width as u16, height as u16);
        let result = if sides.channels == 1 {
            encoder.encode(elements, width, height, ColorType::Luma)
        } else {
            let mut pixels = context.take_filled(elements.len())?;
            image::interleave::<1>(sides.channels, elements, &mut pixels);
            let result = encoder.encode(&pixels, width, height, ColorType::Rgb);
            context.give_buffer(pixels);
            result
        };
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
        decode(sides(spec)?, encoded, context).map(Elements::Fixed)
    }

    fn encoded_size(&self, _spec: &ArraySpec) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
