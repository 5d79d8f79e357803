use downloader::{Downloader, DownloaderConfig};
use model::{CanonicalUrl, Clock, FailureKind};

use crate::server::{Server, fail, fetch, send};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A downloader that does not allow loopback unless `config` says so.
fn public(config: &str) -> Downloader {
    let config: DownloaderConfig = toml::from_str(config).unwrap();
    Downloader::new(&config, "argiope-test", Clock::start()).unwrap()
}

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

#[tokio::test]
async fn special_addresses_are_refused_before_connecting() {
    let server = Server::start(vec![send(ANSWER)]).await;
    let port = server.address.port();
    let downloader = public("resolve = { \"inside.example\" = \"127.0.0.1\" }");
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "localhost", "inside.example", "0"]
    {
        let url = url(&format!("http://{host}:{port}/"));
        let (kind, detail) = fail(&downloader, url.clone()).await;
        assert_eq!(kind, FailureKind::PrivateAddress, "{host}: {detail}");
        for words in ["--allow-private", "downloader.allow_private_addresses"] {
            assert!(detail.contains(words), "{detail}");
        }
        let (kind, _) = downloader.resolve(&url).await.unwrap_err();
        assert_eq!(kind, FailureKind::PrivateAddress, "{host}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn what_is_allowed_is_reached() {
    let server = Server::start(vec![send(ANSWER)]).await;
    for config in
        ["allow_private_addresses = true", "allow_networks = [\"127.0.0.0/8\"]", "allow_networks = [\"127.0.0.1\"]"]
    {
        let downloader = public(config);
        assert_eq!(fetch(&downloader, server.url("/")).await.body, b"ok", "{config}");
        assert_eq!(downloader.resolve(&server.url("/")).await, Ok(vec![server.address.ip()]), "{config}");
    }
}

#[tokio::test]
async fn a_names_override_gives_address_and_port() {
    let server = Server::start(vec![send(ANSWER)]).await;
    let port = server.address.port();
    let downloader = public(&format!(
        "allow_networks = [\"127.0.0.1\"]\n\
         resolve = {{ \"with-port.example\" = \"127.0.0.1:{port}\", \"without.example\" = \"127.0.0.1\" }}"
    ));
    assert_eq!(fetch(&downloader, url("http://with-port.example/")).await.address, Some(server.address));
    fetch(&downloader, url(&format!("http://without.example:{port}/"))).await;
    let hosts: Vec<_> = server
        .requests()
        .iter()
        .map(|head| head.lines().find(|line| line.starts_with("Host")).unwrap().to_owned())
        .collect();
    assert_eq!(hosts, ["Host: with-port.example".to_owned(), format!("Host: without.example:{port}")]);
    assert_eq!(downloader.resolve(&url("http://with-port.example/")).await, Ok(vec![server.address.ip()]));
}
