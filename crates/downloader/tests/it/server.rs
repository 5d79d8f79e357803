//! Servers that do what a script says, byte by byte, and a downloader to set upon them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use downloader::{Downloader, DownloaderConfig, FetchRequest};
use model::{CanonicalUrl, Clock, Exchange, FailureKind, FetchOutcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// One step of a server once it has read a request's head.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes again and again, until the other side is gone.
    SendForever(&'static [u8]),
    /// Sends a byte, waits so long, and so on.
    Drip(Duration),
    /// Neither sends nor closes.
    Hang,
    /// Closes with a reset rather than an orderly end.
    Reset,
}

pub(crate) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// A server of one script, which ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Heads of the requests, as they came.
    requests: Arc<Mutex<Vec<String>>>,
    /// Told once per connection that the other side has closed.
    closed: mpsc::Receiver<()>,
    _serving: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = mpsc::channel(64);
        let mut serving = JoinSet::new();
        let seen = Arc::clone(&requests);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(follow(stream, script.clone(), Arc::clone(&seen), closing.clone()));
            }
        });
        Self { address, requests, closed, _serving: serving }
    }

    pub(crate) fn url(&self, path: &str) -> CanonicalUrl {
        CanonicalUrl::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until the other side has closed a connection.
    pub(crate) async fn closed(&mut self) {
        tokio::time::timeout(Duration::from_secs(10), self.closed.recv()).await.expect("nobody closed the connection");
    }
}

async fn follow(
    mut stream: TcpStream,
    script: Vec<Step>,
    requests: Arc<Mutex<Vec<String>>>,
    closing: mpsc::Sender<()>,
) {
    while let Some(head) = read_head(&mut stream).await {
        requests.lock().unwrap().push(head);
        for step in &script {
            match step {
                Step::Send(bytes) => drop(stream.write_all(bytes).await),
                Step::SendForever(bytes) => while stream.write_all(bytes).await.is_ok() {},
                Step::Drip(pause) => {
                    while stream.write_all(b".").await.is_ok() {
                        tokio::time::sleep(*pause).await;
                    }
                }
                Step::Hang => {
                    // Until the other side closes, which ends the reading.
                    let mut rest = Vec::new();
                    drop(stream.read_to_end(&mut rest).await);
                }
                Step::Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            }
        }
        if !script.iter().any(|step| matches!(step, Step::Send(bytes) if keeps_alive(bytes))) {
            break;
        }
    }
    closing.send(()).await.ok();
}

/// Whether an answer leaves the connection open for another.
fn keeps_alive(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).contains("keep-alive")
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// A downloader with loopback allowed and everything else as `config` says.
pub(crate) fn downloader(config: &str) -> Downloader {
    let config: DownloaderConfig = toml::from_str(config).unwrap();
    let config = DownloaderConfig { allow_private_addresses: true, ..config };
    Downloader::new(&config, "argiope-test", Clock::start()).unwrap()
}

pub(crate) fn request(url: CanonicalUrl) -> FetchRequest {
    FetchRequest { url, referrer: None, max_body: None }
}

/// Fetches what has to be answered.
pub(crate) async fn fetch(downloader: &Downloader, url: CanonicalUrl) -> Exchange {
    match downloader.fetch(request(url)).await {
        FetchOutcome::Answered(exchange) => *exchange,
        failed @ FetchOutcome::Failed { .. } => panic!("{failed:?}"),
    }
}

/// Fetches what has to fail.
pub(crate) async fn fail(downloader: &Downloader, url: CanonicalUrl) -> (FailureKind, String) {
    match downloader.fetch(request(url)).await {
        FetchOutcome::Failed { kind, detail, .. } => (kind, detail),
        answered @ FetchOutcome::Answered(_) => panic!("{answered:?}"),
    }
}
