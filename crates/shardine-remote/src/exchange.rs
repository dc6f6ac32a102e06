//! What goes over the wire beyond what `object_store` supports.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::azure::{AzureAuthorizer, AzureCredential, MicrosoftAzure};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientConfigKey, ClientOptions, HeaderMap, HeaderValue};

use crate::commit::WRITES;
use crate::cost::Cost;
use crate::credentials::NoCredentials;
use crate::options::CONNECT_TIMEOUT;
use crate::spool::Spool;

/// No answer to a write is longer, nor is a list of a thousand objects; no error message needs to
/// be.
const LONGEST: usize = 16 << 20;

/// How many times as long as other requests one with a body from disk may make no progress before
/// it is abandoned: a store that has received all of a large body may have much to do before it
/// answers.
const PATIENCE: u32 = 4;

/// The context of one request: headers to add to it, and its outcome.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Added to the request that completes an upload.
    pub headers: HeaderMap,
    /// Whether answers are read whole into memory, so that one that breaks off is retried.
    whole: bool,
    /// Sent instead of the body of the write.
    spool: Option<Arc<Spool>>,
    status: AtomicU16,
}

tokio::task_local! {
    static EXCHANGE: Arc<Exchange>;
}

impl Exchange {
    /// An exchange with these headers.
    pub fn with(headers: HeaderMap) -> Arc<Self> {
        Arc::new(Self { headers, ..Self::default() })
    }

    /// An exchange whose answers are read whole, such as listings.
    pub fn whole() -> Arc<Self> {
        Arc::new(Self { whole: true, ..Self::default() })
    }

    /// An exchange that writes a body from disk.
    pub fn sending(spool: Arc<Spool>) -> Arc<Self> {
        Arc::new(Self { spool: Some(spool), ..Self::default() })
    }

    /// Runs the future that makes the request.
    pub async fn run<T>(self: &Arc<Self>, request: impl Future<Output = T>) -> T {
        EXCHANGE.scope(Arc::clone(self), request).await
    }

    /// The status of the last answer; 0 if there was none.
    pub fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }
}

/// Creates clients that support exchanges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// Records how long answers take.
    pub cost: Arc<Cost>,
    /// Signs requests again that were modified. Azure's signature covers conditions; that of S3
    /// need not, but it covers the body.
    pub signer: Arc<OnceLock<Signer>>,
    /// How long a request may make no progress.
    pub read_timeout: Duration,
    /// Whether all requests go to Google Cloud Storage.
    pub is_google: bool,
    /// Whether the metadata service of the machine may be asked for credentials.
    pub instance_credentials: bool,
}

/// Signs requests.
#[derive(Debug)]
pub(crate) enum Signer {
    S3(AmazonS3),
    Azure { store: MicrosoftAzure, account: String },
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        let (options, sender) = (options.clone(), OnceLock::new());
        Ok(HttpClient::new(Service { inner, connector: self.clone(), options, sender }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    connector: Connector,
    options: ClientOptions,
    /// The client for bodies from disk, which `object_store` does not support.
    sender: OnceLock<reqwest::Client>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.connector.instance_credentials
            && let Some(refused) = NoCredentials::of(&request)
        {
            return Err(HttpError::new(HttpErrorKind::Unknown, refused));
        }
        let Ok(exchange) = EXCHANGE.try_with(Arc::clone) else {
            return self.execute(request, false).await;
        };
        if !exchange.headers.is_empty() && is_completion(&request) {
            for (name, value) in &exchange.headers {
                request.headers_mut().insert(name, value.clone());
            }
            self.sign(&mut request).await?;
        }
        if let Some(spool) = &exchange.spool
            && is_write(&request)
        {
            exchange.status.store(0, Ordering::Relaxed);
            let response = self.send_spooled(request, spool).await?;
            exchange.status.store(response.status().as_u16(), Ordering::Relaxed);
            return Ok(response);
        }
        exchange.status.store(0, Ordering::Relaxed);
        // Sending a body takes time of its own, which says nothing about the latency.
        let sent = (request.body().content_length() == 0).then(Instant::now);
        let response = self.execute(request, exchange.whole).await?;
        if let Some(sent) = sent {
            self.connector.cost.head(sent.elapsed());
        }
        exchange.status.store(response.status().as_u16(), Ordering::Relaxed);
        Ok(response)
    }
}

/// Whether a request completes an upload. Other requests may be made in the scope of an exchange,
/// for a token, for example; these do not belong to it.
fn is_completion(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("uploadId=") || query.contains("comp=blocklist")
}

/// Whether a request writes an object.
fn is_write(request: &HttpRequest) -> bool {
    let is_mark = |name: &str| name.ends_with("-meta-shardinewrites");
    debug_assert_eq!(WRITES, "shardinewrites");
    request.method().as_str() == "PUT" && request.headers().keys().any(|n| is_mark(n.as_str()))
}

impl Service {
    /// Makes a request. If `object_store` would read the whole answer into memory, its length is
    /// limited.
    async fn execute(&self, request: HttpRequest, whole: bool) -> Result<HttpResponse, HttpError> {
        let mut request = request;
        let is_read = request.method().as_str() == "GET" && !whole;
        // Google decodes gzip objects for clients that do not accept gzip, and then does not
        // support ranges.
        let is_google = || request.uri().host() == Some("storage.googleapis.com");
        if ["GET", "HEAD"].contains(&request.method().as_str())
            && (self.connector.is_google || is_google())
        {
            let gzip = HeaderValue::from_static("gzip");
            request.headers_mut().insert("accept-encoding", gzip);
        }
        let response = self.inner.execute(request).await?;
        let is_error = !response.status().is_success();
        if is_read && !is_error {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let mut body = body.bytes_stream();
        let mut kept = Vec::new();
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => kept.extend_from_slice(&piece),
                // The status says what is wrong, and must not be lost because the message is.
                Err(_) if is_error => break,
                Err(error) => return Err(HttpError::new(HttpErrorKind::Interrupted, error)),
            }
            if kept.len() > LONGEST {
                kept.truncate(LONGEST);
                break;
            }
        }
        // A message that is not UTF-8 would hide the status as well.
        let text = String::from_utf8_lossy(&kept).into_owned();
        Ok(HttpResponse::from_parts(parts, text.into()))
    }

    async fn sign(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        let Some(Signer::Azure { store, account }) = self.connector.signer.get() else {
            return Ok(());
        };
        // Not signed in this way: anonymous, or with a token in its query.
        if !request.headers().contains_key("authorization") {
            return Ok(());
        }
        let refused = |error| HttpError::new::<object_store::Error>(HttpErrorKind::Unknown, error);
        let credential = store.credentials().get_credential().await.map_err(refused)?;
        if let AzureCredential::AccessKey(_) = &*credential {
            request.headers_mut().remove("authorization");
            let authorizer = AzureAuthorizer::new(&credential, account);
            authorizer.try_authorize(request).map_err(refused)?;
        }
        Ok(())
    }

    /// Makes a request with a body from disk in place of its own.
    async fn send_spooled(
        &self,
        mut request: HttpRequest,
        spool: &Arc<Spool>,
    ) -> Result<HttpResponse, HttpError> {
        let unknown = |error| HttpError::new::<std::io::Error>(HttpErrorKind::Unknown, error);
        request.headers_mut().insert("content-length", HeaderValue::from(spool.len()));
        self.sign_spooled(&mut request, spool).await?;
        let client = self.sender()?;
        let url = request.uri().to_string();
        let mut sent = client.put(url).body(reqwest::Body::wrap_stream(spool.stream()));
        sent = sent.headers(std::mem::take(request.headers_mut()));
        // There is no overall timeout, as the bandwidth is unknown. What counts is that bytes move.
        let answer = async {
            let mut answer = sent.send().await?;
            let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
            let mut body = Vec::new();
            while body.len() < LONGEST
                && let Some(piece) = answer.chunk().await?
            {
                body.extend_from_slice(&piece);
            }
            body.truncate(LONGEST);
            let text = String::from_utf8_lossy(&body).into_owned();
            let mut response = HttpResponse::new(text.into());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        };
        let patience = self.connector.read_timeout.saturating_mul(PATIENCE);
        let stalled = async {
            let mut before = spool.sent();
            loop {
                tokio::time::sleep(patience).await;
                let now = spool.sent();
                if now == before {
                    break;
                }
                before = now;
            }
        };
        tokio::select! {
            answer = answer => answer.map_err(|error: reqwest::Error| {
                let kind = match () {
                    () if error.is_connect() => HttpErrorKind::Connect,
                    () if error.is_timeout() => HttpErrorKind::Timeout,
                    () => HttpErrorKind::Interrupted,
                };
                HttpError::new(kind, error.without_url())
            }),
            () = stalled => {
                let message = format!("no data was transferred for {} seconds", patience.as_secs());
                Err(unknown(std::io::Error::new(std::io::ErrorKind::TimedOut, message)))
            }
        }
    }

    /// Signs a request whose body comes from disk, if it was signed.
    async fn sign_spooled(
        &self,
        request: &mut HttpRequest,
        spool: &Arc<Spool>,
    ) -> Result<(), HttpError> {
        let Some(Signer::S3(store)) = self.connector.signer.get() else {
            return self.sign(request).await;
        };
        let refused = |error| HttpError::new::<object_store::Error>(HttpErrorKind::Unknown, error);
        let unread = |error| HttpError::new::<std::io::Error>(HttpErrorKind::Unknown, error);
        // A requested checksum would be that of the placeholder body.
        let checksums: Vec<_> = request.headers().keys().cloned().collect();
        for name in checksums.iter().filter(|name| name.as_str().starts_with("x-amz-checksum-")) {
            request.headers_mut().remove(name);
        }
        let headers = request.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // Unsigned, as for a bucket that everybody may write to.
        let Some(signature) = text("authorization") else { return Ok(()) };
        let scope = signature.split_once("Credential=").and_then(|(_, rest)| rest.split_once(','));
        // The key, the day, the region and the service.
        let mut scope = scope.map_or("", |(scope, _)| scope).rsplit('/').skip(1);
        let (service, region) = (scope.next(), scope.next());
        let (Some(service), Some(region)) = (service, region) else {
            return Err(unread(std::io::Error::other("the signature has no scope")));
        };
        let (service, region) = (service.to_owned(), region.to_owned());
        let signs_body = text("x-amz-content-sha256") != Some("UNSIGNED-PAYLOAD");
        request.headers_mut().remove("authorization");
        let digest = match signs_body {
            true => Some(spool.digest().await.map_err(unread)?),
            false => None,
        };
        let credential = store.credentials().get_credential().await.map_err(refused)?;
        let authorizer = AwsAuthorizer::new(&credential, &service, &region);
        let authorizer = authorizer.with_sign_payload(signs_body);
        let digest = digest.as_ref().map(<[u8; 32]>::as_slice);
        authorizer.try_authorize(request, digest).map_err(refused)
    }

    /// The client for bodies from disk, configured the way `object_store` configures its own.
    fn sender(&self) -> Result<&reqwest::Client, HttpError> {
        if let Some(client) = self.sender.get() {
            return Ok(client);
        }
        let value = |key: ClientConfigKey| self.options.get_config_value(&key);
        let says = |key| value(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let refused =
            |error: reqwest::Error| HttpError::new(HttpErrorKind::Unknown, error.without_url());
        let mut builder = reqwest::Client::builder()
            .https_only(!says(ClientConfigKey::AllowHttp))
            .tls_danger_accept_invalid_certs(says(ClientConfigKey::AllowInvalidCertificates))
            .connect_timeout(CONNECT_TIMEOUT)
            .http1_only();
        builder = builder.user_agent(
            value(ClientConfigKey::UserAgent)
                .unwrap_or_else(|| concat!("shardine/", env!("CARGO_PKG_VERSION")).to_owned()),
        );
        if let Some(url) = value(ClientConfigKey::ProxyUrl) {
            let mut proxy = reqwest::Proxy::all(url).map_err(refused)?;
            if let Some(excludes) = value(ClientConfigKey::ProxyExcludes) {
                proxy = proxy.no_proxy(reqwest::NoProxy::from_string(&excludes));
            }
            if let Some(pem) = value(ClientConfigKey::ProxyCaCertificate) {
                let certificate = reqwest::Certificate::from_pem(pem.as_bytes());
                builder = builder.tls_certs_merge([certificate.map_err(refused)?]);
            }
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(refused)?;
        Ok(self.sender.get_or_init(|| client))
    }
}
