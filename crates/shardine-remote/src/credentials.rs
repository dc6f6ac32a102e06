//! Requests that are made without credentials.
//!
//! Without credentials `object_store` assumes that the program runs on a cloud machine, and asks the
//! metadata service there. On any other machine nothing answers at that address, so a missing
//! variable would take minutes to be reported; and if something does answer, it is trusted. So the
//! service is asked only if the user has configured that.

use std::fmt;
use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::aws::AwsCredential;
use object_store::azure::AzureCredential;
use object_store::client::HttpRequest;
use object_store::gcp::GcpCredential;

/// There are no credentials, and the metadata service of the machine was not to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCredentials {
    S3,
    Google,
    Azure,
}

impl NoCredentials {
    /// What a request to a metadata service would have been for; `None` if it is another one.
    ///
    /// These services insist on headers that no other has, wherever they are.
    pub fn of(request: &HttpRequest) -> Option<Self> {
        let has = |name: &str| request.headers().contains_key(name);
        if has("x-aws-ec2-metadata-token-ttl-seconds") || has("x-aws-ec2-metadata-token") {
            return Some(Self::S3);
        }
        if has("metadata-flavor") {
            return Some(Self::Google);
        }
        has("metadata").then_some(Self::Azure)
    }

    /// The one that caused an error, if it did.
    pub fn within(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(refused) = error.downcast_ref::<Self>() {
                return Some(*refused);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for NoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S3 => {
                "there are no credentials for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"
            }
            Self::Google => {
                "there are no credentials for Google Cloud Storage: GOOGLE_APPLICATION_CREDENTIALS is not set"
            }
            Self::Azure => {
                "there are no credentials for Azure: AZURE_STORAGE_ACCOUNT_KEY is not set"
            }
        })
    }
}

impl std::error::Error for NoCredentials {}

/// What stands for credentials where requests are not signed, so that none are looked for: a file
/// of them that is broken, or half of a key, is no obstacle then.
pub(crate) fn unsigned_s3() -> Arc<StaticCredentialProvider<AwsCredential>> {
    let (key_id, secret_key) = (String::new(), String::new());
    Arc::new(StaticCredentialProvider::new(AwsCredential { key_id, secret_key, token: None }))
}

/// The same for Google Cloud Storage.
pub(crate) fn unsigned_google() -> Arc<StaticCredentialProvider<GcpCredential>> {
    Arc::new(StaticCredentialProvider::new(GcpCredential { bearer: String::new() }))
}

/// The same for Azure.
pub(crate) fn unsigned_azure() -> Arc<StaticCredentialProvider<AzureCredential>> {
    Arc::new(StaticCredentialProvider::new(AzureCredential::BearerToken(String::new())))
}
