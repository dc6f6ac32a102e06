use std::sync::Arc;

use super::{Sides, image};
use crate::codecs::config::Config;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize,
};

const NAME: &str = "neuroglancer_jxl";

pub(in crate::codecs) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::ArrayToBytes(Arc::new(Jxl)))
}

/// One JPEG XL image, gray or with three channels; decode only.
#[derive(Debug)]
struct Jxl;

fn sides(spec: &ArraySpec) -> Result<Sides, CodecError> {
    let sides = Sides::new(NAME, spec, &[8])?;
    image::check_channels(NAME, sides, &[1, 3])?;
    Ok(sides)
}

#[cfg(feature = "jxl")]
mod reader {
    use jxl_oxide::{AllocTracker, JxlImage};

    use super::{NAME, Sides, image};
    use crate::{CodecError, Context};

    /// What a decoder may use in addition to the pixels, and per byte of pixels: it computes in
    /// floats.
    const BESIDE: usize = 16 << 20;
    const FOR_EACH: usize = 64;

    pub(super) fn decode(
        context: &mut Context,
        sides: Sides,
        encoded: &[u8],
    ) -> Result<Vec<u8>, CodecError> {
        let corrupt = |reason: String| CodecError::corrupt(NAME, encoded.len(), reason);
        let len = image::pixels(sides) * sides.channels;
        let most = len.saturating_mul(FOR_EACH).saturating_add(BESIDE);
        let image = JxlImage::builder()
            .alloc_tracker(AllocTracker::with_limit(most))
            .read(encoded)
            .map_err(|error| corrupt(error.to_string()))?;
        let (width, height) = (image.width() as usize, image.height() as usize);
        let channels = image.pixel_format().channels();
        image::check(sides, width, height, channels).map_err(corrupt)?;
        let bits = image.image_header().metadata.bit_depth.bits_per_sample();
        if bits != 8 {
            return Err(corrupt(format!("{bits} bits for each value, 8 expected")));
        }
        let render = image.render_frame(0).map_err(|error| corrupt(error.to_string()))?;
        let mut stream = render.stream();
        let found = [stream.width(), stream.height(), stream.channels()].map(|n| n as usize);
        image::check(sides, found[0], found[1], found[2]).map_err(corrupt)?;
        let mut pixels = context.take_filled(len)?;
        let written = stream.write_to_buffer(&mut pixels);
        if written != len {
            return Err(corrupt(format!("{written} values, {len} expected")));
        }
        let mut elements = context.take_filled(len)?;
        image::deinterleave::<1>(sides.channels, &pixels, &mut elements);
        context.give_buffer(pixels);
        Ok(elements)
    }
}

#[cfg(not(feature = "jxl"))]
mod reader {
    use super::{NAME, Sides, image};
    use crate::{CodecError, Context};

    pub(super) fn decode(
        _context: &mut Context,
        sides: Sides,
        _encoded: &[u8],
    ) -> Result<Vec<u8>, CodecError> {
        let pixels = image::pixels(sides);
        let reason = format!("{pixels} pixels of JPEG XL, which only a build with \"jxl\" reads");
        Err(CodecError::unsupported(NAME, reason))
    }
}

impl ArrayToBytes for Jxl {
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
        let reason = "JPEG XL can be read, but not written".into();
        Err(CodecError::Encode { codec: NAME, reason })
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        reader::decode(context, sides(spec)?, encoded).map(Elements::Fixed)
    }

    fn encoded_size(&self, _spec: &ArraySpec) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
