//! The downloader: made once, shared by every fetch.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use model::{CanonicalUrl, Clock, FailureKind, FetchOutcome};
use reqwest::{Client, Proxy, redirect};
use tokio::time::Instant;

use crate::address::AddressPolicy;
use crate::connecting::WatchedConnector;
use crate::failure::Failure;
use crate::fetch::{self, FetchRequest, Limits};
use crate::request::RequestHead;
use crate::resolve::{NameResolver, permitted};
use crate::{DownloaderConfig, DownloaderError, tls};

/// How long an unused connection is kept. reqwest bounds the connections kept per host and not in
/// all, so over many hosts this is what bounds them. It outlasts the usual pause between two
/// requests to a host.
const POOL_IDLE: Duration = Duration::from_secs(15);

/// Connections kept per host. One would be enough for one fetch at a time, were it back in the pool
/// when its answer ends; it comes back a moment later, and a host fetched without a pause then gets
/// a second one. With one place for the two, every other fetch connects anew, which made pages of
/// 30 kB over loopback cost more than twice the time.
const POOL_PER_HOST: usize = 2;

/// Largest head of an HTTP/2 answer, of which hyper takes 16 KiB by default; its HTTP/1.1 side
/// takes some 400 KiB in at most 100 fields.
const MAX_HTTP2_HEAD: u32 = 64 << 10;

/// Fetches pages. Cheap to clone: all clones share connections, names and limits.
///
/// ```
/// use downloader::{Downloader, DownloaderConfig, FetchRequest};
/// use model::{CanonicalUrl, Clock, FailureKind, FetchOutcome};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let downloader = Downloader::new(&DownloaderConfig::default(), "argiope/0.1", Clock::start())?;
/// let url = CanonicalUrl::parse("http://127.0.0.1/")?;
/// let outcome = downloader.fetch(FetchRequest { url, referrer: None, max_body: None }).await;
/// assert!(matches!(outcome, FetchOutcome::Failed { kind: FailureKind::PrivateAddress, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Downloader(Arc<Inner>);

struct Inner {
    client: Client,
    head: RequestHead,
    limits: Limits,
    names: NameResolver,
    policy: Arc<AddressPolicy>,
    proxied: bool,
    clock: Clock,
}

impl Downloader {
    /// A downloader that names itself `user_agent` to every server.
    ///
    /// # Errors
    /// When the configuration cannot be, or the certificates it names cannot be read.
    pub fn new(config: &DownloaderConfig, user_agent: &str, clock: Clock) -> Result<Self, DownloaderError> {
        config.check()?;
        let policy = Arc::new(AddressPolicy::new(config));
        // The one name looked up for a proxied crawl is the proxy's, which may well be a private one.
        let proxied = config.proxy.is_some();
        let reachable = if proxied { Arc::new(AddressPolicy::allow_all()) } else { Arc::clone(&policy) };
        let names = NameResolver::new(config, reachable);
        Ok(Self(Arc::new(Inner {
            client: client(config, &names)?,
            head: RequestHead::new(user_agent, &config.accept_language)?,
            limits: Limits::new(config),
            names,
            policy,
            proxied,
            clock,
        })))
    }

    /// The addresses of a URL's host that may be connected to, IPv4 before IPv6: at least one, but
    /// none where a proxy looks names up. Answers are kept for a minute to an hour, and those who
    /// ask at the same time share one look-up.
    ///
    /// # Errors
    /// [`FailureKind::DnsNotFound`], [`FailureKind::DnsFailed`] or [`FailureKind::PrivateAddress`],
    /// with what to say of it in the log.
    pub async fn resolve(&self, url: &CanonicalUrl) -> Result<Vec<IpAddr>, (FailureKind, String)> {
        let inner = &self.0;
        let addresses = match literal(url) {
            Some(address) => permitted(&inner.policy, "", vec![address]),
            None if inner.proxied => Ok(Vec::new()),
            None => inner.names.addresses(url.host()).await,
        };
        match addresses {
            Ok(addresses) => Ok(addresses.iter().map(SocketAddr::ip).collect()),
            Err(Failure { kind, detail }) => Err((kind, detail)),
        }
    }

    /// Makes one request and reads its answer, whatever that is.
    ///
    /// Ends by itself within the configured times; dropping the future closes the connection.
    pub async fn fetch(&self, request: FetchRequest) -> FetchOutcome {
        let started = Instant::now();
        match self.exchange(request, started).await {
            Ok(exchange) => FetchOutcome::Answered(Box::new(exchange)),
            Err(Failure { kind, detail }) => FetchOutcome::Failed { kind, detail, duration: started.elapsed() },
        }
    }

    async fn exchange(&self, request: FetchRequest, started: Instant) -> Result<model::Exchange, Failure> {
        let inner = &self.0;
        // The connector asks the resolver about names only: a literal address is checked here.
        if let Some(address) = literal(&request.url) {
            permitted(&inner.policy, "", vec![address])?;
        }
        let prepared = inner
            .head
            .request(&inner.client, request.url.to_url(), request.referrer.as_deref())
            .map_err(|error| Failure::new(FailureKind::Protocol, format!("making the request: {error}")))?;
        let mut exchange =
            fetch::exchange(&inner.client, prepared, request, &inner.limits, started, &inner.clock).await?;
        if inner.proxied {
            // That is the proxy's address, and the server's is not known.
            exchange.address = None;
        }
        Ok(exchange)
    }
}

impl std::fmt::Debug for Downloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Downloader").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

/// The address in a URL that names one. A canonical host is read just as the connector reads it.
fn literal(url: &CanonicalUrl) -> Option<SocketAddr> {
    let address: IpAddr = url.host().trim_matches(['[', ']']).parse().ok()?;
    Some(SocketAddr::new(address, url.port()))
}

fn client(config: &DownloaderConfig, names: &NameResolver) -> Result<Client, DownloaderError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls::client_config(config.http2, config.extra_ca.as_deref())?)
        .connect_timeout(config.connect_timeout.0)
        .connector_layer(tower_layer::layer_fn(WatchedConnector))
        .pool_max_idle_per_host(POOL_PER_HOST)
        .pool_idle_timeout(POOL_IDLE)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_title_case_headers()
        .http2_max_header_list_size(MAX_HTTP2_HEAD)
        // What old and home-made servers get wrong, and every browser reads all the same.
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        // The environment's proxies are not ours: what is not in the configuration has no effect.
        .no_proxy()
        .dns_resolver(names.clone());
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(Proxy::all(proxy)?);
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine makes it before there is a runtime, and shares it between threads.
    #[test]
    fn it_can_be_made_anywhere_and_shared() {
        fn shared(_: &(impl Clone + Send + Sync + 'static)) {}
        let downloader = Downloader::new(&DownloaderConfig::default(), "argiope", Clock::start()).unwrap();
        shared(&downloader);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let config = DownloaderConfig { max_concurrent: 0, ..DownloaderConfig::default() };
        let made = |config, agent| Downloader::new(config, agent, Clock::start());
        assert!(matches!(made(&config, "argiope"), Err(DownloaderError::Config(_))));
        assert!(matches!(made(&DownloaderConfig::default(), "\n"), Err(DownloaderError::UserAgent(_))));
    }
}
