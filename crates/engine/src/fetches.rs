//! Fetches under way: a bounded set of owned tasks.

use std::collections::HashMap;
use std::net::IpAddr;

use downloader::{Downloader, FetchRequest};
use frontier::{Lease, Unresolved};
use model::{CanonicalUrl, FailureKind, FetchOutcome, HostKey};
use tokio::task::{Id, JoinError, JoinSet};

use crate::event::Event;

/// RFC 9309 §2.3.1.2: at least five redirects are followed for a robots.txt.
const ROBOTS_REDIRECTS: u32 = 5;

/// What a leased fetch gave.
pub(crate) enum Outcome {
    /// The leased URL was fetched, or not.
    Page(FetchOutcome),
    /// The host's robots.txt was fetched, or not.
    Robots {
        /// The last of a chain of redirects.
        outcome: FetchOutcome,
        /// The chain had more redirects than are followed.
        too_many_redirects: bool,
    },
}

/// Addresses of a host, or why there are none.
pub(crate) type Resolution = Result<Vec<IpAddr>, (FailureKind, String)>;

enum Work {
    Leased(Outcome),
    Resolved(HostKey, Resolution),
}

/// Fetches and look-ups under way. A task never holds its lease: if it panics, the lease is still
/// here to be released.
pub(crate) struct Fetches {
    downloader: Downloader,
    tasks: JoinSet<Work>,
    leases: HashMap<Id, Lease>,
    lookups: HashMap<Id, HostKey>,
}

impl Fetches {
    pub(crate) fn new(downloader: Downloader) -> Self {
        Self { downloader, tasks: JoinSet::new(), leases: HashMap::new(), lookups: HashMap::new() }
    }

    /// Leases out.
    pub(crate) fn leased(&self) -> usize {
        self.leases.len()
    }

    /// Hosts being looked up.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.len()
    }

    /// Fetches the leased URL.
    pub(crate) fn fetch_page(&mut self, lease: Lease) {
        let downloader = self.downloader.clone();
        let request = FetchRequest { url: lease.url.url.clone(), referrer: lease.url.via.clone(), max_body: None };
        let task = self.tasks.spawn(async move { Work::Leased(Outcome::Page(downloader.fetch(request).await)) });
        self.leases.insert(task.id(), lease);
    }

    /// Fetches the robots.txt of the leased URL's host.
    pub(crate) fn fetch_robots(&mut self, lease: Lease) {
        let downloader = self.downloader.clone();
        let url = CanonicalUrl::parse(&format!("{}/robots.txt", lease.url.url.origin()))
            .expect("an origin with a path is a URL");
        let task = self.tasks.spawn(fetch_robots(downloader, url));
        self.leases.insert(task.id(), lease);
    }

    /// Looks a host up.
    pub(crate) fn resolve(&mut self, unresolved: Unresolved) {
        let downloader = self.downloader.clone();
        let Unresolved { host, url } = unresolved;
        let task = self.tasks.spawn(async move { Work::Resolved(host, downloader.resolve(&url).await) });
        self.lookups.insert(task.id(), host);
    }

    /// The next one that ended; waits for ever when there is none.
    pub(crate) async fn next(&mut self) -> Event {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.event(ended),
            None => std::future::pending().await,
        }
    }

    /// One that has ended already.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        let ended = self.tasks.try_join_next_with_id()?;
        Some(self.event(ended))
    }

    /// Ends every task at once and gives the leases back: their URLs stay queued on the disk.
    pub(crate) fn abort(&mut self) -> Vec<Lease> {
        self.tasks = JoinSet::new();
        self.lookups.clear();
        self.leases.drain().map(|(_, lease)| lease).collect()
    }

    fn event(&mut self, ended: Result<(Id, Work), JoinError>) -> Event {
        let (id, work) = match ended {
            Ok((id, work)) => (id, Some(work)),
            Err(error) => (error.id(), None),
        };
        let panicked = || FetchOutcome::Failed {
            kind: FailureKind::Internal,
            detail: "the fetch panicked, which is a fault of argiope".to_owned(),
            duration: std::time::Duration::ZERO,
        };
        match (self.leases.remove(&id), self.lookups.remove(&id), work) {
            (Some(lease), _, Some(Work::Leased(outcome))) => Event::Fetched(lease, outcome),
            (Some(lease), _, _) => Event::Fetched(lease, Outcome::Page(panicked())),
            (None, _, Some(Work::Resolved(host, resolution))) => Event::Resolved(host, resolution),
            (None, Some(host), _) => {
                Event::Resolved(host, Err((FailureKind::Internal, "the look-up panicked".to_owned())))
            }
            (None, None, _) => Event::Due,
        }
    }
}

async fn fetch_robots(downloader: Downloader, mut url: CanonicalUrl) -> Work {
    let mut redirects = 0;
    loop {
        // RFC 9309 §2.5: at least 500 KiB are read; the parser reads no more.
        let request = FetchRequest { url: url.clone(), referrer: None, max_body: Some(512 << 10) };
        let outcome = downloader.fetch(request).await;
        let target = match &outcome {
            FetchOutcome::Answered(exchange) => {
                exchange.location().and_then(|location| CanonicalUrl::join(&url.to_url(), location).ok())
            }
            FetchOutcome::Failed { .. } => None,
        };
        match target {
            Some(target) if redirects < ROBOTS_REDIRECTS => {
                redirects += 1;
                url = target;
            }
            target => return Work::Leased(Outcome::Robots { outcome, too_many_redirects: target.is_some() }),
        }
    }
}
