//! Chunks as images: the elements of a channel in rows of any width, with the channels of a pixel
//! together.

use super::Sides;
use crate::CodecError;

/// Elements of one channel, which are the pixels of the image.
pub(super) fn pixels(sides: Sides) -> usize {
    sides.z * sides.y * sides.x
}

/// The image that a chunk is written as: rows of x, one below another.
pub(super) fn size(codec: &'static str, sides: Sides, most: u32) -> Result<(u32, u32), CodecError> {
    let side = |n: usize| u32::try_from(n).ok().filter(|n| (1..=most).contains(n));
    let rows = sides.y * sides.z;
    side(sides.x).zip(side(rows)).ok_or_else(|| {
        let width = sides.x;
        let reason = format!(
            "a chunk of {width} by {} by {} is an image of {width} by {rows}, but each side must \
             be from 1 to {most}",
            sides.y, sides.z
        );
        CodecError::Encode { codec, reason }
    })
}

/// Why an image of this size with these channels does not match the chunk; checked before anything
/// is decoded.
pub(super) fn check(
    sides: Sides,
    width: usize,
    height: usize,
    channels: usize,
) -> Result<(), String> {
    let (pixels, expected) = (width.checked_mul(height), pixels(sides));
    if pixels != Some(expected) {
        return Err(format!("an image of {width} by {height}, {expected} pixels expected"));
    }
    if channels != sides.channels {
        return Err(format!("{channels} channels, {} expected", sides.channels));
    }
    Ok(())
}

/// An error unless the number of channels is one of these.
pub(super) fn check_channels(
    codec: &'static str,
    sides: Sides,
    allowed: &[usize],
) -> Result<(), CodecError> {
    if allowed.contains(&sides.channels) {
        return Ok(());
    }
    let reason = format!("{} channels, but only {allowed:?} are allowed", sides.channels);
    Err(CodecError::unsupported(codec, reason))
}

/// Interleaves the channels of each pixel; elements have `SIZE` bytes.
pub(super) fn interleave<const SIZE: usize>(channels: usize, planes: &[u8], out: &mut [u8]) {
    let (planes, out) = (planes.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    let pixels = planes.len().checked_div(channels).unwrap_or_default().max(1);
    for (c, plane) in planes.chunks_exact(pixels).enumerate() {
        for (out, element) in out.iter_mut().skip(c).step_by(channels).zip(plane) {
            *out = *element;
        }
    }
}

/// Undoes [`interleave`].
pub(super) fn deinterleave<const SIZE: usize>(channels: usize, image: &[u8], out: &mut [u8]) {
    let (image, out) = (image.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    let pixels = out.len().checked_div(channels).unwrap_or_default().max(1);
    for (c, plane) in out.chunks_exact_mut(pixels).enumerate() {
        for (out, element) in plane.iter_mut().zip(image.iter().skip(c).step_by(channels)) {
            *out = *element;
        }
    }
}
