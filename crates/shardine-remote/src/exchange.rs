//! What goes over the wire beside what `object_store` knows of.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use object_store::azure::{AzureAuthorizer, AzureCredential, MicrosoftAzure};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::{ClientOptions, HeaderMap};

use crate::cost::Cost;

/// Of one request: headers to be added to it, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Added to each request made in its scope.
    pub headers: HeaderMap,
    status: AtomicU16,
}

tokio::task_local! {
    static EXCHANGE: Arc<Exchange>;
}

impl Exchange {
    /// With headers.
    pub fn with(headers: HeaderMap) -> Arc<Self> {
        Arc::new(Self { headers, status: AtomicU16::new(0) })
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
            return self.inner.execute(request).await;
        };
        if !exchange.headers.is_empty() {
            for (name, value) in &exchange.headers {
                request.headers_mut().insert(name, value.clone());
            }
            self.sign(&mut request).await?;
        }
        exchange.status.store(0, Ordering::Relaxed);
        // What is sent takes time of its own, which says nothing about the distance.
        let sent = request.body().is_empty().then(Instant::now);
        let response = self.inner.execute(request).await?;
        if let Some(sent) = sent {
            self.connector.cost.head(sent.elapsed());
        }
        exchange.status.store(response.status().as_u16(), Ordering::Relaxed);
        Ok(response)
    }
}

impl Service {
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
