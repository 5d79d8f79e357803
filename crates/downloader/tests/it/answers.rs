use std::sync::Arc;

use downloader::decode_body;
use model::{FetchOutcome, HttpVersion};

use crate::server::{Server, downloader, fetch, request, send};

#[tokio::test]
async fn an_answer_is_kept_as_it_came() {
    let server = Server::start(vec![send(
        "HTTP/1.1 203 Fine\r\nContent-Type: text/html; charset=utf-8\r\nX-A: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
         Content-Length: 5\r\n\r\nhello",
    )])
    .await;
    let exchange = fetch(&downloader(""), server.url("/a?b=c")).await;
    assert_eq!((exchange.status, exchange.version), (203, HttpVersion::Http11));
    assert_eq!((exchange.body.as_slice(), exchange.truncated), (&b"hello"[..], None));
    assert_eq!(exchange.address, Some(server.address));
    assert_eq!(exchange.url, server.url("/a?b=c"));
    assert!(exchange.first_byte <= exchange.duration);
    let headers: Vec<_> = exchange.headers.iter().map(|(name, value)| (name, str::from_utf8(value).unwrap())).collect();
    assert_eq!(
        headers,
        [
            ("content-type", "text/html; charset=utf-8"),
            ("x-a", "1"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-length", "5"),
        ]
    );
}

#[tokio::test]
async fn what_is_recorded_is_what_was_sent() {
    let server = Server::start(vec![send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]).await;
    let referrer: Arc<str> = server.url("/from").shared();
    let plain = request(server.url("/a%20b?q=\u{e9}|{}"));
    let mut told = request(server.url("/with"));
    told.referrer = Some(referrer);
    let text = server.url("/").as_str().replace("http://", "http://me:secret@");
    let named = request(model::CanonicalUrl::parse(&text).unwrap());
    let downloader = downloader("accept_language = \"de\"");
    let mut recorded = Vec::new();
    for request in [plain, told, named] {
        match downloader.fetch(request).await {
            FetchOutcome::Answered(exchange) => recorded.push(String::from_utf8(exchange.request).unwrap()),
            failed @ FetchOutcome::Failed { .. } => panic!("{failed:?}"),
        }
    }
    assert_eq!(recorded, server.requests());
    let [plain, told, named] = recorded.try_into().unwrap();
    assert!(plain.starts_with("GET /a%20b?q=%C3%A9|{} HTTP/1.1\r\nUser-Agent: argiope-test\r\n"), "{plain}");
    assert!(told.contains(&format!("Referer: {}\r\n", server.url("/from"))), "{told}");
    assert!(named.contains("Authorization: Basic bWU6c2VjcmV0\r\n"), "{named}");
}

#[tokio::test]
async fn redirects_and_errors_are_answers() {
    for status in ["301 Moved", "404 Not Found", "429 Slow Down", "503 Busy"] {
        let answer = format!("HTTP/1.1 {status}\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
        let server = Server::start(vec![send(&answer)]).await;
        let exchange = fetch(&downloader(""), server.url("/")).await;
        assert!(status.starts_with(&exchange.status.to_string()));
        assert_eq!(exchange.location(), (exchange.status == 301).then_some("/elsewhere"));
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn what_is_compressed_stays_so_until_it_is_decoded() {
    let server =
        Server::start(vec![send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\nnotgzip")]);
    let server = server.await;
    let exchange = fetch(&downloader(""), server.url("/")).await;
    assert_eq!(exchange.body, b"notgzip");
    assert_eq!(exchange.headers.get_str("content-encoding"), Some("gzip"));
    assert!(decode_body(&exchange, 100).complaint.is_some());
}

#[tokio::test]
async fn cookies_are_not_sent_back() {
    let server = Server::start(vec![send(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    )])
    .await;
    let downloader = downloader("");
    for _ in 0..2 {
        fetch(&downloader, server.url("/")).await;
    }
    assert!(server.requests().iter().all(|head| !head.to_lowercase().contains("cookie")));
}

#[tokio::test]
async fn odd_answers_are_read_as_browsers_read_them() {
    for (answer, body) in [
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", "until the end"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"),
        ("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab", "ab"),
        ("HTTP/1.1 200 OK\r\nBad Header\r\nContent-Length: 2\r\n\r\nab", "ab"),
        ("HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nab", "ab"),
        ("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab", "ab"),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "ab"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab"),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef", "ab"),
    ] {
        let server = Server::start(vec![send(answer)]).await;
        let exchange = fetch(&downloader(""), server.url("/")).await;
        assert_eq!(String::from_utf8_lossy(&exchange.body), body, "{answer}");
        assert_eq!(exchange.truncated, None, "{answer}");
    }
}
