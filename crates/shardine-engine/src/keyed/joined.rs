//! A shard in its older form: two objects, the second continuing the first.

use std::sync::Arc;

use shardine_store::{
    Buffer, Done, Headers, Key, Object, ReadRange, StoreError, Version, copy_into,
};

/// Two objects as one.
#[derive(Debug)]
pub(super) struct Joined {
    key: Key,
    first: Arc<dyn Object>,
    second: Arc<dyn Object>,
    first_len: u64,
    len: u64,
}

impl Joined {
    /// Joins two objects. Lengths that are not known are requested.
    pub fn new(
        key: Key,
        first: Arc<dyn Object>,
        second: Arc<dyn Object>,
    ) -> Result<Self, StoreError> {
        let len = |object: &Arc<dyn Object>| match object.len() {
            Some(len) => Ok(len),
            None => {
                object.read(ReadRange::Bounded(0..0))?;
                object.len().ok_or_else(|| StoreError::Changed { key: key.clone() })
            }
        };
        let (first_len, second_len) = (len(&first)?, len(&second)?);
        let len = first_len.checked_add(second_len);
        let len = len.ok_or_else(|| StoreError::Changed { key: key.clone() })?;
        Ok(Self { key, first, second, first_len, len })
    }
}

impl Object for Joined {
    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn version(&self) -> Option<Version> {
        let (first, second) = (self.first.version()?, self.second.version()?);
        Some(Version(format!("{}+{}", first.0, second.0).into()))
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let range = range.resolve(&self.key, self.len)?;
        let split = self.first_len;
        if range.end <= split {
            return self.first.read(ReadRange::Bounded(range));
        }
        if range.start >= split {
            return self.second.read(ReadRange::Bounded(range.start - split..range.end - split));
        }
        let mut bytes = self.first.read(ReadRange::Bounded(range.start..split))?.to_vec();
        bytes.extend_from_slice(&self.second.read(ReadRange::Bounded(0..range.end - split))?);
        Ok(bytes::Bytes::from(bytes).into())
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.first.check_unchanged()?;
        self.second.check_unchanged()
    }

    fn can_be_kept(&self) -> bool {
        self.first.can_be_kept() && self.second.can_be_kept()
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(self.first.is_current()? && self.second.is_current()?)
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    /// There is no single file.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}
