//! Whole crawls in simulated time, with a queue table that lags behind: every URL is leased until
//! it is done, once; leases keep to their host's and address's time; nothing is left over.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use frontier::{Fate, Frontier, FrontierConfig, Lease, Refill, Restored};
use model::{CanonicalUrl, HopClass, HostKey, QueuedUrl, Rank, Time};
use proptest::prelude::*;

/// What the table thread is told, in order.
enum Write {
    Admitted(QueuedUrl),
    Done(HostKey, Rank),
    Refill(Refill),
}

#[derive(Debug, Clone)]
struct Plan {
    hosts: u8,
    addresses: u8,
    /// For each URL: its host, and how many leases after which the next few are admitted.
    urls: Vec<(u8, u16)>,
    /// Decides, step by step, what happens next.
    choices: Vec<u8>,
    head: usize,
    host_delay: u64,
    address_delay: u64,
    restart_at: Option<usize>,
}

fn plans() -> impl Strategy<Value = Plan> {
    (
        1_u8..6,
        1_u8..4,
        proptest::collection::vec((any::<u8>(), 0_u16..5), 1..120),
        proptest::collection::vec(any::<u8>(), 50..400),
        4_usize..10,
        0_u64..500,
        0_u64..300,
        proptest::option::of(0_usize..200),
    )
        .prop_map(|(hosts, addresses, urls, choices, head, host_delay, address_delay, restart_at)| Plan {
            hosts,
            addresses,
            urls,
            choices,
            head,
            host_delay,
            address_delay,
            restart_at,
        })
}

struct Simulation {
    plan: Plan,
    frontier: Frontier,
    now: Time,
    table: BTreeMap<(HostKey, Rank), QueuedUrl>,
    writes: VecDeque<Write>,
    offered: usize,
    leased: HashSet<CanonicalUrl>,
    done: HashSet<CanonicalUrl>,
    leases: Vec<(Lease, IpAddr)>,
    /// Finished, and not durable yet.
    finished: VecDeque<(HostKey, Rank)>,
    host_free: HashMap<HostKey, Time>,
    address_free: HashMap<IpAddr, Time>,
}

impl Simulation {
    fn new(plan: Plan) -> Self {
        let config = FrontierConfig { head: plan.head, ..FrontierConfig::default() };
        Self {
            frontier: Frontier::new(&config),
            plan,
            now: Time::from_micros(1_000_000),
            table: BTreeMap::new(),
            writes: VecDeque::new(),
            offered: 0,
            leased: HashSet::new(),
            done: HashSet::new(),
            leases: Vec::new(),
            finished: VecDeque::new(),
            host_free: HashMap::new(),
            address_free: HashMap::new(),
        }
    }

    fn address(&self, url: &CanonicalUrl) -> IpAddr {
        let host: u8 = url.host().trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
        Ipv4Addr::new(127, 0, 0, host % self.plan.addresses).into()
    }

    fn admit(&mut self, count: usize) {
        for _ in 0..count {
            let Some((host, depth)) = self.plan.urls.get(self.offered) else { return };
            let text = format!("http://h{}.test/{}", host % self.plan.hosts, self.offered);
            let url = CanonicalUrl::parse(&text).expect("it is a URL");
            self.offered += 1;
            let queued = QueuedUrl {
                url,
                rank: Rank::default(),
                depth: *depth,
                redirects: 0,
                hop: HopClass::Navigation,
                via: None,
            };
            let queued = self.frontier.admit(queued, self.now);
            self.writes.push_back(Write::Admitted(queued));
        }
    }

    fn write(&mut self, count: usize) {
        for _ in 0..count {
            match self.writes.pop_front() {
                None => return,
                Some(Write::Admitted(url)) => drop(self.table.insert((url.url.host_key(), url.rank), url)),
                Some(Write::Done(host, rank)) => drop(self.table.remove(&(host, rank)).expect("it was queued")),
                // The table may be read later than it was asked for, when it knows more.
                Some(Write::Refill(refill))
                    if self.offered.is_multiple_of(2)
                        && matches!(self.writes.front(), Some(Write::Admitted(_) | Write::Done(..))) =>
                {
                    let next = self.writes.pop_front().expect("it is there");
                    self.writes.push_front(Write::Refill(refill));
                    self.writes.push_front(next);
                }
                Some(Write::Refill(refill)) => {
                    let after = (refill.host, refill.after);
                    let urls = self
                        .table
                        .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded))
                        .take_while(|((host, _), _)| *host == refill.host)
                        .take(refill.limit)
                        .map(|(_, url)| url.clone())
                        .collect();
                    self.frontier.refilled(refill, urls, self.now).expect("the table has lost nothing");
                }
            }
        }
    }

    fn lease(&mut self) {
        if let Some(lease) = self.frontier.lease(self.now) {
            let url = &lease.url.url;
            let address = self.address(url);
            assert!(!self.done.contains(url), "{url} was done");
            assert!(self.leased.insert(url.clone()), "{url} is leased already");
            assert!(self.leases.iter().all(|(other, _)| other.host() != lease.host()), "two leases of one host");
            assert!(self.leases.iter().all(|(_, other)| *other != address), "two leases of one address");
            assert!(self.host_free.get(&lease.host()).is_none_or(|free| *free <= self.now), "the host was too soon");
            assert!(self.address_free.get(&address).is_none_or(|free| *free <= self.now), "the address was too soon");
            self.leases.push((lease, address));
        }
    }

    fn release(&mut self, choice: u8) {
        if self.leases.is_empty() {
            return;
        }
        let (lease, address) = self.leases.remove(usize::from(choice) % self.leases.len());
        let (url, host) = (lease.url.url.clone(), lease.host());
        let host_until = self.now + Duration::from_micros(self.plan.host_delay);
        let address_until = self.now + Duration::from_micros(self.plan.address_delay);
        self.host_free.insert(host, host_until);
        self.address_free.insert(address, address_until);
        let retry = choice.is_multiple_of(7);
        let fate = if retry { Fate::Back(self.now + Duration::from_millis(u64::from(choice))) } else { Fate::Finished };
        let finished = self.frontier.release(lease, fate, host_until, address_until, self.now);
        self.leased.remove(&url);
        if let Some(url) = finished {
            assert!(!retry);
            self.done.insert(url.url.clone());
            self.admit(usize::from(choice) % 6);
            self.finished.push_back((host, url.rank));
        }
    }

    /// Outcomes become durable; the table learns of them later.
    fn sync(&mut self, count: usize) {
        for (host, rank) in self.finished.drain(..count.min(self.finished.len())) {
            self.writes.push_back(Write::Done(host, rank));
            self.frontier.done(host, rank);
        }
    }

    fn housekeeping(&mut self) {
        while let Some(unresolved) = self.frontier.next_unresolved(self.now) {
            let address = self.address(&unresolved.url);
            self.frontier.resolved(unresolved.host, Some(address), self.now);
        }
        while let Some(refill) = self.frontier.next_refill() {
            self.writes.push_back(Write::Refill(refill));
        }
    }

    /// The process is killed: leases and memory are gone, the journal has brought the table up to date.
    fn restart(&mut self) {
        // What was not durable is fetched again.
        for (host, rank) in self.finished.drain(..) {
            let lost = self.table.get(&(host, rank)).or_else(|| {
                self.writes.iter().find_map(|write| match write {
                    Write::Admitted(url) if url.url.host_key() == host && url.rank == rank => Some(url),
                    _ => None,
                })
            });
            self.done.remove(&lost.expect("a finished URL was admitted").url);
        }
        self.writes.retain(|write| !matches!(write, Write::Refill(_)));
        self.write(usize::MAX);
        self.leases.clear();
        self.leased.clear();
        self.host_free.clear();
        self.address_free.clear();
        let config = FrontierConfig { head: self.plan.head, ..FrontierConfig::default() };
        let mut frontier = Frontier::new(&config);
        frontier.resume_admissions(self.offered as u64);
        let mut hosts: BTreeMap<HostKey, Vec<QueuedUrl>> = BTreeMap::new();
        for ((host, _), url) in &self.table {
            hosts.entry(*host).or_default().push(url.clone());
        }
        for mut urls in hosts.into_values() {
            let count = urls.len() as u64;
            urls.truncate(self.plan.head);
            frontier.restore(Restored { first: urls, count }, self.now);
        }
        self.frontier = frontier;
    }

    fn run(mut self) {
        self.admit(3);
        let choices = self.plan.choices.clone();
        for (step, choice) in choices.iter().enumerate() {
            if self.plan.restart_at == Some(step) {
                self.restart();
            }
            self.housekeeping();
            match choice % 5 {
                0 => self.admit(usize::from(choice / 5) % 20),
                1 => self.write(usize::from(choice / 5) % 8),
                2 if choice.is_multiple_of(2) => self.sync(usize::from(choice / 10) % 5),
                2 => self.release(*choice),
                3 => self.now = self.now + Duration::from_micros(u64::from(*choice)),
                _ => self.lease(),
            }
        }
        // Run to the end.
        self.admit(usize::MAX);
        let mut turns = 0;
        while !self.frontier.is_finished() {
            turns += 1;
            assert!(turns < 100_000, "the crawl does not end: {:?}", self.frontier.counts());
            self.housekeeping();
            self.write(3);
            self.sync(1);
            self.lease();
            self.release(1);
            if self.leases.is_empty()
                && let Some(due) = self.frontier.next_due()
            {
                self.now = self.now.max(due);
            }
        }
        self.sync(usize::MAX);
        self.write(usize::MAX);
        assert!(self.table.is_empty());
        assert_eq!(self.done.len(), self.offered);
        assert_eq!(self.frontier.counts().queued, 0);
        assert_eq!(self.frontier.admissions(), self.offered as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_url_is_leased_until_it_is_done_and_pace_is_kept(plan in plans()) {
        Simulation::new(plan).run();
    }
}

fn url(text: &str, depth: u16) -> QueuedUrl {
    let url = CanonicalUrl::parse(text).expect("it is a URL");
    QueuedUrl { url, rank: Rank::default(), depth, redirects: 0, hop: HopClass::Navigation, via: None }
}

/// A frontier with so many URLs of one host, ready to be leased.
fn one_host(config: &FrontierConfig, urls: u32, now: Time) -> (Frontier, HostKey) {
    let mut frontier = Frontier::new(config);
    for number in 0..urls {
        frontier.admit(url(&format!("http://a.test/{number}"), 0), now);
    }
    let host = frontier.next_unresolved(now).expect("the host is new").host;
    frontier.resolved(host, None, now);
    (frontier, host)
}

#[test]
fn breadth_first_within_a_host() {
    let mut frontier = Frontier::new(&FrontierConfig { head: 4, ..FrontierConfig::default() });
    let now = Time::from_micros(5);
    let mut table: Vec<QueuedUrl> = Vec::new();
    for (number, depth) in [3, 1, 2, 1, 3, 0, 2, 5, 0].into_iter().enumerate() {
        table.push(frontier.admit(url(&format!("http://a.test/{number}"), depth), now));
    }
    let host = frontier.next_unresolved(now).expect("the host is new").host;
    frontier.resolved(host, None, now);
    let mut depths = Vec::new();
    while !frontier.is_finished() {
        while let Some(refill) = frontier.next_refill() {
            table.sort_by_key(|url| url.rank);
            let urls = table.iter().filter(|url| url.rank > refill.after).take(refill.limit).cloned().collect();
            frontier.refilled(refill, urls, now).expect("nothing is lost");
        }
        let lease = frontier.lease(now).expect("there is more");
        depths.push(lease.url.depth);
        let rank = frontier.release(lease, Fate::Finished, now, now, now).expect("it is finished").rank;
        table.retain(|url| url.rank != rank);
        frontier.done(host, rank);
    }
    assert_eq!(depths, [0, 0, 1, 1, 2, 2, 3, 3, 5]);
}

#[test]
fn a_table_that_lost_urls_is_noticed() {
    let now = Time::from_micros(5);
    let config = FrontierConfig { head: 4, ..FrontierConfig::default() };
    let (mut frontier, _) = one_host(&config, 9, now);
    for _ in 0..4 {
        let lease = frontier.lease(now).expect("there is one");
        let _ = frontier.release(lease, Fate::Finished, now, now, now);
    }
    let refill = frontier.next_refill().expect("the head is empty");
    let error = frontier.refilled(refill, Vec::new(), now).expect_err("five URLs are missing");
    assert!(error.to_string().contains("lost 5 queued URLs of http://a.test"), "{error}");
}

#[test]
fn a_host_has_no_more_pages_than_its_limit() {
    let now = Time::from_micros(5);
    let config = FrontierConfig { per_host_max_pages: 2, ..FrontierConfig::default() };
    let (mut frontier, host) = one_host(&config, 3, now);
    let mut full = Vec::new();
    while let Some(lease) = frontier.lease(now) {
        full.push(frontier.is_full(lease.host()));
        frontier.count_page(lease.host());
        let rank = frontier.release(lease, Fate::Finished, now, now, now).expect("it is finished").rank;
        frontier.done(host, rank);
    }
    assert_eq!(full, [false, false, true]);
    let later = now + Duration::from_hours(25);
    assert_eq!(frontier.evict(later), [host]);
    assert!(frontier.is_full(host), "the limit is the job's, and outlives what is forgotten");
}

#[test]
fn a_parked_host_holds_up_nobody_and_comes_back() {
    let now = Time::from_micros(5);
    let config = FrontierConfig { head: 4, ..FrontierConfig::default() };
    let (mut frontier, host) = one_host(&config, 9, now);
    let lease = frontier.lease(now).expect("there is one");
    let until = now + Duration::from_hours(24);
    frontier.park(lease, until, now);
    frontier.admit(url("http://a.test/more", 0), now);
    assert!(frontier.lease(now).is_none());
    assert!(frontier.is_finished());
    assert_eq!((frontier.counts().queued, frontier.queued_of(host)), (10, 10));
    assert_eq!(frontier.evict(until), []);
    assert_eq!(frontier.next_unresolved(now), None);
    assert_eq!(frontier.next_unresolved(until).map(|unresolved| unresolved.host), Some(host));
    assert!(!frontier.is_finished());
    frontier.resolved(host, None, until);
    assert!(frontier.lease(until).is_some());
}

#[test]
fn a_host_that_was_not_found_is_looked_up_again_before_it_is_leased() {
    let mut frontier = Frontier::new(&FrontierConfig::default());
    let now = Time::from_micros(5);
    for name in ["a", "b"] {
        frontier.admit(url(&format!("http://{name}.test/"), 0), now);
    }
    let (a, b) = (frontier.next_unresolved(now).expect("two"), frontier.next_unresolved(now).expect("hosts"));
    frontier.resolved(a.host, None, now);
    let address = Some(Ipv4Addr::LOCALHOST.into());
    frontier.resolved(b.host, address, now);
    let leases = [frontier.lease(now).expect("two"), frontier.lease(now).expect("leases")];
    let later = now + Duration::from_secs(30);
    for lease in leases {
        let _ = frontier.release(lease, Fate::Back(later), later, now, now);
    }
    frontier.resolve_again(a.host);
    assert_eq!(frontier.next_unresolved(now), None);
    assert_eq!(frontier.next_unresolved(later), Some(a.clone()));
    frontier.resolved(a.host, address, later);
    let lease = frontier.lease(later).expect("one of them");
    assert!(frontier.lease(later).is_none(), "they share an address now");
    let _ = frontier.release(lease, Fate::Finished, later, later, later);
}

#[test]
fn idle_hosts_are_forgotten_after_a_day() {
    let mut frontier = Frontier::new(&FrontierConfig::default());
    let now = Time::from_micros(5);
    frontier.admit(url("http://a.test/", 0), now);
    let host = frontier.next_unresolved(now).expect("the host is new").host;
    frontier.resolved(host, None, now);
    let lease = frontier.lease(now).expect("there is one");
    assert_eq!(frontier.evict(now + Duration::from_hours(48)), [], "it is leased");
    let rank = frontier.release(lease, Fate::Finished, now, now, now).expect("it is finished").rank;
    frontier.done(host, rank);
    assert_eq!(frontier.evict(now + Duration::from_hours(23)), []);
    assert_eq!(frontier.evict(now + Duration::from_hours(25)), [host]);
    assert_eq!(frontier.evict(now + Duration::from_hours(25)), []);
    assert_eq!(frontier.counts().hosts, 0);
}
