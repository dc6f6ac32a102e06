use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{Attributes, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use shardine_store::{
    Condition, CreateOptions, Edit, FolderExchange, Folders, Headers, Held, InPlace, Key, Leftover,
    Listing, Object, ObjectWriter, Pending, ReadCost, ReadRange, Recovery, Staged, Store,
    StoreError, Unlisted, UnlistedKind, Version,
};
use tokio::sync::Semaphore;

use crate::commit::{self, History, headers_kept};
use crate::cost::Cost;
use crate::error::{Secrets, cause, failed};
use crate::exchange::{Connector, Exchange};
use crate::object::RemoteObject;
use crate::options::{LARGEST_GOOGLE_PUT, LARGEST_PUT, StoreOptions, Tuning};
use crate::place::{self, Kind, Place};
use crate::probe::{Probe, is_probe};
use crate::runtime;
use crate::writer::{RemoteStaged, RemoteWriter};

/// Memory for uploads is counted in units of this many bytes, so that their number fits a
/// semaphore.
const UNIT: u64 = 4096;

/// Bytes of an object that are fetched when it is opened for editing: these contain the index of
/// most shards with an index at the end.
const EDITED: u64 = 64 << 10;

/// How many encoded objects are decoded in parallel. Decoded, they may be much larger than what
/// came over the network.
const DECODERS: usize = 4;

/// How often to try to open an object for editing that others keep changing.
const EDITS: usize = 10;

/// Objects in a bucket of S3, Google Cloud Storage or Azure, or on an HTTP server, below a prefix.
///
/// Opening an object costs nothing; its length and version are known after the first read. Reads of
/// an open object are pinned to its ETag. A large object is uploaded in parts while it is written.
/// Updates are conditional writes: the slower writer gets a conflict. Plain HTTP is read-only.
#[derive(Debug, Clone)]
pub struct RemoteStore(pub(crate) Arc<Remote>);

/// The state shared by all parts of a store.
pub(crate) struct Remote {
    pub kind: Kind,
    pub name: String,
    url: String,
    has_user: bool,
    identity: String,
    pub prefix: String,
    pub store: Arc<dyn ObjectStore>,
    pub multipart: Option<Arc<dyn object_store::multipart::MultipartStore>>,
    pub secrets: Secrets,
    pub tuning: Tuning,
    pub cost: Arc<Cost>,
    /// Requests in flight.
    pub requests: Semaphore,
    /// Memory for uploads in flight, in units.
    uploads: Arc<Semaphore>,
    upload_units: u32,
    pub probe: Arc<Probe>,
    /// Encoded objects that are being decoded.
    pub decoders: Semaphore,
    /// Memory for decoded objects that are kept while they are open, in units.
    decoded: Arc<Semaphore>,
    /// Whether completing a multipart upload is trusted to check its condition.
    conditional_uploads: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteStore({})", self.name)
    }
}

impl RemoteStore {
    /// Whether this is the URL of a remote store.
    pub fn understands(url: &str) -> bool {
        url.split_once("://").is_some_and(|(scheme, _)| place::kind_of(scheme).is_some())
    }

    /// The store whose root is at a URL. Makes no request.
    pub fn new(url: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let (tuning, others) = Tuning::new(options)?;
        let read_timeout = tuning.read_timeout;
        let is_google = url.split_once("://").and_then(|(scheme, _)| place::kind_of(scheme))
            == Some(Kind::Google);
        let instance_credentials = tuning.instance_credentials;
        let connector =
            Connector { read_timeout, is_google, instance_credentials, ..Connector::default() };
        let cost = Arc::clone(&connector.cost);
        let place = place::connect(url, &tuning, others, connector)?;
        let Place {
            kind,
            name,
            url,
            has_user,
            identity,
            prefix,
            store,
            multipart,
            secrets,
            conditional_uploads,
        } = place;
        // At least two parts, so that one is filled while another is being sent.
        let memory = tuning.memory.max(2 * tuning.part_size as u64);
        let upload_units =
            (memory / UNIT).clamp(1, Semaphore::MAX_PERMITS.min(1 << 30) as u64) as u32;
        Ok(Self(Arc::new(Remote {
            kind,
            name,
            url,
            has_user,
            identity,
            prefix,
            store,
            multipart,
            secrets,
            cost,
            requests: Semaphore::new(tuning.requests),
            uploads: Arc::new(Semaphore::new(upload_units as usize)),
            decoders: Semaphore::new(DECODERS),
            decoded: Arc::new(Semaphore::new(upload_units as usize)),
            upload_units,
            probe: Arc::default(),
            conditional_uploads: tuning.conditional_uploads.unwrap_or(conditional_uploads),
            tuning,
        })))
    }

    /// The URL of an object or folder, or of the root; `None` if it cannot be expressed as a URL,
    /// as with `?` and `#` in the names of objects in a bucket. User and password are left out;
    /// [`has_user`](Self::has_user) says whether there were any.
    pub fn url(&self, path: Option<&Key>) -> Option<String> {
        let Remote { kind, url, .. } = &*self.0;
        let Some(path) = path else { return Some(url.clone()) };
        match kind {
            Kind::Http => Some(format!("{url}/{}", place::path_in_url(path.as_str()))),
            // Names in buckets are not escaped.
            _ if path.as_str().contains(['?', '#']) => None,
            _ => Some(format!("{url}/{path}")),
        }
    }

    /// Whether the URL that this was created from contained a user or a password.
    pub fn has_user(&self) -> bool {
        self.0.has_user
    }

    fn unsupported(&self, operation: &'static str) -> StoreError {
        StoreError::Unsupported { store: self.0.name.clone(), operation }
    }
}

impl Remote {
    /// The path of an object, for `object_store`.
    pub fn path(&self, key: &Key) -> Result<Path, StoreError> {
        Path::parse(format!("{}{key}", self.prefix)).map_err(|_| StoreError::Key {
            text: key.as_str().escape_default().to_string(),
            reason: "object stores do not allow control characters in names",
        })
    }

    pub fn failed(
        &self,
        operation: &'static str,
        key: &Key,
        error: &object_store::Error,
    ) -> StoreError {
        failed(operation, &self.name, key, &self.secrets, error)
    }

    pub fn io(&self, operation: &'static str, key: &Key, source: io::Error) -> StoreError {
        StoreError::Io { operation, path: format!("{}/{key}", self.name), source }
    }

    /// Requests the metadata of an object, without its bytes.
    pub async fn head(&self, path: &Path) -> object_store::Result<(ObjectMeta, Attributes)> {
        let _permit = self.requests.acquire().await;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let answer = self.store.get_opts(path, options).await?;
        Ok((answer.meta, answer.attributes))
    }

    /// The version that an ETag or a generation stands for.
    pub fn version(&self, etag: Option<&str>, generation: Option<&str>) -> Option<Version> {
        match self.kind {
            Kind::Google => generation.map(|text| Version(text.into())),
            _ => etag.map(|text| Version(quoted(text).into())),
        }
    }

    /// The version of what was read. If a server sends no ETag, the same date and length are
    /// trusted to mean the same object.
    pub fn version_of(&self, meta: &ObjectMeta) -> Version {
        self.version(meta.e_tag.as_deref(), meta.version.as_deref()).unwrap_or_else(|| {
            let date = meta.last_modified.timestamp_nanos_opt().unwrap_or_default();
            Version(format!("{} bytes of {date}", meta.size).into())
        })
    }

    /// Waits for memory for an upload.
    pub async fn memory(&self, bytes: usize) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let units = (bytes as u64).div_ceil(UNIT).min(u64::from(self.upload_units)) as u32;
        Arc::clone(&self.uploads).acquire_many_owned(units).await.ok()
    }

    /// Memory for a decoded object, if there is enough left.
    pub fn decoded_memory(&self, bytes: usize) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let units = u32::try_from((bytes as u64).div_ceil(UNIT)).ok()?;
        Arc::clone(&self.decoded).try_acquire_many_owned(units).ok()
    }

    /// Whether a failed request may be retried: not if `object_store` has already retried it for as
    /// long as it may.
    pub fn may_retry(&self, exchange: &Exchange, attempt: usize, since: Instant) -> bool {
        let tried_again = matches!(exchange.status(), 408 | 429 | 500..);
        !tried_again
            && attempt <= self.tuning.max_retries
            && since.elapsed() < self.tuning.retry_timeout
    }

    /// Waits before the next attempt.
    pub async fn pause(attempt: usize) {
        tokio::time::sleep(Duration::from_millis(50 << attempt.min(6))).await;
    }

    /// Whether a large object on a condition has to be sent in one request, since the condition of
    /// a multipart upload may not be honoured.
    pub fn sends_whole(&self, condition: &Condition) -> bool {
        !matches!(condition, Condition::None)
            && !self.conditional_uploads
            && !self.tuning.single_writer
    }

    /// Bytes that can be sent in one request.
    pub fn put_limit(&self) -> u64 {
        self.tuning.put_limit.unwrap_or(match self.kind {
            Kind::Google => LARGEST_GOOGLE_PUT,
            _ => LARGEST_PUT,
        })
    }

    /// Refuses to write to a store that can only be read.
    pub fn check_writable(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.kind == Kind::Http {
            return Err(StoreError::Unsupported { store: self.name.clone(), operation });
        }
        Ok(())
    }
}

/// An ETag as it appears in a header; some answers lack the quotes.
fn quoted(etag: &str) -> String {
    if etag.starts_with('"') || etag.starts_with("W/") {
        etag.to_owned()
    } else {
        format!("\"{etag}\"")
    }
}

/// What is known about an object that is about to be changed.
#[derive(Debug)]
pub(crate) struct RemoteHeld {
    pub history: History,
    pub headers: Headers,
    store: String,
}

impl Held for RemoteHeld {
    fn in_place(self: Arc<Self>, _: std::ops::Range<u64>) -> Result<Box<dyn InPlace>, StoreError> {
        let (store, operation) = (self.store.clone(), "change an object in place");
        Err(StoreError::Unsupported { store, operation })
    }
}

impl Store for RemoteStore {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn identity(&self) -> String {
        self.0.identity.clone()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        None
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        None
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        let remote = &*self.0;
        let path = remote.prefix.strip_suffix('/')?;
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let shorter = |text: &str| {
            let text = text.strip_suffix(name).unwrap_or(text);
            text.strip_suffix('/').unwrap_or(text).to_owned()
        };
        let key = Key::new(name).ok()?;
        let store = Self(Arc::new(Remote {
            kind: remote.kind,
            name: shorter(&remote.name),
            url: shorter(&remote.url),
            has_user: remote.has_user,
            identity: shorter(&remote.identity),
            prefix: if above.is_empty() { String::new() } else { format!("{above}/") },
            store: Arc::clone(&remote.store),
            multipart: remote.multipart.clone(),
            secrets: remote.secrets.clone(),
            tuning: remote.tuning.clone(),
            cost: Arc::clone(&remote.cost),
            requests: Semaphore::new(remote.tuning.requests),
            uploads: Arc::clone(&remote.uploads),
            upload_units: remote.upload_units,
            probe: Arc::clone(&remote.probe),
            decoders: Semaphore::new(DECODERS),
            decoded: Arc::clone(&remote.decoded),
            conditional_uploads: remote.conditional_uploads,
        }));
        Some((Arc::new(store), key))
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        let path = self.0.path(key)?;
        let remote = Arc::clone(&self.0);
        Ok(Arc::new(RemoteObject::new(remote, key.clone(), path, expected.cloned(), false)))
    }

    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        let path = self.0.path(key)?;
        Ok(Arc::new(RemoteObject::new(Arc::clone(&self.0), key.clone(), path, None, true)))
    }

    fn keeps_headers(&self) -> bool {
        self.0.kind != Kind::Http
    }

    fn can_list(&self) -> bool {
        self.0.kind != Kind::Http
    }

    fn read_cost(&self) -> ReadCost {
        ReadCost {
            request_in_bytes: self.0.cost.request_in_bytes(),
            local: false,
            in_flight: self.0.tuning.requests,
        }
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        let headers = headers_kept(&options.condition);
        self.create_with_headers(key, options, &headers)
    }

    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.0.check_writable("be written to")?;
        let (remote, headers) = (Arc::clone(&self.0), headers.clone());
        Ok(Box::new(RemoteWriter::new(remote, key.clone(), options, headers)?))
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.publish_later(staged).wait()
    }

    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        let mut own = Vec::with_capacity(staged.len());
        for staged in staged {
            let key = staged.key.clone();
            match staged.into_inner::<RemoteStaged>() {
                Ok(staged) if Arc::ptr_eq(&staged.remote, &self.0) => own.push(staged),
                Ok(_) => return Pending::done(Err(StoreError::ForeignStaged { key })),
                Err(error) => return Pending::done(Err(error)),
            }
        }
        // A caller that publishes one object after the other has to wait here, so that not all of
        // them are in memory. Several in one call wait for each other's memory while they are sent.
        if own.len() == 1
            && let Some(staged) = own.pop()
        {
            match runtime::run(staged.admit()) {
                Ok(staged) => own.push(staged),
                Err(source) => {
                    let (operation, path) = ("publish to", self.0.name.clone());
                    return Pending::done(Err(StoreError::Io { operation, path, source }));
                }
            }
        }
        match runtime::begin(commit::publish(own)) {
            Ok(waiting) => {
                let name = self.0.name.clone();
                Pending::new(move || {
                    let gone =
                        |source| StoreError::Io { operation: "publish to", path: name, source };
                    waiting.wait().map_err(gone)?
                })
            }
            Err(source) => {
                let (operation, path) = ("publish to", self.0.name.clone());
                Pending::done(Err(StoreError::Io { operation, path, source }))
            }
        }
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        self.0.check_writable("be written to")?;
        let path = self.0.path(key)?;
        let mut attempt = 0;
        let object = loop {
            attempt += 1;
            let (remote, path) = (Arc::clone(&self.0), path.clone());
            let object = Arc::new(RemoteObject::new(remote, key.clone(), path, None, false));
            match object.read(ReadRange::Tail { need: 0, most: EDITED }) {
                Ok(_) => break object,
                // If this takes two requests, others may write in between. Their version will do as
                // well.
                Err(StoreError::Changed { .. }) if attempt < EDITS => {}
                Err(error) => return Err(error),
            }
        };
        let changed = || StoreError::Changed { key: key.clone() };
        let version = object.version().ok_or_else(changed)?;
        let (history, headers) = (object.history(), object.headers());
        let held = RemoteHeld { history, headers, store: self.0.name.clone() };
        Ok(Edit::locked(object, version, Arc::new(held)))
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.0.check_writable("be written to")?;
        let path = self.0.path(key)?;
        let expected = match condition {
            Condition::None => None,
            Condition::Absent => Some(None),
            Condition::Unchanged(version) | Condition::Held { version, .. } => {
                if !self.0.tuning.single_writer {
                    // A removal that first looks and then removes would also remove what was
                    // written in between.
                    return Err(self.unsupported("remove an object only if it is unchanged"));
                }
                Some(Some(version.clone()))
            }
        };
        let (remote, key) = (Arc::clone(&self.0), key.clone());
        let task = async move {
            if let Some(expected) = expected {
                let found = match remote.head(&path).await {
                    Ok((meta, _)) => Some(remote.version_of(&meta)),
                    Err(object_store::Error::NotFound { .. }) => None,
                    Err(error) => return Err(remote.failed("look for", &key, &error)),
                };
                if found != expected {
                    return Err(StoreError::Conflict { key });
                }
                if found.is_none() {
                    return Ok(());
                }
            }
            let (mut attempt, since) = (0, Instant::now());
            loop {
                attempt += 1;
                let exchange = Exchange::with(Default::default());
                let permit = remote.requests.acquire().await;
                let result = exchange.run(remote.store.delete(&path)).await;
                drop(permit);
                match result {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => return Ok(()),
                    // `object_store` does not retry if there is no answer. Removing twice does no
                    // harm.
                    Err(object_store::Error::Generic { .. })
                        if exchange.status() == 0
                            && remote.may_retry(&exchange, attempt, since) =>
                    {
                        Remote::pause(attempt).await;
                    }
                    Err(error) => return Err(remote.failed("remove", &key, &error)),
                }
            }
        };
        let name = self.0.name.clone();
        runtime::run(task).map_err(|source| StoreError::Io {
            operation: "remove from",
            path: name,
            source,
        })?
    }

    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        self.delete(key, &Condition::None)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        if self.0.kind == Kind::Http {
            return Err(self.unsupported("list objects, as plain HTTP has no listings"));
        }
        let full = match prefix {
            Some(key) => self.0.path(key)?,
            None => Path::parse(&self.0.prefix).unwrap_or_default(),
        };
        let remote = Arc::clone(&self.0);
        let task = async move {
            let _permit = remote.requests.acquire().await;
            Exchange::whole().run(remote.store.list_with_delimiter(Some(&full))).await
        };
        let path = match prefix {
            Some(key) => format!("{}/{key}", self.0.name),
            None => self.0.name.clone(),
        };
        let io = |source| StoreError::Io { operation: "list", path: path.clone(), source };
        let found = match runtime::run(task).map_err(io)? {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(Listing::default()),
            Err(error) => return Err(io(cause(&self.0.secrets, &error))),
        };
        let below = match prefix {
            Some(key) => format!("{}{key}/", self.0.prefix),
            None => self.0.prefix.clone(),
        };
        let mut listing = Listing::default();
        let mut add = |path: &Path, len: Option<u64>| {
            // An object named like the prefix itself was created by other tools to represent a
            // folder.
            let own = self.0.prefix.as_str();
            let inside = path.as_ref().strip_prefix(below.as_str()).filter(|name| !name.is_empty());
            let Some(name) = inside.and_then(|_| path.as_ref().strip_prefix(own)) else { return };
            if path.filename().is_some_and(is_probe) {
                return;
            }
            match (Key::new(name), len) {
                (Ok(key), Some(len)) => listing.objects.push((key, len)),
                (Ok(key), None) => listing.folders.push(key),
                // So was an empty object with an empty name.
                (Err(_), Some(0)) if name.split('/').any(str::is_empty) => {}
                (Err(_), len) => {
                    let kind = len.map_or(UnlistedKind::OddFolder, |_| UnlistedKind::OddName);
                    listing.add_unlisted(Unlisted { name: name.to_owned(), key: None, kind });
                }
            }
        };
        found.objects.iter().for_each(|meta| add(&meta.location, Some(meta.size)));
        found.common_prefixes.iter().for_each(|path| add(path, None));
        listing.objects.sort();
        listing.folders.sort();
        listing.unlisted.sort();
        Ok(listing)
    }

    /// A killed writer leaves parts of an upload, which no listing shows
    /// ([`abort_unfinished_uploads`](crate::abort_unfinished_uploads)).
    fn leftovers(&self, _: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        Ok(Vec::new())
    }

    fn remove_leftover(&self, _: Option<&Key>, _: &str) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Objects are only replaced whole.
    fn recover(&self, _: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Nothing)
    }

    fn before_change(&self, _: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Nothing)
    }

    fn remove_empty_folder(&self, _: &Key) -> Result<(), StoreError> {
        Ok(())
    }
}
