//! Little-endian numbers out of bytes.

use super::error::{PayloadError, PayloadResult};

/// The first `len` bytes and the rest.
pub(super) fn take<'a>(
    bytes: &mut &'a [u8],
    len: u64,
    what: &'static str,
) -> PayloadResult<&'a [u8]> {
    let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
    let Some((head, rest)) = split else {
        return Err(PayloadError::Truncated { what, needs: len, actual: bytes.len() as u64 });
    };
    *bytes = rest;
    Ok(head)
}

/// The first `N` bytes.
pub(super) fn take_array<const N: usize>(
    bytes: &mut &[u8],
    what: &'static str,
) -> PayloadResult<[u8; N]> {
    let Some((head, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(PayloadError::Truncated { what, needs: N as u64, actual: bytes.len() as u64 });
    };
    *bytes = rest;
    Ok(*head)
}

pub(super) fn take_u32(bytes: &mut &[u8], what: &'static str) -> PayloadResult<u32> {
    take_array(bytes, what).map(u32::from_le_bytes)
}

pub(super) fn take_i64(bytes: &mut &[u8], what: &'static str) -> PayloadResult<i64> {
    take_array(bytes, what).map(i64::from_le_bytes)
}

/// The numbers of 64 bits that `bytes` consist of; a rest of fewer bytes is left out.
pub(super) fn i64s(bytes: &[u8]) -> impl ExactSizeIterator<Item = i64> + Clone + '_ {
    bytes.as_chunks::<8>().0.iter().map(|chunk| i64::from_le_bytes(*chunk))
}

/// The numbers of 32 bits that `bytes` consist of; a rest of fewer bytes is left out.
pub(super) fn u32s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
    bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk))
}

/// `value` as a number of rows or a position among them.
pub(super) fn natural(value: i64, what: impl FnOnce() -> String) -> PayloadResult<u64> {
    u64::try_from(value).map_err(|_| PayloadError::Number {
        what: what(),
        value,
        rule: "which must not be negative",
    })
}
