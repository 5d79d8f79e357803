//! What a fetch costs beside what reqwest alone costs: `cargo run --release -p downloader --example fetch_speed`.
//!
//! A hyper server and 16 clients share one thread on loopback, so a figure is the processor time of
//! both sides for one page; the difference of two figures is the downloader's own. The two take
//! turns, and the best round of each counts: the others were disturbed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use downloader::{Downloader, DownloaderConfig, FetchRequest};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::{CanonicalUrl, Clock, FetchOutcome};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const CLIENTS: usize = 16;
const FETCHES: usize = 2_000;
const ROUNDS: usize = 12;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the figures are the program's result")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One server per client: a polite crawl has one fetch per host at a time.
    let mut serving = JoinSet::new();
    for body_size in [1_000, 30_000] {
        let mut urls = Vec::new();
        for _ in 0..CLIENTS {
            let address = serve(&mut serving, Bytes::from(vec![b'x'; body_size])).await?;
            urls.push(CanonicalUrl::parse(&format!("http://{address}/page?id=1"))?);
        }
        let config = DownloaderConfig { allow_private_addresses: true, ..DownloaderConfig::default() };
        let downloader = Downloader::new(&config, "argiope/0.1 (+http://example.com/bot)", Clock::start())?;
        let bare = bare_client()?;
        let (mut best_ours, mut best_bare) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let ours = |url: CanonicalUrl| {
                let downloader = downloader.clone();
                async move {
                    let request = FetchRequest { url, referrer: None, max_body: None };
                    match downloader.fetch(request).await {
                        FetchOutcome::Answered(exchange) => exchange.body.len(),
                        FetchOutcome::Failed { .. } => 0,
                    }
                }
            };
            best_ours = best_ours.min(round(&urls, body_size, ours).await);
            let bare = |url: CanonicalUrl| {
                let bare = bare.clone();
                async move {
                    let Ok(answer) = bare.get(url.as_str()).send().await else { return 0 };
                    answer.bytes().await.map_or(0, |body| body.len())
                }
            };
            best_bare = best_bare.min(round(&urls, body_size, bare).await);
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / (CLIENTS * FETCHES) as f64;
        println!(
            "{body_size:>6} bytes: {:.1} µs per fetch, {:.1} µs with reqwest alone",
            micros(best_ours),
            micros(best_bare)
        );
    }
    Ok(())
}

fn bare_client() -> Result<reqwest::Client, Box<dyn std::error::Error>> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build()?)
}

async fn round<F>(urls: &[CanonicalUrl], body_size: usize, fetch: impl Fn(CanonicalUrl) -> F) -> Duration
where
    F: Future<Output = usize> + Send + 'static,
{
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for url in urls {
        let fetches: Vec<_> = (0..FETCHES).map(|_| fetch(url.clone())).collect();
        clients.spawn(async move {
            for fetch in fetches {
                assert_eq!(fetch.await, body_size);
            }
        });
    }
    clients.join_all().await;
    started.elapsed()
}

async fn serve(serving: &mut JoinSet<()>, body: Bytes) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let body = body.clone();
            connections.spawn(async move {
                let answer = service_fn(move |_: Request<_>| {
                    let answer = Response::new(Full::new(body.clone()));
                    async move { Ok::<_, Infallible>(answer) }
                });
                let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
                served.await.ok();
            });
        }
    });
    Ok(address)
}
