//! The least that must be done for a whole read: the stored bytes are fetched, and nothing is made
//! of them.

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::Result;
use crate::job::Job;

/// Requests in flight at once.
const IN_FLIGHT: usize = 128;

/// Bytes of a request.
const RANGE: u64 = 8 << 20;

/// A way to the job's bucket.
pub struct Floor {
    store: AmazonS3,
    runtime: tokio::runtime::Runtime,
}

impl Floor {
    pub fn new(job: &Job) -> Result<Self> {
        // Whoever comes second finds it installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", job.server))
            .with_allow_http(true)
            .with_bucket_name(&job.bucket)
            .with_region(&job.region)
            .with_access_key_id(&job.access_key)
            .with_secret_access_key(&job.secret_key)
            .build()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Self { store, runtime })
    }

    /// The objects below a key, with their lengths.
    pub fn objects(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let prefix = Path::from(prefix);
        let list = self.store.list(Some(&prefix));
        let objects = self.runtime.block_on(list.try_collect::<Vec<_>>())?;
        Ok(objects.into_iter().map(|o| (o.location.to_string(), o.size)).collect())
    }

    /// Fetches objects; returns all their bytes, in pieces.
    pub fn fetch(&self, objects: &[(String, u64)]) -> Result<Vec<impl AsRef<[u8]>>> {
        let ranges = objects.iter().flat_map(|(key, length)| {
            let starts = (0..*length).step_by(RANGE as usize);
            starts.map(move |start| (Path::from(key.as_str()), start..(start + RANGE).min(*length)))
        });
        let gets =
            ranges.map(|(key, range)| async move { self.store.get_range(&key, range).await });
        let all = stream::iter(gets).buffer_unordered(IN_FLIGHT).try_collect::<Vec<_>>();
        Ok(self.runtime.block_on(all)?)
    }
}
