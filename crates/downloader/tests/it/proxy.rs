use downloader::{Downloader, DownloaderConfig};
use model::{CanonicalUrl, Clock, FailureKind};

use crate::server::{Server, fail, fetch, send};

#[tokio::test]
async fn everything_goes_through_the_proxy() {
    let proxy = Server::start(vec![send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]).await;
    // By name and on loopback, which is allowed to the proxy and to nothing else.
    let config: DownloaderConfig = toml::from_str(&format!(
        "proxy = \"http://proxy.example:{}\"\nresolve = {{ \"proxy.example\" = \"127.0.0.1\" }}",
        proxy.address.port()
    ))
    .unwrap();
    let downloader = Downloader::new(&config, "argiope-test", Clock::start()).unwrap();
    let url = CanonicalUrl::parse("http://nowhere.invalid/a").unwrap();
    let exchange = fetch(&downloader, url.clone()).await;
    assert_eq!((exchange.body.as_slice(), exchange.address), (&b"ok"[..], None));
    assert!(proxy.requests()[0].starts_with("GET http://nowhere.invalid/a HTTP/1.1\r\n"));
    assert_eq!(downloader.resolve(&url).await, Ok(Vec::new()));

    let inside = CanonicalUrl::parse("http://127.0.0.1:9/").unwrap();
    assert_eq!(fail(&downloader, inside).await.0, FailureKind::PrivateAddress);
}
