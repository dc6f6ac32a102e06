//! From a URL to a client.

use std::str::FromStr;
use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use shardine_store::StoreError;
use url::Url;

use crate::credentials;
use crate::error::Secrets;
use crate::exchange::{Connector, Signer};
use crate::options::{CONNECT_TIMEOUT, Tuning, refuse};

/// The kind of a store, where it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
    /// Read-only: no two servers write alike.
    Http,
}

/// A client, and where it leads.
pub(crate) struct Place {
    pub kind: Kind,
    /// For messages; without secrets.
    pub name: String,
    /// A URL that means the same place when parsed again; without secrets.
    pub url: String,
    /// Whether the URL contained a user or a password.
    pub has_user: bool,
    /// The same for the same place, whatever it is called.
    pub identity: String,
    /// The prefix of all keys; empty, or ends in a slash.
    pub prefix: String,
    pub store: Arc<dyn ObjectStore>,
    pub multipart: Option<Arc<dyn MultipartStore>>,
    pub secrets: Secrets,
    /// Whether its vendor documents that a multipart upload is completed only if its condition
    /// holds. A successful trial proves nothing: what some stores get wrong is two completions at
    /// the same time.
    pub conditional_uploads: bool,
}

/// The kind of remote store that a URL scheme stands for, if any.
pub(crate) fn kind_of(scheme: &str) -> Option<Kind> {
    Some(match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => Kind::S3,
        "gs" | "gcs" => Kind::Google,
        "az" | "azure" | "abfs" | "abfss" => Kind::Azure,
        "http" | "https" => Kind::Http,
        _ => return None,
    })
}

/// The parts of an object store's URL.
struct Address<'a> {
    kind: Kind,
    scheme: &'a str,
    bucket: &'a str,
    /// Below the bucket, without leading or trailing slashes.
    path: &'a str,
}

impl<'a> Address<'a> {
    /// Parses what follows the scheme; an error is the reason why it cannot.
    fn parse(kind: Kind, scheme: &'a str, rest: &'a str) -> Result<Self, &'static str> {
        if rest.contains(['?', '#']) {
            return Err("object names are taken literally and may not contain ? or #");
        }
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err("it names no bucket; write it as scheme://bucket/path");
        }
        // Azure's URLs may have an account after an @, and Amazon resource names contain colons.
        let is_name = !bucket.contains(':') || bucket.starts_with("arn:");
        if !is_name || (kind != Kind::Azure && bucket.contains('@')) {
            return Err("it does not name a bucket; pass users and passwords as options");
        }
        Ok(Self { kind, scheme, bucket, path: path.trim_matches('/') })
    }

    /// For messages.
    fn name(&self) -> String {
        let Self { scheme, bucket, path, .. } = self;
        if path.is_empty() {
            format!("{scheme}://{bucket}")
        } else {
            format!("{scheme}://{bucket}/{path}")
        }
    }

    /// The prefix of all keys.
    fn prefix(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!("{}/", self.path) }
    }

    /// The same for the same place on a host, whatever it is called.
    fn identity(&self, host: &str) -> String {
        let canonical = match self.kind {
            Kind::S3 => "s3",
            Kind::Google => "gs",
            _ => "az",
        };
        let bucket = self.bucket.split_once('@').map_or(self.bucket, |(container, _)| container);
        let identity = format!("{canonical}://{host}/{bucket}/{}", self.path);
        identity.trim_end_matches('/').to_owned()
    }
}

/// What a client is built from.
struct Order<'a> {
    address: Address<'a>,
    tuning: &'a Tuning,
    /// The options of the `object_store` crate.
    options: Vec<(String, String)>,
    connector: Connector,
    /// All their values: an error about one can be reported without it, and under a wrong name it
    /// may be anything.
    values: Secrets,
}

impl Order<'_> {
    /// The options, with their names as the builder of a store knows them.
    fn config<K: FromStr>(
        &self,
        store: &'static str,
    ) -> impl Iterator<Item = Result<(K, String), StoreError>> {
        self.options.iter().map(move |(name, value)| {
            let key = name.parse().map_err(|_| unknown(name, store))?;
            Ok((key, value.clone()))
        })
    }

    /// The settings of the HTTP client, except those that the user has set.
    fn client_config(&self, plain: bool) -> Vec<(ClientConfigKey, String)> {
        client_config(self.tuning, plain, &client_names(&self.options))
    }

    /// What is wrong with the options, without secrets.
    fn failed(&self, secrets: &Secrets, error: &object_store::Error) -> StoreError {
        let reason = self.values.hide(&secrets.hide(&chain(error)));
        StoreError::Url { url: self.address.name(), reason }
    }
}

/// A client of an object store.
struct Client {
    /// Distinguishes it from other stores of its kind.
    host: String,
    store: Arc<dyn ObjectStore>,
    multipart: Arc<dyn MultipartStore>,
    /// See [`Place::conditional_uploads`].
    conditional_uploads: bool,
}

/// Creates the client for a URL. Makes no request.
pub(crate) fn connect(
    url: &str,
    tuning: &Tuning,
    options: Vec<(String, String)>,
    connector: Connector,
) -> Result<Place, StoreError> {
    let bad =
        |reason: &str| StoreError::Url { url: without_secrets(url), reason: reason.to_owned() };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
    let kind = kind_of(scheme).ok_or_else(|| bad("its scheme is not one of a remote store"))?;
    // Both possible TLS engines may be linked; this chooses one. It is fine if one was chosen
    // before.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut secrets = Secrets::default();
    secrets.add_pairs(options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let mut values = secrets.clone();
    options.iter().for_each(|(_, value)| values.add(Some(value)));
    if kind == Kind::Http {
        return http(url, tuning, options, connector, secrets, &|error| bad(&values.hide(error)));
    }
    let address = Address::parse(kind, scheme, rest).map_err(bad)?;
    let order = Order { address, tuning, options, connector, values };
    let Client { host, store, multipart, conditional_uploads } = match kind {
        Kind::S3 => s3(&order, &mut secrets)?,
        Kind::Google => google(&order, &mut secrets)?,
        _ => azure(&order, &mut secrets)?,
    };
    let (name, prefix) = (order.address.name(), order.address.prefix());
    let (identity, multipart) = (order.address.identity(&host), Some(multipart));
    Ok(Place {
        kind,
        url: name.clone(),
        name,
        has_user: false,
        identity,
        prefix,
        store,
        multipart,
        secrets,
        conditional_uploads,
    })
}

fn s3(order: &Order<'_>, secrets: &mut Secrets) -> Result<Client, StoreError> {
    // Objects are removed one by one, since not every store supports bulk deletion.
    let mut builder = AmazonS3Builder::from_env().with_disable_bulk_delete(true);
    for pair in order.config::<AmazonS3ConfigKey>("S3") {
        let (key, value) = pair?;
        builder = builder.with_config(key, value);
    }
    let endpoints = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
    let endpoint = endpoints.iter().find_map(|key| builder.get_config_value(key));
    let conditional_uploads = endpoint.as_deref().is_none_or(is_amazon);
    let keys = [AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::Token];
    keys.iter().for_each(|key| secrets.add(builder.get_config_value(key).as_deref()));
    for (key, value) in order.client_config(endpoint.as_deref().is_some_and(is_plain)) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if order.tuning.anonymous {
        builder = builder.with_skip_signature(true).with_credentials(credentials::unsigned_s3());
    }
    let builder = builder.with_bucket_name(order.address.bucket).with_retry(retry(order.tuning));
    let store = builder.with_http_connector(order.connector.clone()).build();
    let store = Arc::new(store.map_err(|error| order.failed(secrets, &error))?);
    drop(order.connector.signer.set(Signer::S3((*store).clone())));
    let host = endpoint.map_or_else(|| "aws".to_owned(), |endpoint| host_of(&endpoint));
    Ok(Client { host, multipart: Arc::<AmazonS3>::clone(&store), store, conditional_uploads })
}

fn google(order: &Order<'_>, secrets: &mut Secrets) -> Result<Client, StoreError> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for pair in order.config::<GoogleConfigKey>("Google Cloud Storage") {
        let (key, value) = pair?;
        builder = builder.with_config(key, value);
    }
    secrets.add(builder.get_config_value(&GoogleConfigKey::ServiceAccountKey).as_deref());
    for (key, value) in order.client_config(false) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if order.tuning.anonymous {
        builder =
            builder.with_skip_signature(true).with_credentials(credentials::unsigned_google());
    }
    let builder = builder.with_bucket_name(order.address.bucket).with_retry(retry(order.tuning));
    let store = builder.with_http_connector(order.connector.clone()).build();
    let store = Arc::new(store.map_err(|error| order.failed(secrets, &error))?);
    let (host, conditional_uploads) = ("google".to_owned(), false);
    let multipart = Arc::<GoogleCloudStorage>::clone(&store);
    Ok(Client { host, multipart, store, conditional_uploads })
}

fn azure(order: &Order<'_>, secrets: &mut Secrets) -> Result<Client, StoreError> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    for pair in order.config::<AzureConfigKey>("Azure") {
        let (key, value) = pair?;
        builder = builder.with_config(key, value);
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let keys = [AzureConfigKey::AccessKey, AzureConfigKey::ClientSecret, AzureConfigKey::SasKey];
    keys.iter().for_each(|key| secrets.add(builder.get_config_value(key).as_deref()));
    for (key, value) in order.client_config(endpoint.as_deref().is_some_and(is_plain)) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    let mut connector = order.connector.clone();
    // This type names the metadata service explicitly.
    let credential_type = builder.get_config_value(&AzureConfigKey::CredentialType);
    connector.instance_credentials |= credential_type.as_deref() == Some("managed_identity");
    // A platform for containers sets both: what it names is asked, and no fixed address.
    let by_platform = ["IDENTITY_ENDPOINT", "IDENTITY_HEADER"];
    connector.instance_credentials |=
        by_platform.iter().all(|name| std::env::var_os(name).is_some());
    if order.tuning.anonymous {
        builder = builder.with_skip_signature(true).with_credentials(credentials::unsigned_azure());
    }
    let Address { scheme, bucket, .. } = order.address;
    let with_account = bucket.split_once('@');
    let builder = match with_account {
        Some(_) => builder.with_url(format!("{scheme}://{bucket}")),
        None => builder.with_container_name(bucket),
    };
    let account = builder.get_config_value(&AzureConfigKey::AccountName);
    let emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
    let emulator = emulator.map(|value| value.to_ascii_lowercase());
    let is_emulator =
        emulator.is_some_and(|value| ["1", "true", "on", "yes", "y"].contains(&value.as_str()));
    if account.is_none() && with_account.is_none() && !is_emulator {
        let reason = "it names no account: set AZURE_STORAGE_ACCOUNT_NAME or the option account_name, or write it as \
                      az://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH";
        return Err(StoreError::Url { url: order.address.name(), reason: reason.to_owned() });
    }
    let builder = builder.with_retry(retry(order.tuning));
    let store = builder.with_http_connector(connector).build();
    let store = Arc::new(store.map_err(|error| order.failed(secrets, &error))?);
    let from_url = with_account.and_then(|(_, host)| host.split('.').next());
    // The emulator's account has this name, which the builder knows but does not expose.
    let account = account.or(from_url.map(str::to_owned));
    let account = account.unwrap_or_else(|| "devstoreaccount1".to_owned());
    let host = endpoint.map_or_else(|| account.clone(), |endpoint| host_of(&endpoint));
    drop(order.connector.signer.set(Signer::Azure { store: (*store).clone(), account }));
    let multipart = Arc::<MicrosoftAzure>::clone(&store);
    Ok(Client { host, multipart, store, conditional_uploads: true })
}

/// Whether an endpoint is reached without TLS.
fn is_plain(endpoint: &str) -> bool {
    endpoint.to_ascii_lowercase().starts_with("http://")
}

/// An endpoint without its scheme and secrets.
fn host_of(endpoint: &str) -> String {
    let endpoint = without_secrets(endpoint);
    let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, host)| host);
    host.trim_end_matches('/').to_owned()
}

/// Whether an endpoint is one of Amazon's own.
fn is_amazon(endpoint: &str) -> bool {
    let host = Url::parse(endpoint).ok().and_then(|url| url.host_str().map(str::to_lowercase));
    host.is_some_and(|host| {
        [".amazonaws.com", ".amazonaws.com.cn"].iter().any(|domain| host.ends_with(domain))
    })
}

fn http(
    url: &str,
    tuning: &Tuning,
    others: Vec<(String, String)>,
    connector: Connector,
    mut secrets: Secrets,
    bad: &dyn Fn(&str) -> StoreError,
) -> Result<Place, StoreError> {
    let parsed = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(bad("a data set is more than one object, so its URL has no query or fragment"));
    }
    secrets.add_password(url);
    let named = client_names(&others);
    let mut options = ClientOptions::new();
    for (name, value) in others {
        let key: ClientConfigKey = name.parse().map_err(|_| unknown(&name, "HTTP"))?;
        options = options.with_config(key, value);
    }
    for (key, value) in client_config(tuning, parsed.scheme() == "http", &named) {
        options = options.with_config(key, value);
    }
    let builder = HttpBuilder::new()
        .with_url(parsed.as_str().trim_end_matches('/'))
        .with_client_options(options)
        .with_retry(retry(tuning))
        .with_http_connector(connector);
    let store = builder.build().map_err(|error| bad(&secrets.hide(&chain(&error))))?;
    let name = without_secrets(url).trim_end_matches('/').to_owned();
    let has_user = !parsed.username().is_empty() || parsed.password().is_some();
    let url = without_secrets(parsed.as_str()).trim_end_matches('/').to_owned();
    let (prefix, store) = (String::new(), Arc::new(store));
    let identity = name.clone();
    Ok(Place {
        kind: Kind::Http,
        name,
        url,
        has_user,
        identity,
        prefix,
        store,
        multipart: None,
        secrets,
        conditional_uploads: false,
    })
}

/// A URL without a password, a query or a fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let without_user = match (url.split_once("://"), user_of(url)) {
        (Some((scheme, rest)), Some(user)) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        _ => url.to_owned(),
    };
    let end = without_user.find(['?', '#']).unwrap_or(without_user.len());
    without_user[..end].to_owned()
}

/// The user and password in a URL, which precede an @.
pub(crate) fn user_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let user = match host.rfind('@') {
        Some(at) => &host[..at],
        // Something in the place of a port that is not a number is the start of a password
        // containing a slash or the like.
        None if port.is_some_and(|port| !port.bytes().all(|b| b.is_ascii_digit())) => {
            &rest[..rest.rfind('@')?]
        }
        None => return None,
    };
    // In Azure's URLs, the container precedes the @.
    let is_container = kind_of(scheme) == Some(Kind::Azure) && !user.contains(':');
    (!is_container).then_some(user)
}

/// A path as it appears in a URL: everything but letters, digits, `-`, `.`, `_`, `~` and slashes is
/// escaped.
pub fn path_in_url(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'/' => escaped.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn unknown(name: &str, store: &str) -> StoreError {
    refuse(name, &format!("{store} has no such option"))
}

fn retry(tuning: &Tuning) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: tuning.max_retries,
        retry_timeout: tuning.retry_timeout,
    }
}

/// The names of options as the HTTP client knows them, without the prefix of a store.
fn client_names(options: &[(String, String)]) -> Vec<String> {
    let short = |name: &str| {
        let prefixes = ["aws_", "azure_", "google_"];
        let short = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
        short.unwrap_or(name).to_owned()
    };
    options.iter().map(|(name, _)| short(name)).collect()
}

/// The settings of the HTTP client, except those that the user has set.
fn client_config(tuning: &Tuning, plain: bool, named: &[String]) -> Vec<(ClientConfigKey, String)> {
    let seconds = format!("{} seconds", tuning.read_timeout.as_secs());
    let connect = format!("{} seconds", CONNECT_TIMEOUT.as_secs());
    // A large part on a slow line takes its time; what counts is that something moves.
    let mut config = vec![
        (ClientConfigKey::ReadTimeout, seconds),
        (ClientConfigKey::Timeout, "1 day".to_owned()),
        (ClientConfigKey::ConnectTimeout, connect),
        // Connections are kept for the next batch.
        (ClientConfigKey::PoolMaxIdlePerHost, tuning.requests.to_string()),
    ];
    if plain {
        config.push((ClientConfigKey::AllowHttp, "true".to_owned()));
    }
    config.retain(|(key, _)| !named.iter().any(|name| name == key.as_ref()));
    config
}

/// An error and its causes, each once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        next = cause.source();
    }
    text
}
