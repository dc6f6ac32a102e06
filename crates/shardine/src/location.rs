use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_store::{FileStore, FolderHold, Key, Store, StoreError};

use crate::Error;
use crate::zarr::metadata::ZarrFormat;

/// Where a data set is: a store and a place in it.
#[derive(Debug, Clone)]
pub struct Location {
    /// Where the objects live.
    pub store: Arc<dyn Store>,
    /// The place of the node; `None` is the root of the store.
    pub path: Option<Key>,
    /// The version whose documents are looked at here and below; `None` looks for version 3 and, where that has none, for
    /// version 2.
    pub format: Option<ZarrFormat>,
}

impl Location {
    /// The root of a store.
    pub fn root(store: Arc<dyn Store>) -> Self {
        Self { store, path: None, format: None }
    }

    /// Understands a path, or a URL with `file://`, `s3://`, `gs://`, `az://`, `http://` or `https://`. Nothing needs
    /// to exist there, and no request is made.
    ///
    /// A path is taken as it is, and so is the name of an object in a bucket. In a `file://` URL `%20` is a space, and
    /// so on; it names no host, or `localhost`. Of remote stores credentials and endpoints are taken from the usual
    /// environment variables.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Self::with_options(url, &StoreOptions::new())
    }

    /// The same with options for a remote store, which go before the environment.
    pub fn with_options(url: &str, options: &StoreOptions) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let path = match url.split_once("://") {
            None => url.to_owned(),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
                file_path(rest).map_err(refuse)?
            }
            Some(_) if RemoteStore::understands(url) => {
                return Ok(Self::root(Arc::new(RemoteStore::new(url, options)?)));
            }
            Some((scheme, _)) => {
                return Err(refuse(&format!(
                    "{scheme}:// is not known; use a path, file://, s3://, gs://, az://, http:// or https://"
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
        Ok(self.at(Some(self.key(name)?)))
    }

    /// Another place in the same store.
    pub fn at(&self, path: Option<Key>) -> Self {
        Self { store: Arc::clone(&self.store), path, format: self.format }
    }

    /// The same place, where only the documents of one version are looked at.
    pub fn with_format(self, format: Option<ZarrFormat>) -> Self {
        Self { format, ..self }
    }

    /// Keeps the folder of a data set in its place until this is dropped, so that no job in place exchanges it for
    /// another one. `None` where nothing is exchanged, or there are no locks to rely on, or there is no folder.
    pub(crate) fn hold(&self) -> Result<Option<FolderHold>, Error> {
        let Some(exchange) = self.store.exchange() else { return Ok(None) };
        match exchange.hold(self.path.as_ref()) {
            Err(StoreError::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            hold => Ok(hold?),
        }
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

/// The path that a `file://` URL means, from what follows its `//`.
fn file_path(rest: &str) -> Result<String, &'static str> {
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        return Err("files of other hosts cannot be reached; a path begins with a third slash");
    }
    if path.contains(['?', '#']) {
        return Err("a file has no query or fragment; in a name they are %3F and %23");
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("a % is not followed by two hexadecimal digits; a % itself is %25");
        };
        // Two digits of base 16 are a byte.
        decoded.push((high * 16 + low) as u8);
    }
    if decoded.contains(&0) {
        return Err("no path holds a NUL");
    }
    String::from_utf8(decoded).map_err(|_| "its path is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(url: &str) -> Result<String, String> {
        Location::parse(url).map(|location| location.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_url_is_decoded_and_a_path_is_not() {
        for (url, path) in [
            ("file:///a/b.zarr", "/a/b.zarr"),
            ("file://localhost/a", "/a"),
            ("FILE://LocalHost/a", "/a"),
            ("file:///with%20space/100%25/%C3%BC", "/with space/100%/\u{fc}"),
            ("file:///%3f%23", "/?#"),
            ("/a%20b", "/a%20b"),
        ] {
            assert_eq!(name(url), Ok(path.to_owned()));
        }
    }

    #[test]
    fn a_url_of_another_host_or_of_nothing_is_refused() {
        for (url, reason) in [
            ("file://host/a", "other hosts"),
            ("file://a", "other hosts"),
            ("file://127.0.0.1/a", "other hosts"),
            ("file://", "empty"),
            ("file://localhost", "empty"),
            ("", "empty"),
            ("file:///a?b", "%3F"),
            ("file:///a#b", "%23"),
            ("file:///a%2", "hexadecimal"),
            ("file:///a%zz", "hexadecimal"),
            ("file:///a%+1", "hexadecimal"),
            ("file:///%00", "NUL"),
            ("file:///%ff", "UTF-8"),
            ("ftp://host/a", "not known"),
            ("s3://", "no bucket"),
            ("http://host/a?b=c", "no query"),
        ] {
            let refused = name(url).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
