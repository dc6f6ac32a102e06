use std::collections::BTreeMap;

use crate::{Store, StoreError};

/// The name of a header that a store keeps with an object, besides its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HeaderName {
    /// `Cache-Control`
    CacheControl,
    /// `Content-Disposition`
    ContentDisposition,
    /// `Content-Encoding`: how the stored bytes are compressed. A reader decodes it.
    ContentEncoding,
    /// `Content-Language`
    ContentLanguage,
    /// `Content-Type`
    ContentType,
    /// User-defined metadata, by name.
    Metadata(String),
}

/// The headers of an object in an object store.
///
/// Empty for objects in stores without headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<HeaderName, String>);

impl Headers {
    /// Adds a header, replacing one with the same name.
    pub fn insert(&mut self, name: HeaderName, value: String) {
        self.0.insert(name, value);
    }

    /// Removes a header.
    pub fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
    }

    /// The value of a header.
    pub fn get(&self, name: &HeaderName) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if there are any, for a store that cannot keep them.
    pub fn refuse<S: Store + ?Sized>(&self, store: &S) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        Err(StoreError::Unsupported { store: store.name(), operation: "keep headers of objects" })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &str)> {
        self.0.iter().map(|(name, value)| (name, value.as_str()))
    }
}
