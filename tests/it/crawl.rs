//! Whole crawls, judged by the server's own log and clock.

use std::collections::HashMap;
use std::time::Duration;

use engine::{Report, SeenTest, State};
use testkit::{Request, Seen, Web, WebConfig};

use crate::harness::Site;
use crate::job_files::{Audit, report};

/// From a request's arrival at the socket to the moment the server reads its clock.
const READING: Duration = Duration::from_millis(2);

/// Crawls the small web of a seed number with settings of which none may change what is fetched.
fn check(seed: u64, settings: &[&str], seen_test_is_plausible: impl Fn(&SeenTest) -> bool) {
    let site = Site::small(seed);
    let ended = site.crawl(settings).exits(0);
    let log = site.server.log();
    let judgement = site.judge(&log);
    assert!(judgement.is_right(), "{settings:?}\n{judgement}\n{ended}");
    check_robots(&log);

    let report = report(&site.job());
    check_balance(&report);
    let expected = site.web.expected();
    assert_eq!(report.pages, expected.fetched.len() as u64);
    assert_eq!(report.refused_late.values().sum::<u64>(), expected.robots_refused.len() as u64);
    assert!(report.failed.is_empty() && report.healed.is_empty(), "{ended}");
    let seen_test = report.seen_test.expect("a crawl asks");
    assert!(seen_test_is_plausible(&seen_test), "{settings:?}: {seen_test:?}");
    Audit::of(&site.job(), &expected).assert_right(&ended);
}

/// Every reference and every URL is accounted for.
pub(crate) fn check_balance(report: &Report) {
    assert_eq!(report.state, State::Finished);
    assert_eq!(report.offered, report.admitted + report.refused.values().sum::<u64>() + report.seen);
    assert_eq!((report.admitted, report.queued, report.leased), (report.done, 0, 0));
    let [answered, failed, late] =
        [report.answered.values().sum::<u64>(), report.failed.values().sum(), report.refused_late.values().sum()];
    assert_eq!((report.done, report.pages), (answered + failed + late, answered));
}

/// Each host was asked for its robots.txt first, and not again once it had answered.
fn check_robots(log: &[Seen]) {
    let mut answered: HashMap<&str, bool> = HashMap::new();
    for Seen { host, path, status, .. } in log {
        let known = answered.entry(host).or_insert(false);
        if path == "/robots.txt" {
            assert!(!*known, "{host} was asked for its robots.txt again");
            *known = *status < 500;
        } else {
            assert!(*known, "{host} was asked for {path} before its robots.txt had come");
        }
    }
}

fn sums_up(test: &SeenTest) -> bool {
    let counts = &test.counts;
    counts.asked == counts.new_urls() + counts.seen() && counts.false_negatives == 0
}

#[test]
fn a_filter_with_room_answers_for_new_urls() {
    check(1, &["politeness.per_ip=true", "crawl.parse_threads=1", "storage.sync_interval=0s"], |test| {
        sums_up(test)
            && test.counts.store_new <= 2
            && test.predicted_false_positive_rate < 1e-6
            && test.counts.recent > test.counts.asked / 2
            && test.filter_items == test.counts.new_urls()
    });
}

/// Every bit is set, and queues go to the disk after four URLs: slow, and still nothing is lost.
#[test]
fn a_filter_that_says_maybe_to_everything_loses_nothing() {
    let settings = [
        "politeness.per_ip=false",
        "url_cache.filter=bloom",
        "url_cache.capacity=10",
        "url_cache.when_full=keep",
        "url_cache.false_positive_rate=0.5",
        "url_cache.recent=0",
        "frontier.head=4",
        "crawl.parse_threads=3",
        "storage.sync_interval=1ms",
    ];
    check(2, &settings, |test| {
        let observed = test.observed_false_positive_rate.unwrap_or_default();
        sums_up(test)
            && test.counts.recent == 0
            && observed > 0.9
            && test.predicted_false_positive_rate > 0.9
            && test.counts.false_positives <= test.counts.store_new
            // A crawl as short as this ends before its URLs are written as a run: they are pending.
            && test.counts.store_new > 0
            && test.counts.store_seen + test.counts.pending > 0
    });
}

#[test]
fn the_store_alone_is_enough() {
    let settings = [
        "politeness.per_ip=true",
        "url_cache.filter=none",
        "url_cache.recent=0",
        "frontier.head=4",
        "crawl.parse_threads=3",
        "storage.sync_interval=500ms",
    ];
    check(3, &settings, |test| {
        sums_up(test) && (test.counts.filter_new, test.counts.recent, test.filter_capacity) == (0, 0, 0)
    });
}

#[test]
fn fetching_one_at_a_time_is_enough() {
    check(4, &["downloader.max_concurrent=1", "url_cache.filter=none", "crawl.parse_threads=1"], sums_up);
}

/// Each request must come at least `owed` after the one before it with the same key.
fn check_gaps<K: std::hash::Hash + Eq>(
    log: &[Seen],
    key: impl Fn(&Seen) -> K,
    owed: impl Fn(&Seen) -> Duration,
) -> Result<(), String> {
    let mut last: HashMap<K, &Seen> = HashMap::new();
    for seen in log {
        if let Some(before) = last.insert(key(seen), seen) {
            let gap = seen.at.saturating_sub(before.at);
            if gap + READING < owed(before) {
                let (Seen { host, path, .. }, owed) = (before, owed(before));
                return Err(format!("{gap:?} after {host}{path} came {}{}, not {owed:?}", seen.host, seen.path));
            }
        }
    }
    Ok(())
}

/// How long the server keeps a request of its own accord.
fn latency(web: &Web, seen: &Seen) -> Duration {
    web.answer(&Request::get(&seen.host, &seen.path)).latency
}

fn slow(pages: u32, latency: Duration) -> WebConfig {
    WebConfig { hosts: 6, pages, latency: Some(latency..latency * 2), ..WebConfig::small(5) }
}

/// Crawls a web and hands its log over.
fn crawled(config: WebConfig, settings: &[&str]) -> (Site, Vec<Seen>) {
    let site = Site::new(config);
    let ended = site.crawl(settings).exits(0);
    let log = site.server.log();
    let judgement = site.judge(&log);
    assert!(judgement.is_right(), "{judgement}\n{ended}");
    (site, log)
}

#[test]
fn a_host_and_an_address_have_one_request_in_flight() {
    let (site, log) = crawled(slow(200, Duration::from_millis(5)), &["politeness.per_ip=true"]);
    check_gaps(&log, |seen| seen.host.clone(), |seen| latency(&site.web, seen)).unwrap();
    check_gaps(&log, |seen| seen.local, |seen| latency(&site.web, seen)).unwrap();
}

#[test]
fn without_per_ip_only_hosts_wait_for_themselves() {
    let (site, log) = crawled(slow(200, Duration::from_millis(5)), &["politeness.per_ip=false"]);
    check_gaps(&log, |seen| seen.host.clone(), |seen| latency(&site.web, seen)).unwrap();
    let shared = check_gaps(&log, |seen| seen.local, |seen| latency(&site.web, seen));
    assert!(shared.is_err(), "hosts at one address waited for each other all the same");
}

#[test]
fn min_delay_is_kept_between_requests_of_a_host_and_of_an_address() {
    let config = WebConfig { hosts: 4, pages: 60, ..WebConfig::small(6) };
    let pause = Duration::from_millis(30);
    let (_, log) = crawled(config, &["politeness.min_delay=30ms", "politeness.per_ip=true"]);
    check_gaps(&log, |seen| seen.host.clone(), |_| pause).unwrap();
    check_gaps(&log, |seen| seen.local, |_| pause).unwrap();
}

/// The pause after a fetch is twice the fetch's length, so requests are three lengths apart.
#[test]
fn slow_servers_are_given_more_time() {
    let (site, log) = crawled(slow(50, Duration::from_millis(10)), &["politeness.delay_factor=2.0"]);
    check_gaps(&log, |seen| seen.host.clone(), |seen| latency(&site.web, seen) * 3).unwrap();
}

#[test]
fn crawl_delay_is_kept() {
    let crawl_delay = Duration::from_millis(40);
    let config = WebConfig { hosts: 4, pages: 60, crawl_delay: Some(crawl_delay), ..WebConfig::small(8) };
    let (site, log) = crawled(config, &["politeness.per_ip=false"]);
    let robots = site.web.expected().robots;
    let owed = |seen: &Seen| {
        let asks_for_it = robots[&format!("http://{}/robots.txt", seen.host)] == 200;
        // A robots.txt that failed asks for nothing.
        if asks_for_it && (seen.path != "/robots.txt" || seen.status == 200) { crawl_delay } else { Duration::ZERO }
    };
    check_gaps(&log, |seen| seen.host.clone(), owed).unwrap();
    let with_delay = log.iter().filter(|seen| !owed(seen).is_zero()).count();
    assert!(with_delay > 20, "only {with_delay} requests of hosts that ask for a pause");
}
