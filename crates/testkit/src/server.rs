//! A web served on loopback, and a log of who asked for what.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

use crate::answer::{Answer, Request};
use crate::graph::Place;
use crate::web::Web;

/// A connection without a request for so long is closed.
const IDLE: Duration = Duration::from_secs(90);
/// User agents whose names are shared between log entries.
const SHARED_AGENTS: usize = 16;

/// How a web is served.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Loopback addresses the hosts are spread over: 127.0.0.1 and the next ones, where the system
    /// has them (Linux), otherwise ports of 127.0.0.1.
    pub addresses: u8,
    /// Open connections per address; further ones wait to be accepted.
    pub max_connections: usize,
    /// Requests that are logged; further ones are answered and counted only. 0 for no log.
    pub log_limit: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { addresses: 8, max_connections: 1024, log_limit: 1_000_000 }
    }
}

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When it arrived, since the server's start.
    pub at: Duration,
    /// The `Host` header, without port.
    pub host: Arc<str>,
    /// Path and query, as in the request line.
    pub path: String,
    /// The status it was answered with.
    pub status: u16,
    /// The `User-Agent` header.
    pub user_agent: Arc<str>,
    /// The client's end of the connection, which tells connections apart.
    pub peer: SocketAddr,
    /// The server's end: one address stands for one machine of the real web.
    pub local: SocketAddr,
}

/// Serves a [`Web`] over HTTP/1.1 from a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    /// Dropped to stop the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds the addresses and starts serving: once this returns, connections are accepted.
    ///
    /// # Errors
    /// When no loopback address can be bound, or no thread be started.
    pub fn start(web: Web, options: ServerOptions) -> io::Result<Self> {
        let listeners = bind(options.addresses.max(1))?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared {
            web,
            options,
            started: Instant::now(),
            epoch: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            log: Mutex::default(),
            attempts: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("testkit-server".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || runtime.block_on(serve(shared, listeners, stopped))
        })?;
        Ok(Self { shared, addresses, stop: Some(stop), thread: Some(thread) })
    }

    /// What was requested so far, in the order of arrival.
    pub fn log(&self) -> Vec<Seen> {
        lock(&self.shared.log).entries.clone()
    }

    /// As [`Server::log`], and empties it.
    pub fn take_log(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.shared.log).entries)
    }

    /// How often each URL of the log was requested, by host and path.
    pub fn request_counts(&self) -> HashMap<(Arc<str>, String), u32> {
        let mut counts = HashMap::new();
        for seen in &lock(&self.shared.log).entries {
            *counts.entry((Arc::clone(&seen.host), seen.path.clone())).or_default() += 1;
        }
        counts
    }

    /// How many requests there were, logged or not.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Moves the web on in time: see [`Request::epoch`].
    pub fn set_epoch(&self, epoch: u32) {
        self.shared.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Where each host is served, as `address:port`. Hosts may share an address.
    pub fn resolve(&self) -> BTreeMap<String, String> {
        let addresses = self.addresses.iter().cycle();
        self.shared.web.hosts().into_iter().zip(addresses.map(SocketAddr::to_string)).collect()
    }

    /// The configuration that sends a crawler here and nowhere else: an overlay in TOML.
    pub fn config_toml(&self) -> String {
        let mut toml = String::from("[downloader]\nallow_private_addresses = true\n\n[downloader.resolve]\n");
        for (host, address) in self.resolve() {
            writeln!(toml, "\"{host}\" = \"{address}\"").expect("writing to a String cannot fail");
        }
        toml.push_str("\n[scope]\nkind = \"host\"\nallow_hosts = [\n");
        for host in self.shared.web.hosts() {
            writeln!(toml, "    \"{host}\",").expect("writing to a String cannot fail");
        }
        toml.push_str("]\n");
        toml
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            // A fault of the web itself must not look like one of the crawler.
            std::panic::resume_unwind(panic);
        }
    }
}

/// What connections have in common.
#[derive(Debug)]
struct Shared {
    web: Web,
    options: ServerOptions,
    started: Instant,
    epoch: AtomicU32,
    requests: AtomicU64,
    log: Mutex<Log>,
    /// Requests so far for the places whose answers depend on it.
    attempts: Mutex<HashMap<Place, u32>>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Seen>,
    agents: Vec<Arc<str>>,
}

/// Listens on 127.0.0.1, 127.0.0.2, …; macOS has only the first.
fn bind(addresses: u8) -> io::Result<Vec<TcpListener>> {
    (1..=addresses)
        .map(|last| {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), 0))
                .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
                .map_err(|error| io::Error::new(error.kind(), format!("binding a port of 127.0.0.1: {error}")))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .collect()
}

/// Serves until the sender of `stopped` is dropped; returning drops every connection.
async fn serve(shared: Arc<Shared>, listeners: Vec<TcpListener>, stopped: oneshot::Receiver<Infallible>) {
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
        accepting.spawn(accept(Arc::clone(&shared), listener));
    }
    tokio::select! {
        _ = stopped => {}
        Some(ended) = accepting.join_next() => propagate(ended),
    }
}

async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener) {
    let local = listener.local_addr().expect("a bound socket has an address");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < shared.options.max_connections => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(converse(Arc::clone(&shared), stream, peer, local));
                }
                // Out of file handles, most likely: connections that end free some.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(ended) = connections.join_next() => propagate(ended),
        }
    }
}

/// A panic in a task is one of the server.
fn propagate(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Serves one connection.
async fn converse(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, local: SocketAddr) {
    // Only a matter of speed: small answers should not wait for more.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.respond(&request, peer, local).await) }
    });
    // Clients go away in the middle of things; that is theirs to do.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Shared {
    async fn respond(
        &self,
        request: &hyper::Request<Incoming>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Response<Full<Bytes>> {
        let at = self.started.elapsed();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let text = |name| text(request.headers(), name);
        let host = text(header::HOST).unwrap_or_default();
        let host = host.split_once(':').map_or(host, |(name, _)| name);
        let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let place = self.web.locate(host, target);
        let answer = if request.method() == Method::GET {
            let nth = place.map_or(1, |place| self.attempt(place));
            let asked = Request {
                host,
                target,
                epoch: self.epoch.load(Ordering::Relaxed),
                nth,
                accepts_gzip: text(header::ACCEPT_ENCODING).is_some_and(|codings| codings.contains("gzip")),
                if_none_match: text(header::IF_NONE_MATCH),
                if_modified_since: text(header::IF_MODIFIED_SINCE),
            };
            self.web.answer_at(place, &asked)
        } else {
            Answer::plain(405, "Only GET is answered.\n")
        };
        if self.options.log_limit > 0 {
            let host = place.map_or_else(|| host.into(), |place| Arc::clone(&self.web.graph().host(place.host).name));
            let user_agent = text(header::USER_AGENT).unwrap_or_default();
            let mut log = lock(&self.log);
            if log.entries.len() < self.options.log_limit {
                let user_agent = log.share(user_agent);
                let path = target.to_owned();
                log.entries.push(Seen { at, host, path, status: answer.status, user_agent, peer, local });
            }
        }
        if !answer.latency.is_zero() {
            tokio::time::sleep(answer.latency).await;
        }
        let mut response = Response::new(Full::new(answer.body));
        *response.status_mut() = StatusCode::from_u16(answer.status).expect("the web's statuses are HTTP's");
        *response.headers_mut() = answer.headers;
        response
    }

    /// Which request for this place it is, where that matters.
    fn attempt(&self, place: Place) -> u32 {
        if matches!(self.web.graph().failures(place), 0 | u32::MAX) {
            return 1;
        }
        let mut attempts = lock(&self.attempts);
        let nth = attempts.entry(place).or_default();
        *nth += 1;
        *nth
    }
}

impl Log {
    fn share(&mut self, agent: &str) -> Arc<str> {
        if let Some(known) = self.agents.iter().find(|known| &***known == agent) {
            return Arc::clone(known);
        }
        let agent: Arc<str> = agent.into();
        if self.agents.len() < SHARED_AGENTS {
            self.agents.push(Arc::clone(&agent));
        }
        agent
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// What the mutexes guard is whole after every statement, so a panic elsewhere spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
