//! Multipart uploads.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, HeaderMap, HeaderValue, PutMultipartOptions, PutPayload,
    PutResult,
};
use reqwest::header::HeaderName;
use shardine_store::{Headers, Key, StoreError};
use tokio::sync::OnceCell;

use crate::commit::attributes;
use crate::exchange::Exchange;
use crate::place::Kind;
use crate::runtime::{self, Waiting};
use crate::store::Remote;

/// An upload that has not been completed.
#[derive(Debug)]
pub(crate) struct Upload {
    shared: Arc<Shared>,
    parts: Mutex<Vec<(usize, Part)>>,
}

type Part = Waiting<Result<PartId, StoreError>>;

struct Shared {
    remote: Arc<Remote>,
    multipart: Arc<dyn MultipartStore>,
    key: Key,
    path: Path,
    history: String,
    headers: Headers,
    /// The store's id of the upload; known once it has been started.
    id: OnceCell<String>,
    /// Its number among the uploads of this process.
    number: u64,
    failed: AtomicBool,
    /// It is no longer wanted.
    given_up: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upload of {}/{}", self.remote.name, self.key)
    }
}

/// Uploads that this process has started and neither completed nor aborted.
fn unfinished() -> &'static Mutex<HashMap<u64, Arc<Shared>>> {
    static UNFINISHED: OnceLock<Mutex<HashMap<u64, Arc<Shared>>>> = OnceLock::new();
    UNFINISHED.get_or_init(Mutex::default)
}

/// Aborts all uploads that this process has started and not completed, for a program that is about
/// to end.
///
/// Unfinished uploads are invisible, but their parts are stored, and paid for. Waits for the
/// answers, but no longer than `at_most`.
pub fn abort_unfinished_uploads(at_most: Duration) {
    let all: Vec<Arc<Shared>> = {
        let mut unfinished = unfinished().lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.drain().map(|(_, upload)| upload).collect()
    };
    if all.is_empty() {
        return;
    }
    let aborts = async move { join_all(all.iter().map(|upload| upload.abort())).await };
    // After that, the store's own rules remove what is left.
    drop(runtime::run(async move { drop(tokio::time::timeout(at_most, aborts).await) }));
}

impl Upload {
    /// Prepares an upload; makes no request before the first part.
    pub fn new(
        remote: &Arc<Remote>,
        key: &Key,
        history: String,
        headers: Headers,
    ) -> Result<Self, StoreError> {
        let unsupported = || StoreError::Unsupported {
            store: remote.name.clone(),
            operation: "take an object in parts",
        };
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let shared = Arc::new(Shared {
            multipart: remote.multipart.clone().ok_or_else(unsupported)?,
            remote: Arc::clone(remote),
            key: key.clone(),
            path: remote.path(key)?,
            history,
            headers,
            id: OnceCell::new(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            failed: Default::default(),
            given_up: Default::default(),
        });
        // Before it is started, so that anyone who abandons it in the meantime finds it.
        let mut unfinished = unfinished().lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.insert(shared.number, Arc::clone(&shared));
        drop(unfinished);
        Ok(Self { shared, parts: Mutex::default() })
    }

    /// Starts uploading a part. Waits for memory, not for the store.
    pub fn put(&self, number: usize, pieces: Vec<Bytes>) -> Result<(), StoreError> {
        let remote = &self.shared.remote;
        let io = |source| remote.io("upload a part of", &self.shared.key, source);
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(io(io::Error::other("another part failed")));
        }
        let len = pieces.iter().map(Bytes::len).sum();
        let memory = {
            let remote = Arc::clone(remote);
            runtime::run(async move { remote.memory(len).await }).map_err(io)?
        };
        let shared = Arc::clone(&self.shared);
        let part = runtime::begin(async move {
            let result = shared.put(number, pieces).await;
            if result.is_err() {
                shared.failed.store(true, Ordering::Relaxed);
            }
            drop(memory);
            result
        });
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push((number, part.map_err(io)?));
        Ok(())
    }

    /// Waits for all parts and returns them in order.
    pub async fn parts(&self) -> Result<Vec<PartId>, StoreError> {
        let mut parts =
            std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        parts.sort_by_key(|(number, _)| *number);
        let gone = |_| io::Error::other("a task of the runtime was lost");
        let waited = tokio::task::spawn_blocking(move || {
            parts.into_iter().map(|(_, part)| part.wait()).collect::<io::Result<Vec<_>>>()
        });
        let io = |source| self.shared.remote.io("upload", &self.shared.key, source);
        let results = waited.await.map_err(gone).map_err(io)?.map_err(io)?;
        results.into_iter().collect()
    }

    /// Asks the store to assemble the object from the parts.
    pub async fn complete(&self, parts: Vec<PartId>) -> Result<PutResult, Error> {
        let shared = &self.shared;
        let id = shared.id.get().cloned().unwrap_or_default();
        shared.multipart.complete_multipart(&shared.path, &id, parts).await
    }

    /// Headers sent with the completion, if the store does not accept them when the upload is
    /// started.
    pub fn late_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.shared.remote.kind != Kind::Azure {
            return headers;
        }
        for (name, value) in &self.shared.attributes() {
            let name = match name {
                Attribute::CacheControl => "x-ms-blob-cache-control".to_owned(),
                Attribute::ContentDisposition => "x-ms-blob-content-disposition".to_owned(),
                Attribute::ContentEncoding => "x-ms-blob-content-encoding".to_owned(),
                Attribute::ContentLanguage => "x-ms-blob-content-language".to_owned(),
                Attribute::ContentType => "x-ms-blob-content-type".to_owned(),
                Attribute::Metadata(name) => format!("x-ms-meta-{}", name.to_ascii_lowercase()),
                _ => continue,
            };
            // They came from headers, or consist of hexadecimal digits.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
            {
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Stops tracking the upload, which is complete.
    pub fn forget(&self) {
        self.shared.forget();
    }

    /// Makes the store discard the parts.
    pub async fn abort(&self) {
        self.shared.abort().await;
        self.forget();
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let unfinished = unfinished().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = unfinished.get(&self.shared.number).cloned() {
            drop(unfinished);
            // The store handles parts that are still arriving: their upload is gone. A program that
            // ends before this is done can still wait for it.
            drop(runtime::spawn(async move {
                shared.abort().await;
                shared.forget();
            }));
        }
    }
}

impl Shared {
    fn attributes(&self) -> Attributes {
        attributes(&self.history, &self.headers, self.remote.kind)
    }

    fn forget(&self) {
        let mut unfinished = unfinished().lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.remove(&self.number);
    }

    async fn begin(self: &Arc<Self>) -> Result<&String, StoreError> {
        let begin = async || {
            if self.given_up.load(Ordering::SeqCst) {
                return Err(Error::Generic { store: "upload", source: "it was aborted".into() });
            }
            let _permit = self.remote.requests.acquire().await;
            let mut options = PutMultipartOptions::default();
            // Azure takes them with the completion.
            if self.remote.kind != Kind::Azure {
                options.attributes = self.attributes();
            }
            self.multipart.create_multipart_opts(&self.path, options).await
        };
        let begun = self.id.get_or_try_init(begin).await;
        begun.map_err(|error: Error| self.remote.failed("begin the upload of", &self.key, &error))
    }

    async fn put(
        self: &Arc<Self>,
        number: usize,
        pieces: Vec<Bytes>,
    ) -> Result<PartId, StoreError> {
        let id = self.begin().await?;
        let payload = PutPayload::from_iter(pieces);
        let (mut attempt, since) = (0, Instant::now());
        loop {
            attempt += 1;
            let exchange = Exchange::with(HeaderMap::new());
            let permit = self.remote.requests.acquire().await;
            let put = self.multipart.put_part(&self.path, id, number, payload.clone());
            let put = exchange.run(put).await;
            drop(permit);
            match put {
                Ok(part) => return Ok(part),
                // `object_store` does not retry a part that arrived only in part.
                Err(Error::Generic { .. })
                    if attempt < 3
                        && !self.given_up.load(Ordering::SeqCst)
                        && self.remote.may_retry(&exchange, attempt, since) =>
                {
                    Remote::pause(attempt).await;
                }
                Err(error) => {
                    return Err(self.remote.failed("upload a part of", &self.key, &error));
                }
            }
        }
    }

    async fn abort(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        // Waits if the upload is being started; from now on it can no longer be.
        let id = self.id.get_or_try_init(async || Err(())).await;
        if let Ok(id) = id {
            // What cannot be aborted is left to the store's own rules.
            drop(self.multipart.abort_multipart(&self.path, id).await);
        }
    }
}
