use std::fmt;
use std::sync::Arc;

use shardine_store::{FileStore, Key, Store};

use crate::Error;

/// Where a data set is: a store and a place in it.
#[derive(Debug, Clone)]
pub struct Location {
    /// Where the objects live.
    pub store: Arc<dyn Store>,
    /// The place of the node; `None` is the root of the store.
    pub path: Option<Key>,
}

impl Location {
    /// The root of a store.
    pub fn root(store: Arc<dyn Store>) -> Self {
        Self { store, path: None }
    }

    /// Understands a path or a `file://` URL. Nothing needs to exist there.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let path = match url.split_once("://") {
            None => url,
            Some(("file", path)) => path,
            Some((scheme, _)) => {
                return Err(refuse(&format!(
                    "this version reads and writes local files only, not {scheme}://"
                )));
            }
        };
        if path.is_empty() {
            return Err(refuse("the path is empty"));
        }
        Ok(Self::root(Arc::new(FileStore::new(path))))
    }

    /// The place of a child.
    pub fn join(&self, name: &str) -> Result<Self, Error> {
        Ok(Self { store: Arc::clone(&self.store), path: Some(self.key(name)?) })
    }

    /// The key of an object of this node.
    pub fn key(&self, name: &str) -> Result<Key, Error> {
        Ok(match &self.path {
            Some(path) => path.join(name)?,
            None => Key::new(name)?,
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}/{path}", self.store.name()),
            None => f.write_str(&self.store.name()),
        }
    }
}
