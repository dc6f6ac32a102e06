use std::collections::BTreeMap;

use crate::{Store, StoreError};

/// What a store keeps with an object beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HeaderName {
    /// `Cache-Control`
    CacheControl,
    /// `Content-Disposition`
    ContentDisposition,
    /// `Content-Encoding`: what the stored bytes were compressed with. A reader undoes it.
    ContentEncoding,
    /// `Content-Language`
    ContentLanguage,
    /// `Content-Type`
    ContentType,
    /// What a user calls it.
    Metadata(String),
}

/// The headers of an object in an object store.
///
/// Of objects in stores that know no such thing there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<HeaderName, String>);

impl Headers {
    /// Adds one, in place of another with this name.
    pub fn insert(&mut self, name: HeaderName, value: String) {
        self.0.insert(name, value);
    }

    /// Removes one.
    pub fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
    }

    /// The value of one.
    pub fn get(&self, name: &HeaderName) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An error if there are any, for a store that keeps none.
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
