//! Limits and Ctrl-C: a crawl that was stopped is saved, and goes on where it was.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use engine::State;
use testkit::{Judgement, WebConfig};

use crate::crawl::check_balance;
use crate::harness::{Ended, Site};
use crate::job_files::{Audit, ends, report};

/// What a crawl of several sessions may do that one of a single session may not.
struct Allowed {
    /// Each session asks for robots.txt anew; a page is asked for once all the same, unless its
    /// fetch was under way when the crawl was interrupted.
    pages_again: usize,
}

/// The whole web was fetched, each page of it once.
#[track_caller]
fn check_whole(site: &Site, allowed: &Allowed, last: &Ended) {
    let Judgement { missing, unexpected, forbidden, repeated, wrong_status, before_robots, .. } =
        site.judge(&site.server.log());
    let faults = [missing, unexpected, forbidden, before_robots].concat();
    assert!(faults.is_empty() && wrong_status.is_empty(), "{faults:#?}\n{wrong_status:#?}\n{last}");
    let again: Vec<_> = repeated.iter().filter(|page| !page.url.ends_with("/robots.txt")).collect();
    assert!(again.len() <= allowed.pages_again, "{again:#?}\n{last}");
    Audit::of(&site.job(), &site.web.expected()).assert_right(last);
    check_balance(&report(&site.job()));
}

#[test]
fn a_crawl_stopped_at_its_limit_goes_on_by_the_same_command() {
    let site = Site::tiny(21);
    let pages = site.web.expected().fetched.len() as u64;
    let ended = site.crawl(&["crawl.max_pages=80"]).exits(3);
    assert!(ended.stdout.contains("stopped at the limit crawl.max_pages"), "{ended}");
    let stopped = report(&site.job());
    assert_eq!((&stopped.state, stopped.pages), (&State::Limit("crawl.max_pages".to_owned()), 80));
    assert_eq!(stopped.admitted, stopped.done + stopped.queued);

    // Its own words are that the same command goes on; seeds are known by now.
    let runs = 1 + (1..).map_while(|_| (site.resume().run().code == Some(3)).then_some(())).take(9).count() as u64;
    assert_eq!(runs, pages / 80, "every run but the last has stopped at the limit");
    let last = site.resume().exits(0);
    assert_eq!(report(&site.job()).pages, pages);
    check_whole(&site, &Allowed { pages_again: 0 }, &last);
}

/// A host that cannot be fetched from now is no lost page: its URLs wait for a run that can.
#[test]
fn what_was_left_alone_is_fetched_by_a_later_run() {
    // Nobody listens on a port that was just given up.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (setting, down, reason, code) in [
        ("downloader.allow_private_addresses=false", false, "private-address", 4),
        ("frontier.per_host_max_pages=3", false, "host-page-limit", 0),
        ("politeness.retries=2", true, "host-dead", 4),
    ] {
        let site = Site::tiny(23);
        let names = site.server.resolve().into_keys().filter(|_| down);
        let nowhere: Vec<String> = names.map(|name| format!("\"{name}\" = \"{closed}\"\n")).collect();
        fs::write(site.path("down.toml"), format!("[downloader.resolve]\n{}", nowhere.concat())).unwrap();

        let first = if down { "down.toml" } else { "site.toml" };
        let left = site.crawl(&[setting]).args(["--config", first]).exits(code);
        assert!(left.stdout.contains(&format!("left: {reason}")), "{left}");
        let stopped = report(&site.job());
        assert!(stopped.queued > 0 && stopped.state == State::Finished, "{left}");
        assert_eq!(stopped.admitted, stopped.done + stopped.queued);
        let mut pages: HashMap<String, u32> = HashMap::new();
        for done in ends(&site.job()).into_iter().filter(|done| done.fetch.is_some()) {
            *pages.entry(done.url.url.origin()).or_default() += 1;
        }
        let most = pages.values().copied().max().unwrap_or_default();
        assert_eq!(most, if reason == "host-page-limit" { 3 } else { 0 }, "{left}");

        let resumed = site.resume().args(["--config", "site.toml"]).set(&["frontier.per_host_max_pages=0"]);
        check_whole(&site, &Allowed { pages_again: 0 }, &resumed.exits(0));
    }
}

#[test]
fn other_limits_stop_a_crawl_as_well() {
    for (setting, which) in [
        ("crawl.max_bytes=300KiB", "crawl.max_bytes"),
        ("crawl.max_duration=1ms", "crawl.max_duration"),
        ("crawl.max_disk=64KiB", "crawl.max_disk"),
    ] {
        let site = Site::new(slow());
        let ended = site.crawl(&[setting]).exits(3);
        assert!(ended.stdout.contains(&format!("stopped at the limit {which};")), "{ended}");
        assert_eq!(report(&site.job()).state, State::Limit(which.to_owned()));
        let last = site.resume().set(&["crawl.max_bytes=0B", "crawl.max_duration=0s", "crawl.max_disk=0B"]).exits(0);
        check_whole(&site, &Allowed { pages_again: 6 }, &last);
    }
}

/// A web whose crawl lasts longer than the half second after which limits are looked at.
fn slow() -> WebConfig {
    let latency = Some(Duration::from_millis(8)..Duration::from_millis(12));
    WebConfig { hosts: 6, pages: 250, latency, ..WebConfig::small(22) }
}

#[test]
fn an_interrupted_crawl_is_saved_and_goes_on() {
    let site = Site::new(slow());
    let mut running = site.crawl(&[]).start();
    assert!(running.until(|| site.server.requests() > 60), "it ended before it could be interrupted");
    running.interrupt();
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{ended}");
    assert!(ended.stdout.contains("interrupted and saved"), "{ended}");
    let saved = report(&site.job());
    assert_eq!(saved.state, State::Interrupted);
    assert!(saved.queued > 0 && saved.done as usize == ends(&site.job()).len(), "{ended}");

    let last = site.resume().exits(0);
    assert!(last.healed().is_empty(), "{last}");
    // At most one fetch per host was under way.
    check_whole(&site, &Allowed { pages_again: 6 }, &last);
}

/// With half a minute between two groups, saving takes half a minute: too long for a second Ctrl-C.
#[test]
fn a_second_interrupt_leaves_at_once() {
    let site = Site::new(slow());
    let mut running = site.crawl(&["storage.sync_interval=30s"]).start();
    assert!(running.until(|| site.server.requests() > 60), "it ended before it could be interrupted");
    running.interrupt();
    for _ in 0..100 {
        // Two signals on the same instant count as one.
        if running.ends_within(Duration::from_millis(50)) {
            break;
        }
        running.interrupt();
    }
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{ended}");
    assert!(ended.took < Duration::from_secs(15), "{ended}");
    assert_eq!(ended.stdout, "", "whoever leaves at once has no report");

    let last = site.crawl(&["storage.sync_interval=10ms"]).exits(0);
    let records = Audit::of(&site.job(), &site.web.expected());
    records.assert_right(&last);
}
