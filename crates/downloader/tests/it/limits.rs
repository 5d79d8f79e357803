use std::time::{Duration, Instant};

use model::{FetchOutcome, Truncation};

use crate::server::{Server, Step, downloader, fetch, request, send};

const ENDLESS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

async fn check(config: &str, script: Vec<Step>, body: &str, truncated: Option<Truncation>) {
    let name = format!("{script:.100?}");
    let server = Server::start(script).await;
    let started = Instant::now();
    let exchange = fetch(&downloader(config), server.url("/")).await;
    assert_eq!(String::from_utf8_lossy(&exchange.body), body, "{name}");
    assert_eq!(exchange.truncated, truncated, "{name}");
    assert!(started.elapsed() < Duration::from_secs(5), "{name}");
}

#[tokio::test]
async fn a_body_ends_at_its_cap() {
    let ten = |length: &str| vec![send(&format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\n0123456789"))];
    let cut = Some(Truncation::Length);
    check("max_body = \"4B\"", ten("Content-Length: 10"), "0123", cut).await;
    check("max_body = \"4B\"", ten("Connection: close"), "0123", cut).await;
    check("max_body = \"10B\"", ten("Content-Length: 10"), "0123456789", None).await;
    check("max_body = \"10B\"", ten("Connection: close"), "0123456789", None).await;
    let endless = vec![send(ENDLESS), Step::SendForever(b"2\r\nab\r\n")];
    check("max_body = \"5B\"", endless, "ababa", cut).await;
    // A length nobody can mean takes no memory, and the bytes that come are kept.
    check("", ten("Content-Length: 9999999999999"), "0123456789", Some(Truncation::Disconnect)).await;
}

#[tokio::test]
async fn a_request_may_have_its_own_cap() {
    let server = Server::start(vec![send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789")]).await;
    for (max_body, expected) in [(Some(3), "012"), (Some(20), "0123456789"), (None, "012345")] {
        let mut request = request(server.url("/"));
        request.max_body = max_body;
        let FetchOutcome::Answered(exchange) = downloader("max_body = \"6B\"").fetch(request).await else {
            panic!("no answer")
        };
        assert_eq!(String::from_utf8_lossy(&exchange.body), expected, "{max_body:?}");
    }
}

#[tokio::test]
async fn the_rest_of_a_body_is_not_read() {
    let mut server = Server::start(vec![send(ENDLESS), Step::SendForever(b"2\r\nab\r\n")]).await;
    fetch(&downloader("max_body = \"5B\""), server.url("/")).await;
    server.closed().await;
}

#[tokio::test]
async fn a_body_that_stops_is_kept_so_far() {
    let stops = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nso far"), Step::Hang];
    check("idle_timeout = \"300ms\"", stops, "so far", Some(Truncation::Time)).await;
    let stops = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nso far"), Step::Hang];
    check("total_timeout = \"300ms\"", stops, "so far", Some(Truncation::Time)).await;
}

#[tokio::test]
async fn time_ends_for_slow_and_for_fast_servers() {
    let dripping =
        vec![send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"), Step::Drip(Duration::from_millis(20))];
    let racing = vec![send(ENDLESS), Step::SendForever(b"2\r\nab\r\n")];
    for (script, config) in [
        (dripping, "idle_timeout = \"10s\"\ntotal_timeout = \"400ms\""),
        (racing, "max_body = \"1TiB\"\ntotal_timeout = \"400ms\""),
    ] {
        let server = Server::start(script).await;
        let exchange = fetch(&downloader(config), server.url("/")).await;
        assert_eq!(exchange.truncated, Some(Truncation::Time), "{config}");
        assert!(!exchange.body.is_empty(), "{config}");
        assert!((Duration::from_millis(400)..Duration::from_secs(5)).contains(&exchange.duration), "{config}");
    }
}

#[tokio::test]
async fn a_body_cut_by_the_other_side_is_kept() {
    let cut = Some(Truncation::Disconnect);
    for rest in [
        "Content-Length: 100\r\n\r\nso far",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nso far\r\n",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nso far\r\n100000\r\n",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nso far\r\nzzz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nso far\r\nffffffffffffffffff\r\n",
    ] {
        check("", vec![send(&format!("HTTP/1.1 200 OK\r\n{rest}"))], "so far", cut).await;
    }
}
