use std::io;

use crate::{Key, UnlistedKind};

/// Why a storage operation failed.
///
/// The variant identifies the culprit: [`NotFound`](Self::NotFound),
/// [`OutOfRange`](Self::OutOfRange) and [`Key`](Self::Key) are wrong requests, [`Io`](Self::Io) is
/// a failure of the storage, [`Changed`](Self::Changed) and [`Conflict`](Self::Conflict) are lost
/// races.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such object.
    #[error("no object \"{key}\" in {store}")]
    NotFound {
        /// The requested key.
        key: Key,
        /// The store.
        store: String,
    },
    /// The range reaches past the end of the object.
    #[error("bytes {start}..{end} of \"{key}\" were requested, but it has {len}")]
    OutOfRange {
        /// The requested key.
        key: Key,
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// The object's length.
        len: u64,
    },
    /// The object is too large to be read whole.
    #[error("\"{key}\" has {len} bytes, more than the limit of {limit} for such an object")]
    TooLarge {
        /// The object.
        key: Key,
        /// Its length.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A folder to be walked is reached through a link.
    #[error("\"{folder}\" is a link to a folder, or is below one, and is not followed")]
    LinkedFolder {
        /// The folder.
        folder: Key,
    },
    /// Something that is neither an object nor a folder is where one is needed.
    #[error("\"{name}\" is {} and is left out", kind.reason())]
    Unlisted {
        /// Its path below the root.
        name: String,
        /// What it is.
        kind: UnlistedKind,
    },
    /// The object changed while it was being read.
    #[error("\"{key}\" changed while it was being read")]
    Changed {
        /// The object.
        key: Key,
    },
    /// The condition of a write does not hold: someone else wrote first.
    #[error("\"{key}\" was changed by another writer in the meantime")]
    Conflict {
        /// The object.
        key: Key,
    },
    /// The text is not a key.
    #[error("\"{text}\" is not a key: {reason}")]
    Key {
        /// As given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The store cannot do this.
    #[error("{store} cannot {operation}")]
    Unsupported {
        /// Which store.
        store: String,
        /// What it was asked to do.
        operation: &'static str,
    },
    /// A staged object was passed to a store that did not create it.
    #[error("\"{key}\" was staged by another store")]
    ForeignStaged {
        /// The object.
        key: Key,
    },
    /// The URL is not that of a store, or its store cannot be set up.
    #[error("\"{url}\": {reason}")]
    Url {
        /// As given, without secrets.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An option of a store is unknown or has a wrong value.
    #[error("store option \"{name}\": {reason}")]
    Option {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The stored data makes no sense, so the requested part cannot be found in it.
    #[error("\"{key}\" is damaged: {reason}")]
    Damaged {
        /// The object.
        key: Key,
        /// What is wrong with it.
        reason: String,
    },
    /// The storage failed.
    #[error("cannot {operation} \"{path}\": {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file or object.
        path: String,
        /// What the system reported.
        source: io::Error,
    },
}

/// Fails if the head does not have the length reserved for it.
pub(crate) fn check_head(head: &[u8], kept: u64) -> io::Result<()> {
    if head.len() as u64 == kept {
        return Ok(());
    }
    let message = format!("{kept} bytes were reserved, but the head has {}", head.len());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
