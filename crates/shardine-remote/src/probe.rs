//! Whether a store honours conditions: some accept a conditional write and ignore the condition.

use std::sync::Arc;
use std::time::Instant;

use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Error, HeaderMap, HeaderValue, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use shardine_store::StoreError;
use tokio::sync::OnceCell;

use crate::exchange::Exchange;
use crate::place::Kind;
use crate::store::Remote;

/// What was found out, once for each store.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    writes: OnceCell<bool>,
    uploads: OnceCell<bool>,
}

impl Probe {
    /// Fails if the store is known to ignore conditions, on writes or on multipart uploads. Finds
    /// out if that is not known yet.
    ///
    /// Costs some requests the first time, with an object of a few bytes that is removed again.
    pub async fn check(&self, remote: &Arc<Remote>, parts: bool) -> Result<(), StoreError> {
        let honours = self.writes.get_or_try_init(|| writes(remote)).await?;
        if !honours {
            return Err(refused(
                remote,
                "be updated safely, as it ignores the conditions of writes (use --single-writer \
                 if nothing else writes there)",
            ));
        }
        if parts && !*self.uploads.get_or_try_init(|| uploads(remote)).await? {
            return Err(refused(
                remote,
                "replace a large object safely, as it ignores the conditions of multipart uploads \
                 (use --single-writer if nothing else writes there)",
            ));
        }
        Ok(())
    }
}

fn refused(remote: &Remote, operation: &'static str) -> StoreError {
    StoreError::Unsupported { store: remote.name.clone(), operation }
}

/// The object that conditions are tried with. It always has the same name, so that one left by a
/// killed process is found and removed by the next trial; listings leave it out.
const NAME: &str = ".shardine-probe";

/// Whether this is the name of an object that conditions were tried with, including the form used
/// earlier.
pub(crate) fn is_probe(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// How often a condition must have been ignored to be believed: another process may remove the
/// object halfway.
const TRIALS: usize = 4;

fn path(remote: &Remote) -> Result<Path, StoreError> {
    remote.path(&shardine_store::Key::new(NAME)?)
}

fn failed(remote: &Remote, path: &Path, error: &Error) -> StoreError {
    let name = path.as_ref().strip_prefix(remote.prefix.as_str()).unwrap_or(path.as_ref());
    match shardine_store::Key::new(name) {
        Ok(key) => remote.failed("try a conditional write of", &key, error),
        Err(error) => error,
    }
}

/// Whether an error means that a condition does not hold.
fn is_condition(error: &Error) -> bool {
    matches!(
        error,
        Error::Precondition { .. } | Error::AlreadyExists { .. } | Error::NotModified { .. }
    )
}

/// An ETag that no object has.
const NOBODYS_ETAG: &str = "\"00000000000000000000000000000000\"";

/// A version that no object has.
fn nobodys(kind: Kind) -> UpdateVersion {
    match kind {
        Kind::Google => UpdateVersion { e_tag: None, version: Some("1".to_owned()) },
        _ => UpdateVersion { e_tag: Some(NOBODYS_ETAG.to_owned()), version: None },
    }
}

async fn writes(remote: &Arc<Remote>) -> Result<bool, StoreError> {
    let path = path(remote)?;
    let put = async |mode: PutMode| {
        let (mut attempt, since) = (0, Instant::now());
        loop {
            attempt += 1;
            let payload = PutPayload::from_static(b"shardine looks whether conditions count");
            let options = PutOptions::from(mode.clone());
            let exchange = Exchange::with(HeaderMap::new());
            let put = remote.store.put_opts(&path, payload, options);
            match exchange.run(put).await {
                // `object_store` does not retry if there is no answer, as it does not know that
                // nobody else writes here.
                Err(Error::Generic { .. })
                    if exchange.status() == 0 && remote.may_retry(&exchange, attempt, since) =>
                {
                    Remote::pause(attempt).await;
                }
                result => return result,
            }
        }
    };
    let mut trial = 0;
    let honoured = loop {
        trial += 1;
        // An existing object was left by a killed process, or another process is trying right now.
        // It may also be from this trial, if its answer was lost.
        match put(PutMode::Create).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => {}
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => break false,
            Err(error) => return Err(failed(remote, &path, &error)),
        }
        let (second, wrong) =
            tokio::join!(put(PutMode::Create), put(PutMode::Update(nobodys(remote.kind))));
        let mut honoured = true;
        for (refused, may_be_missing) in [(second, false), (wrong, true)] {
            match refused {
                Err(error) if is_condition(&error) => {}
                // Another process has removed it, and a missing object has no version.
                Err(Error::NotFound { .. }) if may_be_missing => {}
                Err(error) => return Err(failed(remote, &path, &error)),
                Ok(_) => honoured = false,
            }
        }
        if honoured || trial == TRIALS {
            break honoured;
        }
        Remote::pause(trial).await;
    };
    remove(remote, &path).await;
    Ok(honoured)
}

async fn uploads(remote: &Arc<Remote>) -> Result<bool, StoreError> {
    let Some(multipart) = &remote.multipart else { return Ok(false) };
    let path = path(remote)?;
    let mut trial = 0;
    let result = loop {
        trial += 1;
        match try_upload(remote, &**multipart, &path).await {
            Ok(false) if trial < TRIALS => Remote::pause(trial).await,
            result => break result,
        }
    };
    remove(remote, &path).await;
    result.map_err(|error| failed(remote, &path, &error))
}

async fn try_upload(
    remote: &Arc<Remote>,
    multipart: &dyn MultipartStore,
    path: &Path,
) -> Result<bool, Error> {
    let payload = || PutPayload::from_static(b"shardine looks whether conditions count");
    remote.store.put_opts(path, payload(), PutOptions::default()).await?;
    let id = multipart.create_multipart(path).await?;
    let tried = try_completions(remote, multipart, path, &id, payload()).await;
    if !matches!(tried, Ok(false)) {
        // If this fails it stays, but it is only a few bytes.
        drop(multipart.abort_multipart(path, &id).await);
    }
    tried
}

/// Tries to complete an upload on conditions of both kinds that do not hold.
async fn try_completions(
    remote: &Arc<Remote>,
    multipart: &dyn MultipartStore,
    path: &Path,
    id: &String,
    payload: PutPayload,
) -> Result<bool, Error> {
    let part = multipart.put_part(path, id, 0, payload).await?;
    let conditions = match remote.kind {
        Kind::Google => [("x-goog-if-generation-match", "0"), ("x-goog-if-generation-match", "1")],
        _ => [("if-none-match", "*"), ("if-match", NOBODYS_ETAG)],
    };
    for (name, value) in conditions {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let complete = multipart.complete_multipart(path, id, vec![part.clone()]);
        match Exchange::with(headers).run(complete).await {
            Ok(_) => return Ok(false),
            Err(error) if is_condition(&error) => {}
            // Another process has removed the object, which proves nothing.
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Removes what was created for a trial.
async fn remove(remote: &Remote, path: &Path) {
    // If this fails, an object of a few bytes stays, which no listing shows and the next trial
    // removes.
    drop(remote.store.delete(path).await);
}
