use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use downloader::Downloader;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use model::{CanonicalUrl, FailureKind, HttpVersion};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::server::{downloader, fail, fetch};

/// A server with a certificate for `server.test`, signed by an authority of its own; it answers with the
/// `Host` field it got, or a dash.
async fn start() -> (SocketAddr, JoinSet<()>) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let certificate = CertificateDer::from_pem_file(data.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(data.join("server.key")).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = service_fn(|request: Request<_>| async move {
                    let host =
                        request.headers().get("host").map_or(Bytes::from("-"), |host| host.as_bytes().to_vec().into());
                    Ok::<_, Infallible>(Response::new(Full::new(host)))
                });
                drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
            });
        }
    });
    (address, serving)
}

fn trusting(address: SocketAddr, more: &str) -> Downloader {
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ca.pem");
    downloader(&format!(
        "extra_ca = '{}'\n{more}\nresolve = {{ \"server.test\" = \"{address}\", \"other.test\" = \"{address}\" }}",
        authority.display()
    ))
}

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

#[tokio::test]
async fn an_added_authority_is_trusted_for_its_names() {
    let (address, _serving) = start().await;
    let downloader = trusting(address, "");
    let exchange = fetch(&downloader, url("https://server.test/")).await;
    assert_eq!((exchange.status, exchange.version), (200, HttpVersion::Http2));
    // Beside `:authority`, a `Host` field would make nginx refuse the request.
    assert_eq!(exchange.body, b"-");
    let (kind, detail) = fail(&downloader, url("https://other.test/")).await;
    assert_eq!(kind, FailureKind::Tls, "{detail}");
}

#[tokio::test]
async fn http2_is_offered_only_where_configured() {
    let (address, _serving) = start().await;
    let exchange = fetch(&trusting(address, "http2 = false"), url("https://server.test/")).await;
    assert_eq!(exchange.version, HttpVersion::Http11);
    assert_eq!(exchange.body, b"server.test");
}

#[tokio::test]
async fn an_authority_nobody_added_is_not_trusted() {
    let (address, _serving) = start().await;
    let downloader = downloader(&format!("resolve = {{ \"server.test\" = \"{address}\" }}"));
    let (kind, detail) = fail(&downloader, url("https://server.test/")).await;
    assert_eq!(kind, FailureKind::Tls, "{detail}");
}

#[tokio::test]
async fn a_server_without_tls_is_a_tls_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap();
    let mut answering = JoinSet::new();
    answering.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
        drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await);
    });
    let (kind, detail) = fail(&downloader(""), url(&format!("https://{plain}/"))).await;
    assert_eq!(kind, FailureKind::Tls, "{detail}");
}
