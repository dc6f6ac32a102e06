use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardine_remote::{RemoteStore, StoreOptions, path_in_url};
use shardine_store::{FileStore, FolderHold, Key, MemoryStore, Store, StoreError};

use crate::Error;

/// A version of Zarr, by its documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ZarrFormat {
    /// `.zarray`, `.zgroup` and `.zattrs`
    #[serde(rename = "2")]
    V2,
    /// `zarr.json`
    #[serde(rename = "3")]
    V3,
}

/// Where a data set is: a store and a path in it.
///
/// A location made from a URL remembers it, and can be recreated in another process:
///
/// ```
/// use shardine::{Location, LocationSpec};
///
/// let place = Location::parse("s3://bucket/images")?.join("a.zarr")?;
/// assert_eq!(place.url().as_deref(), Some("s3://bucket/images/a.zarr"));
///
/// let json = serde_json::to_string(&place.spec()?)?;
/// let spec: LocationSpec = serde_json::from_str(&json)?;
/// assert_eq!(Location::from_spec(&spec)?.url(), place.url());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Location {
    /// Where the objects live.
    pub store: Arc<dyn Store>,
    /// The path of the node; `None` is the root of the store.
    pub path: Option<Key>,
    /// The version whose documents are used here and below; `None` looks for version 3 and, if
    /// there is none, for version 2.
    pub format: Option<ZarrFormat>,
    origin: Origin,
}

/// What a store was made from.
#[derive(Debug, Clone)]
enum Origin {
    /// It was passed in ready-made.
    Store,
    Files(FileStore),
    Remote {
        store: RemoteStore,
        options: Arc<StoreOptions>,
    },
}

/// A [`Location`] as plain data, for another process: the URL of its store, the path in it, and the
/// options.
///
/// It holds no secrets: [`Location::spec`] refuses locations that have any. Nor does it include the
/// environment: the other process takes credentials, and anything else that options do not set,
/// from its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocationSpec {
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<StoreSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zarr_format: Option<u8>,
}

/// The options of a remote store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreSpec {
    options: Vec<(String, String)>,
    single_writer: bool,
    memory: u64,
}

/// Anything that says where a data set is: a URL or a path as text, a [`Path`], or a [`Location`].
///
/// Text is parsed by [`Location::parse`]. A `Path` is always a path in the file system, whatever it
/// looks like.
pub trait IntoLocation {
    /// The location. Nothing needs to exist there, and no request is made.
    fn into_location(self) -> Result<Location, Error>;
}

impl IntoLocation for Location {
    fn into_location(self) -> Result<Location, Error> {
        Ok(self)
    }
}

impl IntoLocation for &Location {
    fn into_location(self) -> Result<Location, Error> {
        Ok(self.clone())
    }
}

impl IntoLocation for &str {
    fn into_location(self) -> Result<Location, Error> {
        Location::parse(self)
    }
}

impl IntoLocation for &String {
    fn into_location(self) -> Result<Location, Error> {
        Location::parse(self)
    }
}

impl IntoLocation for String {
    fn into_location(self) -> Result<Location, Error> {
        Location::parse(&self)
    }
}

impl IntoLocation for &Path {
    fn into_location(self) -> Result<Location, Error> {
        Location::of_path(self)
    }
}

impl IntoLocation for &PathBuf {
    fn into_location(self) -> Result<Location, Error> {
        Location::of_path(self)
    }
}

impl IntoLocation for PathBuf {
    fn into_location(self) -> Result<Location, Error> {
        Location::of_path(&self)
    }
}

impl Location {
    /// The root of a store.
    pub fn root(store: Arc<dyn Store>) -> Self {
        Self { store, path: None, format: None, origin: Origin::Store }
    }

    /// The root of a new in-memory store, which lives as long as something refers to it.
    pub fn memory() -> Self {
        Self::root(Arc::new(MemoryStore::new()))
    }

    /// Parses a path, or a URL with `file://`, `s3://`, `gs://`, `az://`, `http://` or `https://`.
    /// Nothing needs to exist there, and no request is made.
    ///
    /// A path is taken literally, and so is the name of an object in a bucket. A `file://` URL is
    /// percent-decoded, and names no host or `localhost`. Credentials and endpoints of remote
    /// stores come from the usual environment variables.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Self::with_options(url, &StoreOptions::new())
    }

    /// Like [`parse`](Self::parse), with options for a remote store, which take precedence over the
    /// environment.
    pub fn with_options(url: &str, options: &StoreOptions) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let path = match url.split_once("://") {
            None => url.to_owned(),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
                file_path(rest).map_err(refuse)?
            }
            Some(_) if RemoteStore::understands(url) => {
                let store = RemoteStore::new(url, options)?;
                let options = Arc::new(options.clone());
                let origin = Origin::Remote { store: store.clone(), options };
                return Ok(Self { origin, ..Self::root(Arc::new(store)) });
            }
            Some((scheme, _)) => {
                return Err(refuse(&format!(
                    "{scheme}:// is not supported; use a path, file://, s3://, gs://, az://, \
                     http:// or https://"
                )));
            }
        };
        if path.is_empty() {
            return Err(refuse("the path is empty"));
        }
        Ok(Self::of_files(FileStore::new(path)))
    }

    fn of_files(files: FileStore) -> Self {
        Self { origin: Origin::Files(files.clone()), ..Self::root(Arc::new(files)) }
    }

    fn of_path(path: &Path) -> Result<Self, Error> {
        if path.as_os_str().is_empty() {
            let reason = "the path is empty".to_owned();
            return Err(Error::Url { url: String::new(), reason });
        }
        Ok(Self::of_files(FileStore::new(path)))
    }

    /// Makes the location that another process has described. Nothing needs to exist there, and no
    /// request is made.
    pub fn from_spec(spec: &LocationSpec) -> Result<Self, Error> {
        let mut options = StoreOptions::new();
        if let Some(StoreSpec { options: pairs, single_writer, memory }) = &spec.store {
            options = options.single_writer(*single_writer).memory(*memory);
            options.pairs.clone_from(pairs);
        }
        let format = match spec.zarr_format {
            None => None,
            Some(2) => Some(ZarrFormat::V2),
            Some(3) => Some(ZarrFormat::V3),
            Some(other) => {
                let reason = format!("there is no Zarr version {other}");
                return Err(Error::Url { url: spec.url.clone(), reason });
            }
        };
        let path = spec.path.as_deref().map(Key::new).transpose()?;
        Ok(Self::with_options(&spec.url, &options)?.at(path).with_format(format))
    }

    /// Describes the location for another process.
    ///
    /// [`Error::Url`] if its store was not made from a URL, or if the URL or the options contain a
    /// secret: those belong in the environment of both processes.
    pub fn spec(&self) -> Result<LocationSpec, Error> {
        let refuse = |reason: &str| Error::Url { url: self.to_string(), reason: reason.to_owned() };
        let (url, store) = match &self.origin {
            Origin::Store => {
                return Err(refuse(
                    "its store was not opened from a URL, so no other process can open it",
                ));
            }
            Origin::Files(files) => {
                (file_url(files, None).ok_or_else(|| refuse("its path is not UTF-8"))?, None)
            }
            Origin::Remote { store, options } => {
                if store.has_user() {
                    return Err(refuse("it contains a user or a password, which is not recorded"));
                }
                if let Some(name) = options.secret() {
                    let reason = format!(
                        "the option {name} is a secret, which is not recorded; set it in the environment"
                    );
                    return Err(refuse(&reason));
                }
                let (pairs, single_writer) = (options.pairs.clone(), options.single_writer);
                let spec = StoreSpec { options: pairs, single_writer, memory: options.memory };
                (store.url(None).ok_or_else(|| refuse("it has no URL"))?, Some(spec))
            }
        };
        let zarr_format = self.format.map(|format| match format {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        });
        let path = self.path.as_ref().map(|path| path.as_str().to_owned());
        Ok(LocationSpec { url, path, store, zarr_format })
    }

    /// The URL of the location, without user and password; for files it is absolute.
    /// [`parse`](Self::parse) turns it back into the same location, given the same options.
    ///
    /// `None` if the store was not made from a URL, or no URL can express the location: a path that
    /// is not UTF-8, or a `?` or `#` in the name of an object in a bucket.
    pub fn url(&self) -> Option<String> {
        match &self.origin {
            Origin::Store => None,
            Origin::Files(files) => file_url(files, self.path.as_ref()),
            Origin::Remote { store, .. } => store.url(self.path.as_ref()),
        }
    }

    /// The same path in another store, such as one that wraps this one. It has no URL.
    pub fn with_store(self, store: Arc<dyn Store>) -> Self {
        Self { store, origin: Origin::Store, ..self }
    }

    /// The location of a child.
    pub fn join(&self, name: &str) -> Result<Self, Error> {
        Ok(self.at(Some(self.key(name)?)))
    }

    /// The location beside this one whose name is this one's with `ending` behind it, in a store
    /// with the same options; `None` if this is the root of its store, or has no URL. No request is
    /// made.
    ///
    /// ```
    /// use shardine::Location;
    ///
    /// let place = Location::parse("s3://bucket/a.zarr")?;
    /// let beside = place.sibling(".set-aside")?.and_then(|place| place.url());
    /// assert_eq!(beside.as_deref(), Some("s3://bucket/a.zarr.set-aside"));
    /// assert!(Location::parse("s3://bucket")?.sibling(".set-aside")?.is_none());
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn sibling(&self, ending: &str) -> Result<Option<Self>, Error> {
        let (options, url) = match &self.origin {
            Origin::Store => return Ok(None),
            Origin::Files(_) => (Arc::default(), self.url()),
            Origin::Remote { options, .. } => (Arc::clone(options), self.url()),
        };
        let Some(url) = url else { return Ok(None) };
        let url = url.trim_end_matches('/');
        let has_name = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        match has_name {
            true => Self::with_options(&format!("{url}{ending}"), &options).map(Some),
            false => Ok(None),
        }
    }

    /// The parent location, and the name of this one in it; `None` if there is no parent, or it
    /// lies outside what the store can see. No request is made.
    pub(crate) fn parent(&self) -> Result<Option<(Self, String)>, Error> {
        let Some(path) = &self.path else {
            let above = self.store.above();
            return Ok(above.map(|(store, name)| (Self::root(store), name.as_str().to_owned())));
        };
        Ok(Some(match path.as_str().rsplit_once('/') {
            Some((above, name)) => (self.at(Some(Key::new(above)?)), name.to_owned()),
            None => (self.at(None), path.as_str().to_owned()),
        }))
    }

    /// The location that a path relative to this one refers to; `None` if it leads out of the
    /// store.
    pub(crate) fn resolved(&self, path: &str) -> Result<Option<Self>, Error> {
        let root = self.path.as_ref().map(Key::as_str);
        let mut parts: Vec<&str> = root.map_or(Vec::new(), |root| root.split('/').collect());
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        return Ok(None);
                    }
                }
                part => parts.push(part),
            }
        }
        let path = match parts.is_empty() {
            true => None,
            false => Some(Key::new(&parts.join("/"))?),
        };
        Ok(Some(self.at(path)))
    }

    /// Another path in the same store.
    pub fn at(&self, path: Option<Key>) -> Self {
        Self { path, ..self.clone() }
    }

    /// The same location, restricted to the documents of one version.
    pub fn with_format(self, format: Option<ZarrFormat>) -> Self {
        Self { format, ..self }
    }

    /// Keeps the folder of a data set in place until the hold is dropped, so that no in-place job
    /// exchanges it for another one. `None` where nothing is exchanged, there are no reliable
    /// locks, or there is no folder.
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

/// The `file://` URL of a path in a file store; `None` if the path is not UTF-8.
fn file_url(files: &FileStore, path: Option<&Key>) -> Option<String> {
    let root = files.root().to_str()?;
    let path = match path {
        Some(path) => format!("{}/{path}", root.trim_end_matches('/')),
        None => root.to_owned(),
    };
    Some(format!("file://{}", path_in_url(&path)))
}

/// The path that a `file://` URL refers to, from what follows its `//`.
fn file_path(rest: &str) -> Result<String, &'static str> {
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
        return Err(
            "files on other hosts cannot be reached; a local path starts with a third slash",
        );
    }
    if path.contains(['?', '#']) {
        return Err("a file has no query or fragment; write ? and # in a name as %3F and %23");
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
            return Err("a % is not followed by two hexadecimal digits; write a literal % as %25");
        };
        // Two hexadecimal digits make a byte.
        decoded.push((high * 16 + low) as u8);
    }
    if decoded.contains(&0) {
        return Err("a path cannot contain NUL");
    }
    String::from_utf8(decoded).map_err(|_| "its path is not UTF-8")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            ("ftp://host/a", "not supported"),
            ("s3://", "no bucket"),
            ("http://host/a?b=c", "no query"),
        ] {
            let refused = name(url).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    /// The same location again, from its URL and from its spec.
    fn again(location: &Location) -> [Location; 2] {
        let by_url = Location::parse(&location.url().unwrap()).unwrap();
        let json = serde_json::to_string(&location.spec().unwrap()).unwrap();
        let by_spec = Location::from_spec(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!((&by_spec.path, by_spec.format), (&location.path, location.format));
        assert_eq!(by_spec.spec().unwrap(), location.spec().unwrap());
        [by_url, by_spec]
    }

    #[test]
    fn a_place_knows_its_url_wherever_it_is_joined_to() {
        for (root, name, url) in [
            ("s3://b/x", "y", "s3://b/x/y"),
            ("s3://b", "y/z", "s3://b/y/z"),
            ("gs://b/x/", "a b%20\u{fc}", "gs://b/x/a b%20\u{fc}"),
            (
                "az://c@account.dfs.core.windows.net/x",
                "y",
                "az://c@account.dfs.core.windows.net/x/y",
            ),
            ("http://host:8080/a b/", "c d%", "http://host:8080/a%20b/c%20d%25"),
            ("http://host", "y", "http://host/y"),
            ("/a b", "100%/#1?", "file:///a%20b/100%25/%231%3F"),
            ("/", "\u{fc}", "file:///%C3%BC"),
            ("file:///a%20b/", "c", "file:///a%20b/c"),
        ] {
            let location = Location::parse(root).unwrap().join(name).unwrap();
            assert_eq!(location.url().unwrap(), url);
            let above = location.at(None);
            assert_eq!(above.url(), Location::parse(root).unwrap().url());
            for place in again(&location) {
                assert_eq!(place.url().unwrap(), url);
            }
        }
        let relative = Location::parse("some/where").unwrap().join("a").unwrap();
        let here = std::env::current_dir().unwrap().join("some/where/a");
        assert_eq!(
            again(&relative).map(|place| place.to_string()),
            [(); 2].map(|()| here.display().to_string())
        );
    }

    #[test]
    fn what_no_url_says_has_none_and_a_spec_still_finds_it() {
        let bucket = Location::parse("s3://b/x").unwrap().join("a#b?").unwrap();
        assert_eq!(bucket.url(), None);
        let spec = bucket.spec().unwrap();
        assert_eq!(Location::from_spec(&spec).unwrap().to_string(), bucket.to_string());
        let memory = Location::root(Arc::new(shardine_store::MemoryStore::new()));
        assert_eq!(memory.url(), None);
        assert!(memory.spec().unwrap_err().to_string().contains("not opened from a URL"));
        let wrapped = bucket.with_store(Arc::clone(&memory.store));
        assert_eq!((wrapped.url(), wrapped.spec().is_ok()), (None, false));
    }

    #[test]
    fn a_spec_has_the_options_and_never_a_secret() {
        let options = StoreOptions::new()
            .with("aws_region", "eu-west-1")
            .with("requests", "7")
            .single_writer(true)
            .memory(1 << 20);
        let location = Location::with_options("s3://b/x", &options).unwrap();
        let location = location.join("y").unwrap().with_format(Some(ZarrFormat::V2));
        let expected = serde_json::json!({
            "url": "s3://b/x",
            "path": "y",
            "store": {
                "options": [["aws_region", "eu-west-1"], ["requests", "7"]],
                "single_writer": true,
                "memory": 1 << 20,
            },
            "zarr_format": 2,
        });
        assert_eq!(serde_json::to_value(location.spec().unwrap()).unwrap(), expected);
        again(&location);
        let secret = options.clone().with("AWS_Session_Token", "hush");
        let refused = Location::with_options("s3://b/x", &secret).unwrap().spec().unwrap_err();
        assert!(refused.to_string().contains("AWS_Session_Token"), "{refused}");
        assert!(!refused.to_string().contains("hush"), "{refused}");
        let user = Location::parse("https://me:hush@host/x").unwrap();
        assert_eq!(user.url().as_deref(), Some("https://host/x"));
        let refused = user.spec().unwrap_err().to_string();
        assert!(refused.contains("password") && !refused.contains("hush"), "{refused}");
        for wrong in
            [serde_json::json!({"url": "s3://b", "more": 1}), serde_json::json!({"path": "x"})]
        {
            assert!(serde_json::from_value::<LocationSpec>(wrong).is_err());
        }
        for wrong in [
            serde_json::json!({"url": "s3://b", "path": "../x"}),
            serde_json::json!({"url": "s3://b", "zarr_format": 4}),
            serde_json::json!({"url": "file:///a#b"}),
        ] {
            let spec = serde_json::from_value(wrong).unwrap();
            assert!(Location::from_spec(&spec).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_path_and_its_url_mean_the_same_place(
            root in "(/|\\./)?[^/\\x00]{1,12}(/[^/\\x00]{1,8}){0,2}/?",
            name in "[^/\\\\\\x00]{1,12}(/[^/\\\\\\x00]{1,8}){0,2}",
            bucket in proptest::bool::ANY,
        ) {
            let root = if bucket { format!("s3://b/{root}") } else { root };
            let Ok(location) = Location::parse(&root) else { return Ok(()) };
            let Ok(location) = location.join(&name) else { return Ok(()) };
            let spec = location.spec().unwrap();
            let by_spec = Location::from_spec(&spec).unwrap();
            prop_assert_eq!(by_spec.to_string(), location.to_string());
            prop_assert_eq!(by_spec.spec().unwrap(), spec);
            let Some(url) = location.url() else {
                prop_assert!(bucket && name.contains(['?', '#']));
                return Ok(());
            };
            let by_url = Location::parse(&url).unwrap();
            // Whatever trailing slashes a path has.
            let [now, before] = [&by_url, &location].map(Location::to_string);
            prop_assert_eq!(std::path::Path::new(&now), std::path::Path::new(&before));
            prop_assert_eq!(by_url.url(), Some(url));
        }
    }
}
