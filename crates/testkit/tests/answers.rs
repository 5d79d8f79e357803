//! What the web answers: always the same, and in time something else.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::{Answer, Request, Web, WebConfig};

fn get<'a>(url: &'a str, change: impl FnOnce(&mut Request<'a>)) -> Request<'a> {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut request = Request::get(host, &url[url.len() - path.len() - 1..]);
    change(&mut request);
    request
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let (web, same, other) =
        (Web::new(WebConfig::small(1)), Web::new(WebConfig::small(1)), Web::new(WebConfig::small(2)));
    let expected = web.expected();
    assert_eq!(expected, same.expected());
    assert_ne!(expected, other.expected());
    for (url, status) in &expected.fetched {
        let request = get(url, |request| request.nth = 3);
        let answer = web.answer(&request);
        assert_eq!(answer.status, *status, "{url}");
        let again = same.answer(&request);
        assert_eq!((answer.headers, answer.body), (again.headers, again.body), "{url}");
    }
    let home = |web: &Web| web.answer(&Request::get("www.site-000.test", "/")).body;
    assert_ne!(home(&web), home(&other));
}

/// The bytes are the same in every version, too, so that recorded figures stay comparable. If this
/// test fails on purpose, note the new digest and record the benches anew.
#[test]
fn the_bytes_of_a_seed_never_change() {
    let web = Web::new(WebConfig::small(1));
    let mut digest = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
    for url in web.expected().fetched.keys() {
        for byte in web.answer(&get(url, |_| {})).body {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    assert_eq!(format!("{digest:016x}"), "62af3856ed6e8bd5");
}

#[test]
fn passing_failures_pass_and_others_stay() {
    let web = Web::new(WebConfig::small(1));
    let expected = web.expected();
    for (url, failing) in &expected.failing {
        let last = expected.fetched.get(url).or_else(|| expected.robots.get(url)).unwrap();
        for nth in 1..=6 {
            let status = web.answer(&get(url, |request| request.nth = nth)).status;
            assert_eq!(status >= 500, nth <= *failing, "{url}, request {nth}");
            assert!(nth <= *failing || status == *last);
        }
    }
    let passing = expected.failing.values().filter(|failing| **failing <= 2).count();
    assert!(passing > 5 && passing < expected.failing.len(), "{passing} of {}", expected.failing.len());
}

#[test]
fn answers_that_are_no_pages_have_no_links() {
    let web = Web::new(WebConfig::small(1));
    for (url, status) in web.expected().fetched {
        if status != 200 {
            let body = web.answer(&get(&url, |_| {})).body;
            assert!(!body.windows(5).any(|window| window == b"href="), "{url}");
        }
    }
    assert_eq!(web.answer(&Request::get("www.site-000.test", "/no-such-page")).status, 404);
    assert_eq!(web.answer(&Request::get("elsewhere.test", "/")).status, 404);
}

#[test]
fn robots_txt_asks_for_a_delay_only_when_told_to() {
    let robots = |crawl_delay, host| {
        let web = Web::new(WebConfig { crawl_delay, ..WebConfig::small(1) });
        String::from_utf8(web.answer(&Request::get(host, "/robots.txt")).body.to_vec()).unwrap()
    };
    for host in ["www.site-000.test", "www.site-001.test"] {
        assert!(!robots(None, host).contains("Crawl-delay"));
    }
    assert!(robots(Some(Duration::from_millis(1500)), "www.site-000.test").contains("\nCrawl-delay: 1.5\n"));
}

#[test]
fn pages_change_at_their_rates() {
    let web = Web::new(WebConfig::small(1));
    let urls: Vec<String> =
        web.expected().fetched.into_iter().filter(|(_, status)| *status == 200).map(|(url, _)| url).collect();
    let body = |url: &str, epoch| {
        web.answer(&get(url, |request| {
            request.epoch = epoch;
            request.nth = 3;
        }))
        .body
    };
    let mut counts = Vec::new();
    for (from, to) in [(0, 1), (0, 8), (0, 64)] {
        let changed = web.changed(from, to);
        let found: BTreeSet<String> = urls.iter().filter(|url| body(url, from) != body(url, to)).cloned().collect();
        let said: BTreeSet<String> = urls.iter().filter(|url| changed.contains(*url)).cloned().collect();
        assert_eq!(found, said);
        counts.push(found.len());
    }
    let half = urls.len() / 2;
    assert!(counts[0] > 12 && counts[0] < half / 2, "{counts:?} of {}", urls.len());
    assert!(counts[1] > 2 * counts[0] && counts[2] > half - half / 10 && counts[2] < half + half / 5, "{counts:?}");
}

#[test]
fn validators_say_whether_a_page_changed() {
    let web = Web::new(WebConfig::small(1));
    let changed = web.changed(0, 16);
    let (mut fresh, mut stale) = (0, 0);
    for (url, status) in web.expected().fetched {
        let first = web.answer(&get(&url, |request| request.nth = 3));
        let (etag, modified) = (header(&first, "etag"), header(&first, "last-modified"));
        if status != 200 {
            assert_eq!((etag, modified), (None, None), "{url}");
        }
        for (etag, modified) in [(etag, None), (None, modified), (etag, modified)] {
            if etag.is_none() && modified.is_none() {
                continue;
            }
            let second = web.answer(&get(&url, |request| {
                request.epoch = 16;
                request.nth = 3;
                request.if_none_match = etag;
                request.if_modified_since = modified;
            }));
            assert_eq!(second.status == 304, !changed.contains(&url), "{url}");
            fresh += u32::from(second.status == 304);
            stale += u32::from(second.status == 200);
        }
    }
    assert!(fresh > 100 && stale > 100, "{fresh} fresh, {stale} stale");
}

#[test]
fn a_million_pages_are_cheap_to_hold() {
    let started = std::time::Instant::now();
    let web = Web::new(WebConfig::large(1_000_000));
    assert_eq!(web.hosts().len(), 4000);
    let answer = web.answer(&Request::get("www.site-000.test", "/"));
    assert_eq!(answer.status, 200);
    assert!(started.elapsed().as_secs() < 5);
}
