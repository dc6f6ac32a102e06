use std::sync::Arc;

use shardine_codec::{BytesToBytes, Codec, CodecSpec, from_spec};
use shardine_store::StoreError;

/// The codec that compresses values, at this level.
pub fn gzip(level: u8) -> Result<Arc<dyn BytesToBytes>, StoreError> {
    let configuration = [("level".to_owned(), level.into())].into_iter().collect();
    let spec = CodecSpec { name: "gzip".into(), configuration, must_understand: true };
    match from_spec(&spec) {
        Ok(Codec::BytesToBytes(codec)) => Ok(codec),
        _ => Err(StoreError::Unsupported { store: "gzip".into(), operation: "be used" }),
    }
}
