//! The server, by hand-written HTTP.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::{Request, Server, ServerOptions, Web, WebConfig};

/// A connection to the server of one host.
struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    fn connect(server: &Server, host: &str) -> Self {
        let stream = TcpStream::connect(&server.resolve()[host]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream: BufReader::new(stream), host: host.to_owned() }
    }

    fn send(&mut self, method: &str, path: &str, fields: &str) {
        let host = &self.host;
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hand/1\r\n{fields}\r\n");
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
    }

    fn get(&mut self, path: &str, fields: &str) -> (u16, String, Vec<u8>) {
        self.send("GET", path, fields);
        self.receive()
    }

    fn receive(&mut self) -> (u16, String, Vec<u8>) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.stream.read_line(&mut head).unwrap() > 0, "the connection ended within {head:?}");
        }
        let status = head[9..12].parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        (status, head, body)
    }
}

fn server(options: ServerOptions) -> (Web, Server) {
    let web = Web::new(WebConfig::small(1));
    let server = Server::start(web.clone(), options).unwrap();
    (web, server)
}

#[test]
fn pages_are_served_on_one_connection_and_logged() {
    let (web, server) = server(ServerOptions::default());
    let mut client = Client::connect(&server, "docs.site-000.test");
    for path in ["/robots.txt", "/", "/", "/nothing"] {
        let (status, _, body) = client.get(path, "");
        let answer = web.answer(&Request::get("docs.site-000.test", path));
        assert_eq!(status, answer.status);
        assert_eq!(body, answer.body, "{path}");
    }
    let log = server.take_log();
    assert_eq!(
        log.iter().map(|seen| (seen.path.as_str(), seen.status)).collect::<Vec<_>>(),
        [("/robots.txt", 404), ("/", 200), ("/", 200), ("/nothing", 404)]
    );
    let resolved = &server.resolve()["docs.site-000.test"];
    for seen in &log {
        assert_eq!((&*seen.host, &*seen.user_agent), ("docs.site-000.test", "hand/1"));
        assert_eq!(seen.peer, log[0].peer);
        assert_eq!(&seen.local.to_string(), resolved);
    }
    assert!(log.is_sorted_by_key(|seen| seen.at));
    assert!(server.log().is_empty(), "it was taken");
    assert_eq!(server.requests(), 4);
}

#[test]
fn requests_are_counted_and_failures_pass() {
    let (web, server) = server(ServerOptions::default());
    let expected = web.expected();
    let (url, failing) = expected.failing.iter().find(|(_, failing)| **failing == 2).unwrap();
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let path = format!("/{path}");
    let mut client = Client::connect(&server, host);
    let failed: Vec<bool> = (0..4).map(|_| client.get(&path, "").0 >= 500).collect();
    assert_eq!(failed, [true, true, false, false], "{failing} failures");
    assert_eq!(server.request_counts()[&(host.into(), path)], 4);
}

#[test]
fn gzip_is_for_those_who_accept_it_and_time_moves_on() {
    let (web, server) = server(ServerOptions::default());
    let mut client = Client::connect(&server, "www.site-000.test");
    let coded = web.expected().fetched.into_keys().find(|url| {
        let path = url.strip_prefix("http://www.site-000.test");
        let request = |path| Request { accepts_gzip: true, ..Request::get("www.site-000.test", path) };
        path.is_some_and(|path| web.answer(&request(path)).headers.contains_key("content-encoding"))
    });
    let path = coded.unwrap().replace("http://www.site-000.test", "");
    let (_, head, coded) = client.get(&path, "Accept-Encoding: br, gzip\r\n");
    assert!(head.contains("content-encoding: gzip"));
    let (_, head, plain) = client.get(&path, "");
    assert!(!head.contains("content-encoding"));
    let mut decoded = Vec::new();
    flate2::read::GzDecoder::new(&*coded).read_to_end(&mut decoded).unwrap();
    assert_eq!(decoded, plain);

    let (_, _, before) = client.get("/", "");
    server.set_epoch(1);
    let (_, _, after) = client.get("/", "");
    assert_ne!(before, after, "home pages change every day");
}

#[test]
fn conditional_requests_are_answered() {
    let (web, server) = server(ServerOptions::default());
    let with_etag = web.expected().fetched.into_keys().find_map(|url| {
        let path = url.strip_prefix("http://www.site-000.test")?.to_owned();
        let answer = web.answer(&Request::get("www.site-000.test", &path));
        Some((path, answer.headers.get("etag")?.to_str().unwrap().to_owned()))
    });
    let (path, etag) = with_etag.unwrap();
    let mut client = Client::connect(&server, "www.site-000.test");
    let (status, head, body) = client.get(&path, &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((status, body.len()), (304, 0));
    assert!(head.contains(&etag));
    assert_eq!(client.get(&path, "If-None-Match: \"other\"\r\n").0, 200);
}

#[test]
fn odd_requests_are_answered_and_do_no_harm() {
    let (_, server) = server(ServerOptions { log_limit: 2, ..ServerOptions::default() });
    let mut client = Client::connect(&server, "www.site-000.test");
    client.send("POST", "/", "Content-Length: 0\r\n");
    assert_eq!(client.receive().0, 405);
    client.host = "elsewhere.test:81".to_owned();
    assert_eq!(client.get("/", "").0, 404);
    client.host = "www.site-000.test:80".to_owned();
    assert_eq!(client.get("/", "").0, 200, "a port does not hide the host");
    assert_eq!(
        server.log().iter().map(|seen| &*seen.host).collect::<Vec<_>>(),
        ["www.site-000.test", "elsewhere.test"]
    );
    assert_eq!(server.requests(), 3, "counted beyond the log's limit");

    let mut garbage = Client::connect(&server, "www.site-000.test");
    garbage.stream.get_mut().write_all(b"\0\xff garbage \r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = garbage.stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
    assert_eq!(client.get("/robots.txt", "").0, 200, "others are served on");
}

#[test]
fn latency_is_waited_for() {
    let latency = Duration::from_millis(30)..Duration::from_millis(40);
    let web = Web::new(WebConfig { latency: Some(latency.clone()), ..WebConfig::small(1) });
    assert!(latency.contains(&web.answer(&Request::get("www.site-000.test", "/")).latency));
    let server = Server::start(web, ServerOptions::default()).unwrap();
    let started = std::time::Instant::now();
    let mut client = Client::connect(&server, "www.site-000.test");
    client.get("/", "");
    assert!(started.elapsed() >= latency.start);
}

#[test]
fn the_config_names_every_host_and_dropping_stops() {
    let (web, server) = server(ServerOptions { addresses: 3, ..ServerOptions::default() });
    let toml = server.config_toml();
    let resolve = server.resolve();
    assert!(toml.starts_with("[downloader]\nallow_private_addresses = true\n"));
    assert!(toml.contains("[scope]\nkind = \"host\"\n"));
    for host in web.hosts() {
        assert!(toml.contains(&format!("\"{host}\" = \"{}\"\n", resolve[&host])));
        assert!(toml.contains(&format!("    \"{host}\",\n")));
    }
    let mut addresses: Vec<&String> = resolve.values().collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 3);
    let mut client = Client::connect(&server, "www.site-000.test");
    client.get("/robots.txt", "");
    drop(server);
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "connections end with the server");
}
