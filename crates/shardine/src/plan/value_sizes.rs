//! What the values of shards take as they are, and compressed with gzip.

use serde_json::json;
use shardine_codec::{Codec, CodecSpec, from_spec};
use shardine_store::{StoreError, StoreExt};

use super::sample::thinned;
use crate::engine::tuning::GZIP_LEVEL;
use crate::shard::uint64::Encoding;
use crate::{Array, Error};

/// Chunks that are read, at most.
const READ: usize = 16;

/// A longer one is passed over.
const LONGEST: u64 = 64 << 20;

/// What some chunks of a volume take, as they are and compressed with gzip on top of their own
/// encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ValueSizes {
    /// How many were measured.
    pub count: u64,
    /// Their bytes as they are.
    pub raw: u64,
    /// Their bytes after gzip.
    pub gzip: u64,
}

impl ValueSizes {
    /// How they are best stored: with gzip if that saves a tenth, which is worth what it costs a
    /// reader.
    pub fn encoding(&self) -> Encoding {
        let pays = u128::from(self.gzip) * 10 <= u128::from(self.raw) * 9;
        if pays && self.raw > 0 { Encoding::Gzip } else { Encoding::Raw }
    }
}

/// Measures chunks of a scale without shards that lie far apart; `None` if there are none, or the
/// store cannot list.
///
/// A listing, and a read for each of at most 16 chunks. The same volume gives the same sizes.
pub(crate) fn measure_values(array: &Array) -> Result<Option<ValueSizes>, Error> {
    let objects = match array.objects() {
        Ok(objects) => objects,
        Err(Error::UnlistedObjects { .. } | Error::Store(StoreError::Unsupported { .. })) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let short = objects.into_iter().filter(|object| object.len <= LONGEST).collect();
    let mut sizes = ValueSizes::default();
    for object in thinned(short, READ) {
        let key = array.chunks.packing.key(&object.cell)?;
        let Some(bytes) = array.chunks.store.get(&key)? else { continue };
        sizes.count += 1;
        sizes.raw += bytes.len() as u64;
        sizes.gzip += gzipped(array, &bytes)?;
    }
    Ok(Some(sizes).filter(|sizes| sizes.count > 0))
}

/// The length after gzip.
fn gzipped(array: &Array, bytes: &[u8]) -> Result<u64, Error> {
    let serde_json::Value::Object(configuration) = json!({ "level": GZIP_LEVEL }) else {
        return Ok(bytes.len() as u64);
    };
    let spec = CodecSpec { name: "gzip".into(), configuration, must_understand: true };
    let Ok(Codec::BytesToBytes(gzip)) = from_spec(&spec) else { return Ok(bytes.len() as u64) };
    let mut out = Vec::new();
    let encoded = array.engine().with_context(|context| gzip.encode(context, bytes, &mut out));
    // What cannot be compressed takes what it takes.
    Ok(encoded.map_or(bytes.len(), |()| out.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_has_to_save_a_tenth() {
        let sizes = |raw, gzip| ValueSizes { count: 1, raw, gzip }.encoding();
        assert_eq!(sizes(1000, 400), Encoding::Gzip);
        assert_eq!(sizes(1000, 900), Encoding::Gzip);
        assert_eq!(sizes(1000, 901), Encoding::Raw);
        assert_eq!(sizes(1000, 1100), Encoding::Raw);
        assert_eq!(sizes(u64::MAX, u64::MAX), Encoding::Raw);
        assert_eq!(sizes(0, 0), Encoding::Raw);
    }
}
