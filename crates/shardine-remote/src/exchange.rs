//! What goes over the wire beside what `object_store` knows of.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use object_store::azure::{AzureAuthorizer, AzureCredential, MicrosoftAzure};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, HeaderMap};

use crate::cost::Cost;

/// No answer to a write is longer, nor is a list of a thousand objects; no message of an error need be.
const LONGEST: usize = 16 << 20;

/// Of one request: headers to be added to it, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Added to the request that completes an upload.
    pub headers: HeaderMap,
    /// Whether answers are taken whole into memory, so that one that breaks off is asked for again.
    whole: bool,
    status: AtomicU16,
}

tokio::task_local! {
    static EXCHANGE: Arc<Exchange>;
}

impl Exchange {
    /// With headers.
    pub fn with(headers: HeaderMap) -> Arc<Self> {
        Arc::new(Self { headers, ..Self::default() })
    }

    /// Of answers that are taken whole, like those that list objects.
    pub fn whole() -> Arc<Self> {
        Arc::new(Self { whole: true, ..Self::default() })
    }

    /// Runs what makes the request.
    pub async fn run<T>(self: &Arc<Self>, request: impl Future<Output = T>) -> T {
        EXCHANGE.scope(Arc::clone(self), request).await
    }

    /// The status of the last answer; 0 if there was none.
    pub fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }
}

/// Makes clients that know of exchanges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// Told how long answers take.
    pub cost: Arc<Cost>,
    /// Who signs anew what was changed; Azure's signature covers conditions, that of S3 need not.
    pub signer: Arc<OnceLock<Signer>>,
}

/// Signs requests to Azure.
#[derive(Debug)]
pub(crate) struct Signer {
    pub store: MicrosoftAzure,
    pub account: String,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Service { inner, connector: self.clone() }))
    }
}

#[derive(Debug)]
struct Service {
    inner: HttpClient,
    connector: Connector,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Ok(exchange) = EXCHANGE.try_with(Arc::clone) else {
            return self.execute(request, false).await;
        };
        if !exchange.headers.is_empty() && is_completion(&request) {
            for (name, value) in &exchange.headers {
                request.headers_mut().insert(name, value.clone());
            }
            self.sign(&mut request).await?;
        }
        exchange.status.store(0, Ordering::Relaxed);
        // What is sent takes time of its own, which says nothing about the distance.
        let sent = (request.body().content_length() == 0).then(Instant::now);
        let response = self.execute(request, exchange.whole).await?;
        if let Some(sent) = sent {
            self.connector.cost.head(sent.elapsed());
        }
        exchange.status.store(response.status().as_u16(), Ordering::Relaxed);
        Ok(response)
    }
}

/// Whether a request completes an upload. In the scope of one others may be made, for a token, say: they are none of its.
fn is_completion(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("uploadId=") || query.contains("comp=blocklist")
}

impl Service {
    /// Makes a request. Of what `object_store` would take whole into memory, an answer has only so much.
    async fn execute(&self, request: HttpRequest, whole: bool) -> Result<HttpResponse, HttpError> {
        let is_read = request.method().as_str() == "GET" && !whole;
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
                // The status says what is wrong, and must not be lost for a message that is.
                Err(_) if is_error => break,
                Err(error) => return Err(HttpError::new(HttpErrorKind::Interrupted, error)),
            }
            if kept.len() > LONGEST {
                kept.truncate(LONGEST);
                break;
            }
        }
        // A message that is no UTF-8 would hide the status as well.
        let text = String::from_utf8_lossy(&kept).into_owned();
        Ok(HttpResponse::from_parts(parts, text.into()))
    }

    async fn sign(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        let Some(signer) = self.connector.signer.get() else { return Ok(()) };
        let refused = |error| HttpError::new::<object_store::Error>(HttpErrorKind::Unknown, error);
        let credential = signer.store.credentials().get_credential().await.map_err(refused)?;
        if let AzureCredential::AccessKey(_) = &*credential {
            request.headers_mut().remove("authorization");
            let authorizer = AzureAuthorizer::new(&credential, &signer.account);
            authorizer.try_authorize(request).map_err(refused)?;
        }
        Ok(())
    }
}
