//! The frontier's state machine.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use model::{CanonicalUrl, HostKey, QueuedUrl, Rank, Time};

use crate::config::{FrontierConfig, Order};
use crate::host_queue::{HostQueue, Lost};
use crate::workbench::{Slot, Workbench};

/// A host that has had nothing queued for so long is forgotten, and its robots.txt with it.
const IDLE_FOR: Duration = Duration::from_hours(24);
/// Of more idle hosts than this, the longest idle are forgotten first.
const MAX_IDLE: usize = 100_000;

/// Queued URLs kept in memory for all hosts together, of some 200 bytes each.
const MAX_HEADS: usize = 1 << 20;
/// Fewer than this per host would read the table for every page.
const MIN_HEAD: usize = 4;

/// The frontier and the queue table disagree: the table must be rebuilt from the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontierError {
    /// A refill brought fewer URLs than the host had spilled.
    #[error(
        "the queue table has lost {urls} queued URLs of {origin}; start the job again to rebuild it from the journal"
    )]
    Lost {
        /// The host.
        origin: String,
        /// How many.
        urls: u64,
    },
}

/// The right to fetch one URL. It is neither copied nor cloned: while it is out, its host and its
/// address have no other.
#[derive(Debug)]
#[must_use = "a lease that is not released blocks its host for ever"]
pub struct Lease {
    /// What to fetch.
    pub url: QueuedUrl,
    host: HostKey,
    slot: Slot,
}

impl Lease {
    /// The host leased.
    pub fn host(&self) -> HostKey {
        self.host
    }
}

/// What becomes of a leased URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has an outcome. It stays leased in the sense of the life of a URL until
    /// [`Frontier::done`] says that the outcome is durable.
    Finished,
    /// It goes back into its host's queue, not to be leased before this time.
    Back(Time),
}

/// A host whose address is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// The host.
    pub host: HostKey,
    /// One of its URLs, for its name.
    pub url: CanonicalUrl,
}

/// A request to read the queue table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refill {
    /// Whose queue.
    pub host: HostKey,
    /// After this rank.
    pub after: Rank,
    /// At most so many URLs.
    pub limit: usize,
}

/// A host's queue as the table has it when a job is opened.
#[derive(Debug)]
pub struct Restored {
    /// The first URLs, in rank order.
    pub first: Vec<QueuedUrl>,
    /// How many URLs there are, those included.
    pub count: u64,
}

/// How much the frontier holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// URLs queued, in memory and in the table.
    pub queued: u64,
    /// URLs leased: being fetched, or on their way to the disk.
    pub leased: u64,
    /// Hosts with something queued or leased.
    pub hosts: u64,
}

#[derive(Debug)]
struct Host {
    /// A URL of the host, for its name.
    url: CanonicalUrl,
    queue: HostQueue,
    place: Place,
    /// Not to be asked before this time.
    until: Time,
    /// URLs leased and not yet durable.
    out: u64,
}

/// Where a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In `unresolved`, or with the resolver.
    Unresolved,
    /// In its slot, under this time.
    Benched(Slot, Time),
    /// Its lease is out.
    Leased(Slot),
    /// Nothing to lease: no URL, or none in memory. The time says since when.
    Idle(Slot, Time),
    /// Left alone; in `unresolved` under the time at which it is looked up again.
    Parked,
}

/// Every queued URL, and who may be asked when. See the crate's page for its invariants.
#[derive(Debug)]
pub struct Frontier {
    config: FrontierConfig,
    /// A host goes when it was idle for [`IDLE_FOR`], or is the longest idle of [`MAX_IDLE`].
    hosts: HashMap<HostKey, Host>,
    workbench: Workbench,
    unresolved: BTreeSet<(Time, HostKey)>,
    refill_due: Vec<HostKey>,
    idle: BTreeSet<(Time, HostKey)>,
    out: HashSet<(HostKey, Rank)>,
    /// Pages by host, while there is a limit on them: kept as long as the job, as the limit is.
    pages: HashMap<HostKey, u64>,
    admissions: u64,
    queued: u64,
    /// Of these, URLs of parked hosts.
    parked: u64,
}

impl Frontier {
    /// An empty frontier.
    pub fn new(config: &FrontierConfig) -> Self {
        Self {
            config: config.clone(),
            hosts: HashMap::new(),
            workbench: Workbench::default(),
            unresolved: BTreeSet::new(),
            refill_due: Vec::new(),
            idle: BTreeSet::new(),
            out: HashSet::new(),
            pages: HashMap::new(),
            admissions: 0,
            queued: 0,
            parked: 0,
        }
    }

    /// The job has admitted so many URLs before.
    pub fn resume_admissions(&mut self, admissions: u64) {
        self.admissions = admissions;
    }

    /// Takes over a host's queue as the table has it.
    pub fn restore(&mut self, restored: Restored, now: Time) {
        let Some(first) = restored.first.first() else { return };
        let (host, url) = (first.url.host_key(), first.url.clone());
        self.queued += restored.count;
        let queue = HostQueue::restored(restored.first, restored.count);
        self.hosts.insert(host, Host { url, queue, place: Place::Unresolved, until: Time::ZERO, out: 0 });
        self.unresolved.insert((now, host));
    }

    /// Queues a new URL and gives it its rank.
    pub fn admit(&mut self, mut url: QueuedUrl, now: Time) -> QueuedUrl {
        let order = match self.config.order {
            Order::BreadthFirst => url.depth,
        };
        url.rank = Rank::new(order, self.admissions);
        self.admissions += 1;
        self.queued += 1;
        let key = url.url.host_key();
        let head = self.head();
        let host = self.hosts.entry(key).or_insert_with(|| {
            self.unresolved.insert((now, key));
            Host {
                url: url.url.clone(),
                queue: HostQueue::default(),
                place: Place::Unresolved,
                until: Time::ZERO,
                out: 0,
            }
        });
        host.queue.push(url.clone(), head);
        self.parked += u64::from(host.place == Place::Parked);
        self.settle(key, now);
        url
    }

    /// The next host whose address is wanted. The caller looks it up and says what came of it by
    /// [`Frontier::resolved`].
    pub fn next_unresolved(&mut self, now: Time) -> Option<Unresolved> {
        let (_, host) = *self.unresolved.first().filter(|(time, _)| *time <= now)?;
        self.unresolved.pop_first();
        let state = self.hosts.get_mut(&host)?;
        if state.place == Place::Parked {
            state.place = Place::Unresolved;
            self.parked -= state.queue.len();
        }
        Some(Unresolved { host, url: state.url.clone() })
    }

    /// The host is at this address, with whose other hosts it shares one lease; `None` when it
    /// shares with nobody.
    pub fn resolved(&mut self, host: HostKey, address: Option<IpAddr>, now: Time) {
        let Some(state) = self.hosts.get_mut(&host) else { return };
        if state.place == Place::Unresolved {
            let slot = address.map_or(Slot::Host(host), Slot::Address);
            state.place = Place::Idle(slot, now);
            self.idle.insert((now, host));
            self.settle(host, now);
        }
    }

    /// A lease whose time has come, if there is one.
    pub fn lease(&mut self, now: Time) -> Option<Lease> {
        let head = self.head();
        loop {
            let (slot, host) = self.workbench.take(now)?;
            let state = self.hosts.get_mut(&host).expect("a benched host is known");
            let Some(url) = state.queue.take(now) else {
                // Its time was that of a deferred URL, which has moved; look again.
                self.workbench.give_back(slot, Time::ZERO);
                state.place = Place::Idle(slot, now);
                self.idle.insert((now, host));
                self.settle(host, now);
                continue;
            };
            state.place = Place::Leased(slot);
            state.out += 1;
            self.queued -= 1;
            self.out.insert((host, url.rank));
            if state.queue.refill_due(head).is_some() {
                self.refill_due.push(host);
            }
            return Some(Lease { url, host, slot });
        }
    }

    /// Whether the host has had as many pages as it may have.
    pub fn is_full(&self, host: HostKey) -> bool {
        let limit = self.config.per_host_max_pages;
        limit > 0 && self.pages.get(&host).is_some_and(|pages| *pages >= limit)
    }

    /// A page of the host is fetched, or was in an earlier session.
    pub fn count_page(&mut self, host: HostKey) {
        if self.config.per_host_max_pages > 0 {
            *self.pages.entry(host).or_default() += 1;
        }
    }

    /// The lease is over: the host may be asked again from `host_until`, its address from
    /// `address_until`. Gives the URL back to the caller when it is finished.
    pub fn release(
        &mut self,
        lease: Lease,
        fate: Fate,
        host_until: Time,
        address_until: Time,
        now: Time,
    ) -> Option<QueuedUrl> {
        let Lease { url, host, slot } = lease;
        self.workbench.give_back(slot, address_until);
        let state = self.hosts.get_mut(&host).expect("a leased host is known");
        state.until = state.until.max(host_until);
        state.place = Place::Idle(slot, now);
        self.idle.insert((now, host));
        let finished = match fate {
            Fate::Finished => Some(url),
            Fate::Back(not_before) => {
                self.out.remove(&(host, url.rank));
                state.out -= 1;
                self.queued += 1;
                state.queue.put_back(url, not_before);
                None
            }
        };
        self.settle(host, now);
        finished
    }

    /// The lease is over, and its host is left alone until this time: the URL goes back, and no other
    /// of the host is leased. When all that is queued belongs to such hosts, the crawl is over; the
    /// URLs stay queued for another run.
    pub fn park(&mut self, lease: Lease, until: Time, now: Time) {
        let host = lease.host;
        // To be leased at once, if it were not parked.
        let _ = self.release(lease, Fate::Back(Time::ZERO), now, now, now);
        self.unplace(host);
        if let Some(state) = self.hosts.get_mut(&host) {
            state.place = Place::Parked;
            self.parked += state.queue.len();
            self.unresolved.insert((until, host));
        }
    }

    /// The host's address is to be looked up again before anything of it is leased: it could not be
    /// found. The host must not be leased.
    pub fn resolve_again(&mut self, host: HostKey) {
        self.unplace(host);
        if let Some(state) = self.hosts.get_mut(&host) {
            state.place = Place::Unresolved;
            self.unresolved.insert((state.until, host));
        }
    }

    /// Takes a host that is benched or idle from there.
    fn unplace(&mut self, host: HostKey) {
        match self.hosts.get(&host).map(|state| state.place) {
            Some(Place::Benched(slot, time)) => self.workbench.remove(slot, host, time),
            Some(Place::Idle(_, since)) => _ = self.idle.remove(&(since, host)),
            Some(Place::Unresolved | Place::Leased(_) | Place::Parked) | None => {}
        }
    }

    /// URLs the host has queued.
    pub fn queued_of(&self, host: HostKey) -> u64 {
        self.hosts.get(&host).map_or(0, |state| state.queue.len())
    }

    /// The URL's outcome is durable.
    pub fn done(&mut self, host: HostKey, rank: Rank) {
        if self.out.remove(&(host, rank))
            && let Some(state) = self.hosts.get_mut(&host)
        {
            state.out -= 1;
            state.queue.done(rank);
        }
    }

    /// The next host whose tail is to be read from the queue table.
    pub fn next_refill(&mut self) -> Option<Refill> {
        let head = self.head();
        while let Some(host) = self.refill_due.pop() {
            if let Some(state) = self.hosts.get_mut(&host)
                && let Some(after) = state.queue.refill_due(head)
            {
                state.queue.refill_started();
                return Some(Refill { host, after, limit: head });
            }
        }
        None
    }

    /// What the table gave for a [`Refill`], read after every admission before it was written.
    ///
    /// # Errors
    /// When the table has lost URLs.
    pub fn refilled(&mut self, refill: Refill, urls: Vec<QueuedUrl>, now: Time) -> Result<(), FrontierError> {
        let head = self.head();
        let Some(state) = self.hosts.get_mut(&refill.host) else { return Ok(()) };
        let out = &self.out;
        state
            .queue
            .refilled(urls, refill.limit, |rank| out.contains(&(refill.host, rank)))
            .map_err(|Lost(urls)| FrontierError::Lost { origin: state.url.origin(), urls })?;
        if state.queue.refill_due(head).is_some() {
            self.refill_due.push(refill.host);
        }
        self.settle(refill.host, now);
        Ok(())
    }

    /// When the next lease can be given. `None` when that depends on what the caller brings.
    pub fn next_due(&self) -> Option<Time> {
        self.workbench.next_due()
    }

    /// When the next host is to be looked up.
    pub fn next_unresolved_due(&self) -> Option<Time> {
        self.unresolved.first().map(|(time, _)| *time)
    }

    /// Nothing is leased, and nothing is queued but URLs of parked hosts: the crawl is over.
    pub fn is_finished(&self) -> bool {
        self.queued == self.parked && self.out.is_empty()
    }

    /// How much it holds.
    pub fn counts(&self) -> Counts {
        Counts {
            queued: self.queued,
            leased: self.out.len() as u64,
            hosts: (self.hosts.len() - self.idle_without_work()) as u64,
        }
    }

    /// URLs leased: being fetched, or on their way to the disk.
    pub fn leased(&self) -> usize {
        self.out.len()
    }

    /// URLs ever admitted.
    pub fn admissions(&self) -> u64 {
        self.admissions
    }

    /// Forgets the hosts that are due, and says which: the caller forgets what it knows of them too.
    pub fn evict(&mut self, now: Time) -> Vec<HostKey> {
        let mut evicted = Vec::new();
        let mut kept = Vec::new();
        while let Some((since, host)) = self.idle.first().copied()
            && (now.since(since) >= IDLE_FOR || self.idle.len() + kept.len() > MAX_IDLE)
        {
            self.idle.pop_first();
            let Some(state) = self.hosts.get_mut(&host) else { continue };
            if state.queue.len() > 0 || state.out > 0 || state.until > now {
                // It waits for a refill, or its pace must be kept: it is idle from now on.
                if let Place::Idle(slot, _) = state.place {
                    state.place = Place::Idle(slot, now);
                    kept.push((now, host));
                }
            } else {
                self.hosts.remove(&host);
                evicted.push(host);
            }
        }
        self.idle.extend(kept);
        if !evicted.is_empty() {
            self.workbench.sweep(now);
        }
        evicted
    }

    /// Queued URLs kept in memory per host: fewer when there are many hosts.
    fn head(&self) -> usize {
        (MAX_HEADS / self.hosts.len().max(1)).clamp(MIN_HEAD, self.config.head.max(MIN_HEAD))
    }

    fn idle_without_work(&self) -> usize {
        self.idle
            .iter()
            .filter(|(_, host)| self.hosts.get(host).is_some_and(|state| state.queue.len() == 0 && state.out == 0))
            .count()
    }

    /// Puts a host that is not leased where it belongs: benched when it has something in memory,
    /// idle when not.
    fn settle(&mut self, key: HostKey, now: Time) {
        let head = self.head();
        let Some(host) = self.hosts.get_mut(&key) else { return };
        let ready = host.queue.ready_at().map(|time| time.max(host.until).max(Time::ZERO));
        match (host.place, ready) {
            (Place::Idle(slot, since), Some(time)) => {
                self.idle.remove(&(since, key));
                host.place = Place::Benched(slot, time);
                self.workbench.add(slot, key, time);
            }
            (Place::Benched(slot, old), Some(time)) if time != old => {
                host.place = Place::Benched(slot, time);
                self.workbench.remove(slot, key, old);
                self.workbench.add(slot, key, time);
            }
            (Place::Benched(slot, old), None) => {
                self.workbench.remove(slot, key, old);
                host.place = Place::Idle(slot, now);
                self.idle.insert((now, key));
            }
            _ => {}
        }
        if host.queue.refill_due(head).is_some() && host.queue.ready_at().is_none() {
            self.refill_due.push(key);
        }
    }
}
