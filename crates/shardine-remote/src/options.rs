//! User options of a store.

use std::time::Duration;

use shardine_store::StoreError;

use crate::error::names_secret;
use crate::place::user_of;

/// How a store is reached and used.
///
/// Options are pairs of a name and a value. Some are interpreted here:
///
/// | name | meaning |
/// |---|---|
/// | `requests` | maximum number of requests in flight; 128 |
/// | `part_size` | bytes of a part of an upload; 8 MiB, at least 5 MiB |
/// | `max_retries` | how often a request is retried; 10 |
/// | `retry_timeout` | seconds after which no request is retried; 180 |
/// | `read_timeout` | seconds without a byte after which a request is retried; 30 |
/// | `conditional_uploads` | whether the conditions of multipart uploads are reliable; see below |
/// | `decoded_limit` | maximum size of an object once its `Content-Encoding` is decoded; 256 MiB |
/// | `put_limit` | bytes accepted in one request; 5 GiB, for Google Cloud Storage 5 TiB |
/// | `anonymous` | `true`: requests are not signed, and no credentials are looked for |
/// | `instance_credentials` | `true`: the machine's metadata service may be asked; see below |
///
/// `conditional_uploads` says whether only one of several multipart uploads on the same condition
/// is completed. By default it is `true` for Amazon S3 and Azure, which document it, and `false`
/// otherwise.
///
/// If no credentials are set, requests fail immediately. Only with `instance_credentials`, or the
/// environment variable `SHARDINE_INSTANCE_CREDENTIALS=true`, are they requested from the metadata
/// service of the cloud machine.
///
/// All other options are those of the `object_store` crate, which uses the names of the usual
/// environment variables: `aws_access_key_id`, `aws_endpoint`, `aws_skip_signature`,
/// `azure_storage_account_name`, `google_service_account`, `allow_http`, `proxy_url` and so on.
/// They take precedence over the environment.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Names and values.
    pub pairs: Vec<(String, String)>,
    /// Whether the user guarantees that nobody else writes, so that a store that ignores conditions
    /// may be updated.
    pub single_writer: bool,
    /// Memory in bytes for uploads in flight.
    pub memory: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { pairs: Vec::new(), single_writer: false, memory: 64 << 20 }
    }
}

impl StoreOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.pairs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the memory for uploads in flight.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets whether nobody else writes.
    pub fn single_writer(mut self, alone: bool) -> Self {
        self.single_writer = alone;
        self
    }

    /// With requests that are not signed, as a public bucket allows.
    pub fn anonymous(self) -> Self {
        self.with("anonymous", "true")
    }

    /// The name of an option whose value is a secret, or a URL with a user in it; `None` if there
    /// is none.
    ///
    /// Options that only say where a secret is found, such as the name of a file, do not count.
    pub fn secret(&self) -> Option<&str> {
        let is_secret = |name: &str, value: &str| {
            names_secret(&name.to_ascii_lowercase()) || user_of(value).is_some()
        };
        let pair = self.pairs.iter().find(|(name, value)| is_secret(name, value));
        pair.map(|(name, _)| name.as_str())
    }
}

// Omits the values, which may be secrets.
impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.pairs.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("StoreOptions")
            .field("names", &names)
            .field("single_writer", &self.single_writer)
            .field("memory", &self.memory)
            .finish()
    }
}

/// The options that are interpreted here.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    pub requests: usize,
    pub part_size: usize,
    pub max_retries: usize,
    pub retry_timeout: Duration,
    pub read_timeout: Duration,
    /// Whether completing a multipart upload reliably checks its condition. If not set, what is
    /// known about the store decides.
    pub conditional_uploads: Option<bool>,
    /// Bytes that the store accepts in one request, if set.
    pub put_limit: Option<u64>,
    /// Maximum size of an encoded object once it is decoded, which happens in memory.
    pub decoded_limit: u64,
    /// Whether requests go without a signature.
    pub anonymous: bool,
    /// Whether the metadata service of the machine may be asked for credentials.
    pub instance_credentials: bool,
    pub single_writer: bool,
    pub memory: u64,
}

/// The minimum size that S3 accepts for a part that is not the last.
const LEAST_PART: u64 = 5 << 20;

/// The maximum that S3 accepts in one request, whether an object or a part; used for Azure too.
pub(crate) const LARGEST_PUT: u64 = 5 << 30;

/// The maximum that Google Cloud Storage accepts in one request.
pub(crate) const LARGEST_GOOGLE_PUT: u64 = 5 << 40;

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The environment variable that allows asking the metadata service of the machine.
const INSTANCE_CREDENTIALS: &str = "SHARDINE_INSTANCE_CREDENTIALS";

impl Tuning {
    /// Extracts its options, and returns the others.
    pub fn new(options: &StoreOptions) -> Result<(Self, Vec<(String, String)>), StoreError> {
        let mut tuning = Self {
            requests: 128,
            part_size: 8 << 20,
            max_retries: 10,
            retry_timeout: Duration::from_secs(180),
            read_timeout: Duration::from_secs(30),
            conditional_uploads: None,
            put_limit: None,
            decoded_limit: 256 << 20,
            anonymous: false,
            instance_credentials: false,
            single_writer: options.single_writer,
            memory: options.memory,
        };
        if let Some(value) = std::env::var_os(INSTANCE_CREDENTIALS) {
            tuning.instance_credentials =
                parse_bool(INSTANCE_CREDENTIALS, &value.to_string_lossy())?;
        }
        let mut others = Vec::new();
        for (name, value) in &options.pairs {
            let number = |least: u64, most: u64| match value.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number),
                _ => Err(refuse(name, &format!("it takes a number from {least} to {most}"))),
            };
            match name.to_ascii_lowercase().as_str() {
                "requests" => tuning.requests = number(1, 4096)? as usize,
                "part_size" => tuning.part_size = number(LEAST_PART, LARGEST_PUT)? as usize,
                "max_retries" => tuning.max_retries = number(0, 1000)? as usize,
                "retry_timeout" => tuning.retry_timeout = Duration::from_secs(number(0, 86_400)?),
                "read_timeout" => tuning.read_timeout = Duration::from_secs(number(1, 86_400)?),
                "conditional_uploads" => {
                    tuning.conditional_uploads = Some(parse_bool(name, value)?);
                }
                "anonymous" => tuning.anonymous = parse_bool(name, value)?,
                "instance_credentials" => tuning.instance_credentials = parse_bool(name, value)?,
                "put_limit" => tuning.put_limit = Some(number(1, LARGEST_GOOGLE_PUT)?),
                "decoded_limit" => tuning.decoded_limit = number(1, 1 << 40)?,
                other => others.push((other.to_owned(), value.clone())),
            }
        }
        Ok((tuning, others))
    }
}

fn parse_bool(name: &str, value: &str) -> Result<bool, StoreError> {
    let said = value.to_ascii_lowercase().parse::<bool>();
    said.map_err(|_| refuse(name, "it takes true or false"))
}

/// An error about an option. Its value is not shown: it may be a secret.
pub(crate) fn refuse(name: &str, reason: &str) -> StoreError {
    StoreError::Option { name: name.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_hold_secrets_are_told_from_those_that_say_where_they_are() {
        let secret =
            |name: &str, value: &str| StoreOptions::new().with(name, value).secret().is_some();
        for name in [
            "aws_secret_access_key",
            "AWS_SESSION_TOKEN",
            "aws_sse_customer_key_base64",
            "azure_storage_account_key",
            "azure_storage_client_secret",
            "azure_storage_sas_key",
            "sas_token",
            "azure_storage_token",
            "azure_storage_encryption_key",
            "azure_fabric_session_token",
            "google_service_account_key",
            "google_bearer_token",
        ] {
            assert!(secret(name, "x"), "{name}");
        }
        for name in [
            "aws_access_key_id",
            "aws_region",
            "aws_endpoint",
            "aws_sse_kms_key_id",
            "aws_sse_bucket_key_enabled",
            "aws_web_identity_token_file",
            "aws_container_credentials_full_uri",
            "azure_federated_token_file",
            "azure_fabric_token_service_url",
            "azure_credential_type",
            "google_service_account",
            "google_application_credentials",
            "proxy_url",
            "requests",
            "user_agent",
        ] {
            assert!(!secret(name, "http://host/x"), "{name}");
        }
        assert!(secret("proxy_url", "http://me:secret@host"));
    }
}
