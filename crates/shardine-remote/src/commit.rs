//! Making objects visible: exactly once, and only if nobody else was faster.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, HeaderMap, HeaderValue, PutMode, PutOptions, PutPayload,
    PutResult, UpdateVersion,
};
use shardine_store::{Condition, HeaderName, Headers, Key, StoreError, Version};

use crate::encoding::{attributes_of, room_beside};
use crate::exchange::Exchange;
use crate::place::Kind;
use crate::spool::Spool;
use crate::store::{Remote, RemoteHeld};
use crate::upload::Upload;
use crate::writer::{Content, RemoteStaged};

/// The metadata key under which an object says who wrote it. Azure accepts letters and digits only.
pub(crate) const WRITES: &str = "shardinewrites";

/// How many writes an object remembers: as many as may happen between a write and the check by its
/// writer if the answer was lost.
const REMEMBERED: usize = 32;

/// The minimum that user metadata has to leave for that, in bytes.
const ROOM: usize = 8 * 33;

/// How often a write with an unknown outcome is tried, in addition to the retries of
/// `object_store`.
const ATTEMPTS: usize = 5;

/// The writes that led to the current state of an object, newest last.
///
/// A writer whose answer was lost finds itself here, even if others have written since. So it does
/// not write again, and what they wrote stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Vec<Box<str>>);

/// Distinguishes a write from all others.
#[derive(Debug, Clone)]
pub(crate) struct WriteId(Box<str>);

impl WriteId {
    pub fn new() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }
}

impl History {
    /// The history in an object's metadata.
    pub fn of(attributes: &Attributes) -> Self {
        let text = attributes.get(&Attribute::Metadata(WRITES.into()));
        Self(text.map_or_else(Vec::new, |text| text.split_whitespace().map(Into::into).collect()))
    }

    fn has(&self, id: &WriteId) -> bool {
        self.0.contains(&id.0)
    }

    fn is_last(&self, id: &WriteId) -> bool {
        self.0.last() == Some(&id.0)
    }

    /// The history with another write added, as text of little more than `room` bytes.
    pub fn with(&self, id: &WriteId, room: usize) -> String {
        let kept = (room / (id.0.len() + 1)).clamp(1, REMEMBERED);
        let skipped = (self.0.len() + 1).saturating_sub(kept);
        let all = self.0.iter().skip(skipped).chain([&id.0]);
        all.map(|id| &**id).collect::<Vec<_>>().join(" ")
    }
}

/// The attributes of a write.
pub(crate) fn attributes(history: &str, headers: &Headers, kind: Kind) -> Attributes {
    let mut attributes = attributes_of(headers, kind);
    attributes.insert(Attribute::Metadata(WRITES.into()), history.to_owned().into());
    attributes
}

/// The outcome of a publication.
pub(crate) struct Published(pub Version);

/// The condition of a write, as the store understands it.
#[derive(Debug, Clone)]
enum Expected {
    Anything,
    Nothing,
    This(Version),
}

impl Expected {
    fn new(condition: &Condition) -> Self {
        match condition {
            Condition::None => Self::Anything,
            Condition::Absent => Self::Nothing,
            Condition::Unchanged(version) | Condition::Held { version, .. } => {
                Self::This(version.clone())
            }
        }
    }

    fn mode(&self, kind: Kind) -> PutMode {
        match self {
            Self::Anything => PutMode::Overwrite,
            Self::Nothing => PutMode::Create,
            Self::This(version) => {
                let text = Some(version.0.to_string());
                PutMode::Update(match kind {
                    Kind::Google => UpdateVersion { e_tag: None, version: text },
                    _ => UpdateVersion { e_tag: text, version: None },
                })
            }
        }
    }

    /// The headers that express the same where `object_store` has no way to.
    fn headers(&self, kind: Kind) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let header = match (self, kind) {
            (Self::Anything, _) => return headers,
            (Self::Nothing, Kind::Google) => ("x-goog-if-generation-match", "0"),
            (Self::Nothing, _) => ("if-none-match", "*"),
            (Self::This(version), Kind::Google) => ("x-goog-if-generation-match", &*version.0),
            (Self::This(version), _) => ("if-match", &*version.0),
        };
        // A value that cannot be in a header was refused earlier.
        if let Ok(value) = HeaderValue::from_str(header.1) {
            headers.insert(header.0, value);
        }
        headers
    }

    /// Whether the store can check this: not for an object with a weak ETag, or none.
    fn can_be_asked_for(&self, kind: Kind) -> bool {
        match self {
            Self::Anything | Self::Nothing => true,
            Self::This(version) => {
                HeaderValue::from_str(&version.0).is_ok()
                    && (kind == Kind::Google || version.0.starts_with('"'))
            }
        }
    }
}

/// The history that a write continues.
pub(crate) fn history_of(condition: &Condition) -> History {
    match condition {
        Condition::Held { held, .. } => {
            held.get::<RemoteHeld>().map(|held| held.history.clone()).unwrap_or_default()
        }
        _ => History::default(),
    }
}

/// The headers that an object keeps when it is replaced on a condition, as far as they are known.
///
/// Its encoding is not among them, since the new bytes are written unencoded. Metadata that leaves
/// no room for the history is dropped as well.
pub(crate) fn headers_kept(condition: &Condition) -> Headers {
    let Condition::Held { held, .. } = condition else { return Headers::default() };
    let mut headers = held.get::<RemoteHeld>().map(|held| held.headers.clone()).unwrap_or_default();
    headers.remove(&HeaderName::ContentEncoding);
    if room_beside(&headers) < ROOM {
        let names: Vec<HeaderName> = headers.iter().map(|(name, _)| name.clone()).collect();
        for name in names.iter().filter(|name| matches!(name, HeaderName::Metadata(_))) {
            headers.remove(name);
        }
    }
    headers
}

/// Publishes objects in order, but consecutive ones without a condition in parallel.
pub(crate) async fn publish(staged: Vec<RemoteStaged>) -> Result<Vec<Version>, StoreError> {
    let mut versions = Vec::with_capacity(staged.len());
    let mut staged = staged.into_iter().peekable();
    while let Some(first) = staged.next() {
        let mut together = vec![first];
        let free = |staged: &RemoteStaged| matches!(staged.condition, Condition::None);
        while free(&together[0])
            && let Some(next) = staged.next_if(free)
        {
            together.push(next);
        }
        let outcomes = join_all(together.into_iter().map(publish_one)).await;
        for outcome in outcomes {
            versions.push(outcome?.0);
        }
    }
    Ok(versions)
}

async fn publish_one(staged: RemoteStaged) -> Result<Published, StoreError> {
    let RemoteStaged { remote, key, condition, id, headers, content, memory: _memory } =
        staged.admit().await;
    let path = remote.path(&key)?;
    let expected = Expected::new(&condition);
    let write =
        Write { remote: &remote, key: &key, path: &path, expected, id: &id, headers: &headers };
    if !matches!(condition, Condition::None) {
        let parts = matches!(content, Content::Parts(_));
        let allowed = if !remote.tuning.single_writer {
            if write.expected.can_be_asked_for(remote.kind) {
                remote.probe.check(&remote, parts).await
            } else {
                Err(StoreError::Unsupported {
                    store: remote.name.clone(),
                    operation: "be updated safely, as it returns no strong ETags (pass \
                                --single-writer if nothing else writes there)",
                })
            }
        } else {
            match write.holds().await {
                Ok(false) => Err(StoreError::Conflict { key: key.clone() }),
                outcome => outcome.map(drop),
            }
        };
        if let Err(error) = allowed {
            if let Content::Parts(upload) = content {
                upload.abort().await;
            }
            return Err(error);
        }
    }
    let history = history_of(&condition).with(&id, room_beside(&headers));
    match content {
        Content::Whole(pieces) => write.put(pieces, &history).await,
        Content::Parts(upload) => write.complete(upload).await,
        Content::Spooled(spool) => write.put_spooled(spool, &history).await,
    }
}

/// One write.
struct Write<'a> {
    remote: &'a Arc<Remote>,
    key: &'a Key,
    path: &'a Path,
    expected: Expected,
    id: &'a WriteId,
    headers: &'a Headers,
}

/// The request that makes an object visible.
enum Request<'a> {
    Put { payload: PutPayload, options: PutOptions, spool: Option<Arc<Spool>> },
    Complete { upload: &'a Upload, parts: Vec<PartId> },
}

impl Request<'_> {
    async fn send(&self, write: &Write<'_>) -> Result<PutResult, Error> {
        match self {
            Self::Put { payload, options, .. } => {
                write.remote.store.put_opts(write.path, payload.clone(), options.clone()).await
            }
            Self::Complete { upload, parts } => upload.complete(parts.clone()).await,
        }
    }
}

/// What a failed write may have come to.
enum Doubt {
    /// The write took place.
    Done(Published),
    /// Someone else's did.
    Lost,
    /// None did, so far.
    Nothing,
}

impl Write<'_> {
    /// Whether the expected version is there, checked beforehand: for stores that ignore
    /// conditions.
    async fn holds(&self) -> Result<bool, StoreError> {
        let found = self.look().await?;
        Ok(match &self.expected {
            Expected::Anything => true,
            Expected::Nothing => found.is_none(),
            Expected::This(version) => found.is_some_and(|(found, _)| found == *version),
        })
    }

    async fn look(&self) -> Result<Option<(Version, History)>, StoreError> {
        match self.remote.head(self.path).await {
            Ok((meta, attributes)) => {
                Ok(Some((self.remote.version_of(&meta), History::of(&attributes))))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.remote.failed("look for", self.key, &error)),
        }
    }

    /// Finds out what became of a write that got no answer, or that lost a race: it may have lost
    /// to itself.
    async fn doubt(&self) -> Result<Doubt, StoreError> {
        let found = self.look().await?;
        Ok(match (found, &self.expected) {
            (Some((version, history)), _) if history.has(self.id) => {
                // If others have changed it since, its version is not the published one.
                let own = history.is_last(self.id);
                Doubt::Done(Published(if own {
                    version
                } else {
                    Version(self.id.0.as_ref().into())
                }))
            }
            (_, Expected::Anything) | (None, Expected::Nothing) => Doubt::Nothing,
            (Some((version, _)), Expected::This(expected)) if version == *expected => {
                Doubt::Nothing
            }
            _ => Doubt::Lost,
        })
    }

    fn published(&self, result: &PutResult) -> Option<Published> {
        let version = self.remote.version(result.e_tag.as_deref(), result.version.as_deref());
        version.map(Published)
    }

    /// Writes an object in one request.
    async fn put(&self, pieces: Vec<Bytes>, history: &str) -> Result<Published, StoreError> {
        self.put_payload(PutPayload::from_iter(pieces), None, history).await
    }

    /// The same from disk.
    async fn put_spooled(&self, spool: Arc<Spool>, history: &str) -> Result<Published, StoreError> {
        // A placeholder, replaced by the real body when the request is made.
        let payload = PutPayload::from_static(b"spooled");
        self.put_payload(payload, Some(spool), history).await
    }

    async fn put_payload(
        &self,
        payload: PutPayload,
        spool: Option<Arc<Spool>>,
        history: &str,
    ) -> Result<Published, StoreError> {
        let single = self.remote.tuning.single_writer;
        let mode = if single { PutMode::Overwrite } else { self.expected.mode(self.remote.kind) };
        let mut options = PutOptions::from(mode);
        options.attributes = attributes(history, self.headers, self.remote.kind);
        let request = Request::Put { payload, options, spool };
        self.send(&request, HeaderMap::new()).await
    }

    /// Completes a multipart upload.
    async fn complete(&self, upload: Upload) -> Result<Published, StoreError> {
        let result = match upload.parts().await {
            Ok(parts) => {
                let mut headers = match self.remote.tuning.single_writer {
                    true => HeaderMap::new(),
                    false => self.expected.headers(self.remote.kind),
                };
                headers.extend(upload.late_headers());
                self.send(&Request::Complete { upload: &upload, parts }, headers).await
            }
            Err(error) => Err(error),
        };
        match &result {
            Ok(_) => upload.forget(),
            Err(_) => upload.abort().await,
        }
        result
    }

    /// Sends a request until its outcome is known.
    async fn send(
        &self,
        request: &Request<'_>,
        headers: HeaderMap,
    ) -> Result<Published, StoreError> {
        let (mut attempt, since) = (0, Instant::now());
        loop {
            attempt += 1;
            let exchange = match request {
                Request::Put { spool: Some(spool), .. } => Exchange::sending(Arc::clone(spool)),
                _ => Exchange::with(headers.clone()),
            };
            let permit = self.remote.requests.acquire().await;
            let result = exchange.run(request.send(self)).await;
            drop(permit);
            let error = match result {
                Ok(result) => match self.published(&result) {
                    Some(published) => return Ok(published),
                    None => match self.doubt().await? {
                        Doubt::Done(published) => return Ok(published),
                        _ => return Err(StoreError::Conflict { key: self.key.clone() }),
                    },
                },
                Err(error) => error,
            };
            let again = attempt < ATTEMPTS && self.remote.may_retry(&exchange, attempt, since);
            if let Some(outcome) = self.judge(&error, again).await? {
                return Ok(outcome);
            }
            if let Error::NotFound { .. } = error {
                // The bucket or the upload is gone, and this write did not take place.
                return Err(self.remote.failed("write", self.key, &error));
            }
            Remote::pause(attempt).await;
        }
    }

    /// Interprets an error: the write took place after all, or failed, or (`None`) has to be
    /// retried.
    async fn judge(&self, error: &Error, again: bool) -> Result<Option<Published>, StoreError> {
        let refused = matches!(
            error,
            Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
        );
        if refused {
            return Err(self.remote.failed("write", self.key, error));
        }
        // If not even that can be found out, the first error says more.
        let doubt = self.doubt().await.map_err(|_| self.remote.failed("write", self.key, error))?;
        match doubt {
            Doubt::Done(published) => Ok(Some(published)),
            Doubt::Lost => Err(StoreError::Conflict { key: self.key.clone() }),
            Doubt::Nothing if again => Ok(None),
            Doubt::Nothing => Err(match error {
                // The store saw something else there, although it now says that there was nothing.
                Error::Precondition { .. } | Error::AlreadyExists { .. } => {
                    StoreError::Conflict { key: self.key.clone() }
                }
                error => self.remote.failed("write", self.key, error),
            }),
        }
    }
}
