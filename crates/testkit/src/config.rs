//! What kind of web to grow.

use std::ops::Range;
use std::time::Duration;

/// A web's measures. Shares lie in 0..=1; those of page kinds are shares of all pages, and their sum
/// stays below 7/8, because only pages without children in their host's tree can be anything but
/// plain HTML.
#[derive(Debug, Clone, PartialEq)]
pub struct WebConfig {
    /// The number everything is derived from.
    pub seed: u64,
    /// Hosts; at least 1.
    pub hosts: u32,
    /// Pages of all hosts together, of whatever kind; at least one per host. They are spread over
    /// the hosts by Zipf's law.
    pub pages: u32,

    /// Pages that redirect (301, 302, 303, 307 or 308), a quarter of them in chains.
    pub redirects: f64,
    /// Pages that are linked and do not exist (404, some 410).
    pub missing: f64,
    /// Pages that answer 500 or 502 every time.
    pub broken: f64,
    /// Pages whose first one or two answers are 500, 502 or 503.
    pub flaky: f64,
    /// Pages that robots.txt rules speak of; most are refused, some are allowed by an exception.
    pub guarded: f64,
    /// Pages with `<meta name=robots content=nofollow>`.
    pub unfollowed: f64,
    /// PDF-like pages.
    pub pdfs: f64,
    /// Plain text pages.
    pub texts: f64,

    /// Links out of the text to hosts outside the web, each to a URL of its own.
    pub external_links: f64,
    /// Links out of the text to other hosts of the web.
    pub cross_host_links: f64,
    /// Links out of the text that carry `rel=nofollow`.
    pub nofollow_links: f64,
    /// Links written in an unusual way: upper case, default port, needless escapes, dot segments,
    /// fragments, odd quoting.
    pub respelled_links: f64,
    /// HTML pages with a URL where only a wrong parser finds it.
    pub traps: f64,

    /// HTML pages in ISO-8859-1 or UTF-16, declared in the header or on the page.
    pub other_charsets: f64,
    /// Answers compressed with gzip, for clients that accept it.
    pub gzip: f64,
    /// The `Crawl-delay` of every robots.txt.
    pub crawl_delay: Option<Duration>,
    /// How long the server waits before it answers; the same for the same URL every time.
    pub latency: Option<Range<Duration>>,
}

impl WebConfig {
    /// A web for tests: 12 hosts, 1500 pages, some of everything, no latency.
    pub fn small(seed: u64) -> Self {
        Self {
            seed,
            hosts: 12,
            pages: 1500,
            redirects: 0.06,
            missing: 0.03,
            broken: 0.005,
            flaky: 0.01,
            guarded: 0.06,
            unfollowed: 0.02,
            pdfs: 0.02,
            texts: 0.01,
            external_links: 0.22,
            cross_host_links: 0.12,
            nofollow_links: 0.03,
            respelled_links: 0.25,
            traps: 0.2,
            other_charsets: 0.04,
            gzip: 0.3,
            crawl_delay: None,
            latency: None,
        }
    }

    /// The web of `argiope demo`: a few seconds' crawl.
    pub fn demo() -> Self {
        Self { hosts: 20, pages: 2000, ..Self::small(2026) }
    }

    /// A web for benches: a host for every 250 pages, nothing compressed, so that the server spends
    /// its time on serving.
    pub fn large(pages: u32) -> Self {
        Self { hosts: (pages / 250).clamp(16, 20_000), pages, gzip: 0.0, ..Self::small(1) }
    }
}

impl Default for WebConfig {
    fn default() -> Self {
        Self::small(1)
    }
}
