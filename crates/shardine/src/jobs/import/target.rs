//! How an import begins on its target: in an empty location, over an old array, or where an earlier
//! run stopped.

use std::sync::Arc;

use serde_json::{Value, json};
use shardine_store::StoreExt;

use super::{ImportError, ImportOptions};
use crate::files::FoundFile;
use crate::jobs::convert::CONVERT;
use crate::jobs::copy::CopyError;
use crate::jobs::frame::{Beginning, Marker, Start};
use crate::owner::Owner;
use crate::plan::ArrayLayoutError;
use crate::zarr::metadata::{ArrayMetadata, MetadataError};
use crate::zarr::{CreateOptions, DOCUMENT};
use crate::{ArrayNode, Engine, Error, Location, Node};

/// The name in a marker of a source that cannot be read again.
pub(in crate::jobs) const STREAM: &str = "a stream";

/// For a file, as it was found, that becomes an array; `None` means a stream.
pub fn marker(
    found: Option<&FoundFile>,
    cast: bool,
    metadata: &ArrayMetadata,
) -> Result<Marker, ArrayLayoutError> {
    let Some(FoundFile { name, bytes, modified }) = found else {
        // Never the same twice, so that no run adopts what another one left.
        let request = json!({ "stream": Owner::fresh_id() });
        return Ok(Marker::of_named(&CONVERT, STREAM.to_owned(), request));
    };
    let document: Value = serde_json::from_slice(&metadata.to_bytes())
        .map_err(|error| Box::new(MetadataError::NotJson { reason: error.to_string() }))?;
    let request =
        json!({ "bytes": bytes, "modified": modified, "cast": cast, "document": document });
    Ok(Marker::of_named(&CONVERT, name.clone(), request))
}

/// What is at the target when an import has begun.
pub enum Begun {
    /// An array without objects.
    Fresh(ArrayNode),
    /// The array of an earlier run, or of another part: all objects are as this one would write
    /// them.
    Resumed(ArrayNode),
    /// The finished array. Only for parts.
    Exists(ArrayNode),
}

/// Marks the target, or finds it marked, and opens or creates the array.
pub fn begin(
    marker: &mut Marker,
    engine: &Arc<Engine>,
    target: &Location,
    metadata: ArrayMetadata,
    options: &ImportOptions,
) -> Result<Begun, Error> {
    let &ImportOptions { overwrite, take_over, part, .. } = options;
    if overwrite {
        check_array(marker, engine, target)?;
    }
    let how = Beginning { overwrite, take_over, part, within: false };
    let start = marker.begin(None, target, how).map_err(|error| refused(error, marker, target))?;
    if start == Start::Exists {
        let document = target.store.get(&target.key(DOCUMENT)?)?;
        return match document.is_some_and(|found| *found == *metadata.to_bytes()) {
            true => Ok(Begun::Exists(ArrayNode::open(engine, target)?)),
            false => Err(Error::Exists { at: target.to_string() }),
        };
    }
    if part.is_some() {
        // Its metadata is written when all parts have finished: until then there is no array.
        return Ok(Begun::Resumed(ArrayNode::from_metadata(engine, target, metadata)?));
    }
    if start == Start::Resumed {
        match ArrayNode::open(engine, target) {
            Ok(array) => return Ok(Begun::Resumed(array)),
            // The run was stopped between writing the marker and the metadata.
            Err(Error::NoNode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let options = CreateOptions::new().overwrite(true);
    let array = ArrayNode::create_with(engine, target, metadata, &options)?;
    if start == Start::Clear {
        marker.cleared(target)?;
    }
    Ok(Begun::Fresh(array))
}

/// Refuses to replace what is not an array. A wrong argument must not remove something else.
fn check_array(marker: &Marker, engine: &Arc<Engine>, target: &Location) -> Result<(), Error> {
    crate::jobs::recover(target)?;
    if target.store.list(target.path.as_ref())?.is_empty() {
        return Ok(());
    }
    match Node::open(engine, target) {
        Ok(Node::Group(_)) => Err(Error::GroupExists { at: target.to_string() }),
        Err(Error::NoNode { .. }) if !marker.is_at(target)? => {
            Err(ImportError::NotEmpty { at: target.to_string() }.into())
        }
        _ => Ok(()),
    }
}

/// Why the target is not available, as an import error.
pub(in crate::jobs) fn refused(error: Error, marker: &Marker, target: &Location) -> Error {
    let at = target.to_string();
    match error {
        Error::Copy(CopyError::OtherCopy { from: name, command, .. }) => match name.as_str() {
            STREAM => ImportError::LeftByStream { at },
            _ if name == marker.source() => ImportError::OtherOptions { at, name, command },
            _ => ImportError::OtherFile { at, name, command },
        }
        .into(),
        Error::Copy(CopyError::Marker { .. }) => ImportError::DamagedMarker { at }.into(),
        Error::Copy(CopyError::JustBegun { .. }) => ImportError::Begun { at }.into(),
        error => error,
    }
}
