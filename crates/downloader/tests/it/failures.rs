use std::time::{Duration, Instant};

use model::FailureKind;
use tokio::net::TcpListener;

use crate::server::{Server, Step, downloader, fail, send};

/// Short enough to wait for, long enough not to pass by chance.
const TIMEOUTS: &str = "first_byte_timeout = \"300ms\"";

async fn check(script: Vec<Step>, expected: FailureKind) {
    let name = format!("{script:.60?}");
    let server = Server::start(script).await;
    let (kind, detail) = fail(&downloader(TIMEOUTS), server.url("/")).await;
    assert_eq!(kind, expected, "{name}: {detail}");
    assert!(!detail.is_empty() && detail.len() <= 300, "{name}: {detail}");
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    check(vec![Step::Hang], FailureKind::FirstByteTimeout).await;
    check(vec![send("HTTP/1.1 200 OK\r\nContent-"), Step::Hang], FailureKind::FirstByteTimeout).await;
    check(vec![send("HTTP/1.1 200 OK\r\nX: "), Step::Drip(Duration::from_millis(20))], FailureKind::FirstByteTimeout)
        .await;
}

#[tokio::test]
async fn a_server_that_leaves() {
    check(vec![], FailureKind::Disconnected).await;
    check(vec![Step::Reset], FailureKind::Disconnected).await;
    check(vec![send("HTTP/1.1 200 OK\r\nContent-")], FailureKind::Disconnected).await;
    check(vec![send("HTTP/1.1 200 OK\r\nContent-"), Step::Reset], FailureKind::Disconnected).await;
}

#[tokio::test]
async fn a_server_that_speaks_something_else() {
    check(vec![send("SSH-2.0-OpenSSH_9.6\r\n"), Step::Hang], FailureKind::Protocol).await;
    check(vec![send("<html>hello</html>\n")], FailureKind::Protocol).await;
    check(vec![send("HTTP/1.1 20 OK\r\n\r\n")], FailureKind::Protocol).await;
    check(vec![send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")], FailureKind::Protocol).await;
    check(vec![send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")], FailureKind::Protocol).await;
}

#[tokio::test]
async fn a_head_without_end() {
    check(vec![send("HTTP/1.1 200 OK\r\n"), Step::SendForever(b"X-Flood: 0123456789\r\n")], FailureKind::Protocol)
        .await;
    check(vec![send("HTTP/1.1 200 OK\r\nX: "), Step::SendForever(&[b'a'; 4096])], FailureKind::Protocol).await;
    check(vec![Step::SendForever(b"HTTP/1.1 103 Early Hints\r\nX: 0\r\n\r\n")], FailureKind::FirstByteTimeout).await;
}

#[tokio::test]
async fn nobody_there() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = model::CanonicalUrl::parse(&format!("http://{address}/")).unwrap();
    let (kind, detail) = fail(&downloader(""), url).await;
    assert_eq!(kind, FailureKind::ConnectRefused, "{detail}");
}

#[tokio::test]
async fn a_handshake_that_never_ends() {
    let server = Server::start(vec![Step::Hang]).await;
    let url = model::CanonicalUrl::parse(&format!("https://{}/", server.address)).unwrap();
    let limits = "connect_timeout = \"300ms\"\nfirst_byte_timeout = \"10s\"";
    let started = Instant::now();
    let (kind, detail) = fail(&downloader(limits), url).await;
    assert_eq!(kind, FailureKind::ConnectTimeout, "{detail}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_server_has_its_own_time_to_answer() {
    // With ten seconds to connect, a connection made at once leaves the server its 300 ms, no more.
    let server = Server::start(vec![Step::Hang]).await;
    let started = Instant::now();
    let (kind, _) =
        fail(&downloader("connect_timeout = \"10s\"\nfirst_byte_timeout = \"300ms\""), server.url("/")).await;
    assert_eq!(kind, FailureKind::FirstByteTimeout);
    assert!((Duration::from_millis(300)..Duration::from_secs(5)).contains(&started.elapsed()));
}

#[tokio::test]
async fn a_fetch_given_up_closes_its_connection() {
    let mut server = Server::start(vec![Step::Hang]).await;
    fail(&downloader(TIMEOUTS), server.url("/")).await;
    server.closed().await;
}
