//! A crawl against what it should have been.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::oracle::Expectation;
use crate::server::Seen;

/// What a crawl did wrong: nothing, if all lists are empty. The lists are in the URLs' order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// URLs that were fetched as expected, robots.txt included.
    pub right: usize,
    /// Expected, and never requested.
    pub missing: Vec<String>,
    /// Requested, and neither expected nor forbidden.
    pub unexpected: Vec<String>,
    /// Requested, though robots.txt, nofollow or good sense forbid it.
    pub forbidden: Vec<String>,
    /// Requested more often than failures explain.
    pub repeated: Vec<Repeated>,
    /// Given up before the right answer came, or answered by something else.
    pub wrong_status: Vec<WrongStatus>,
    /// Requested before the host's robots.txt was.
    pub before_robots: Vec<String>,
}

/// A URL requested too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// The URL.
    pub url: String,
    /// How often it was requested.
    pub requests: u32,
    /// How often it may be.
    pub allowed: u32,
}

/// A URL whose last answer was not the one expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongStatus {
    /// The URL.
    pub url: String,
    /// The status a right crawl ends with.
    pub expected: u16,
    /// The status this one ended with.
    pub got: u16,
}

impl Expectation {
    /// Judges one visit of the web by the server's log of it.
    pub fn judge(&self, log: &[Seen]) -> Judgement {
        let mut judgement = Judgement::default();
        let mut requests: BTreeMap<String, (u32, u16)> = BTreeMap::new();
        let mut with_robots: HashSet<&str> = HashSet::new();
        for seen in log {
            let url = ["http://", &seen.host, &seen.path].concat();
            if seen.path == "/robots.txt" {
                if seen.status < 500 {
                    with_robots.insert(&seen.host);
                }
            } else if !with_robots.contains(&*seen.host) {
                judgement.before_robots.push(url.clone());
            }
            let (count, status) = requests.entry(url).or_default();
            *count += 1;
            *status = seen.status;
        }
        judgement.before_robots.sort();
        judgement.before_robots.dedup();

        let expected = || self.fetched.iter().chain(&self.robots);
        judgement.missing.extend(expected().map(|(url, _)| url).filter(|url| !requests.contains_key(*url)).cloned());
        judgement.missing.sort();
        for (url, (requests, got)) in requests {
            let Some(&expected) = self.fetched.get(&url).or_else(|| self.robots.get(&url)) else {
                if self.robots_refused.contains(&url) || self.must_not.contains(&url) {
                    judgement.forbidden.push(url);
                } else {
                    judgement.unexpected.push(url);
                }
                continue;
            };
            let allowed = self.allowed_requests(&url);
            // "Not modified" is the right answer of a later visit.
            let is_right_status = got == expected || (got, expected) == (304, 200);
            judgement.right += usize::from(is_right_status && requests <= allowed);
            if !is_right_status {
                judgement.wrong_status.push(WrongStatus { url: url.clone(), expected, got });
            }
            if requests > allowed {
                judgement.repeated.push(Repeated { url, requests, allowed });
            }
        }
        judgement
    }
}

impl Judgement {
    /// Whether the crawl was right in everything.
    pub fn is_right(&self) -> bool {
        self.missing.is_empty()
            && self.unexpected.is_empty()
            && self.forbidden.is_empty()
            && self.repeated.is_empty()
            && self.wrong_status.is_empty()
            && self.before_robots.is_empty()
    }
}

/// A line of summary, then the first ten of each kind of fault.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_right() { "a right crawl" } else { "not a right crawl" };
        writeln!(f, "{verdict}: {} URLs fetched as expected", self.right)?;
        list(f, "missing", &self.missing)?;
        list(f, "unexpected", &self.unexpected)?;
        list(f, "forbidden", &self.forbidden)?;
        list(f, "requested too often", &self.repeated)?;
        list(f, "ended with the wrong status", &self.wrong_status)?;
        list(f, "requested before robots.txt", &self.before_robots)
    }
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} times, {} allowed)", self.url, self.requests, self.allowed)
    }
}

impl fmt::Display for WrongStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, expected {})", self.url, self.got, self.expected)
    }
}

fn list(f: &mut fmt::Formatter<'_>, name: &str, faults: &[impl fmt::Display]) -> fmt::Result {
    const SHOWN: usize = 10;
    if faults.is_empty() {
        return Ok(());
    }
    writeln!(f, "{} {name}:", faults.len())?;
    for fault in faults.iter().take(SHOWN) {
        writeln!(f, "  {fault}")?;
    }
    if faults.len() > SHOWN { writeln!(f, "  and {} more", faults.len() - SHOWN) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn expectation() -> Expectation {
        let set = |urls: &[&str]| urls.iter().map(|url| format!("http://h{url}")).collect::<BTreeSet<_>>();
        let statuses =
            |urls: &[(&str, u16)]| urls.iter().map(|(url, status)| (format!("http://h{url}"), *status)).collect();
        Expectation {
            fetched: statuses(&[("/", 200), ("/flaky", 200), ("/broken", 500)]),
            robots: statuses(&[("/robots.txt", 200)]),
            robots_refused: set(&["/private"]),
            must_not: set(&["/trap"]),
            failing: [("http://h/flaky".to_owned(), 1), ("http://h/broken".to_owned(), u32::MAX)].into(),
            retries: 2,
        }
    }

    fn seen((path, status): (&str, u16)) -> Seen {
        let address = "127.0.0.1:1".parse().unwrap();
        Seen {
            at: std::time::Duration::ZERO,
            host: "h".into(),
            path: path.to_owned(),
            status,
            user_agent: "test".into(),
            peer: address,
            local: address,
        }
    }

    const RIGHT: [(&str, u16); 7] = [
        ("/robots.txt", 200),
        ("/", 200),
        ("/flaky", 503),
        ("/broken", 500),
        ("/flaky", 200),
        ("/broken", 500),
        ("/broken", 500),
    ];

    /// The display of the judgement of the right crawl, changed as given.
    fn check(change: impl FnOnce(&mut Vec<(&'static str, u16)>), expected: &str) {
        let mut log = RIGHT.to_vec();
        change(&mut log);
        let log: Vec<Seen> = log.into_iter().map(seen).collect();
        let judgement = expectation().judge(&log);
        assert_eq!(judgement.to_string(), expected);
        assert_eq!(judgement.is_right(), expected.starts_with("a right crawl"));
    }

    #[test]
    fn each_fault_is_seen() {
        check(|_| {}, "a right crawl: 4 URLs fetched as expected\n");
        check(
            |log| log.retain(|(path, _)| *path != "/"),
            "not a right crawl: 3 URLs fetched as expected\n1 missing:\n  http://h/\n",
        );
        check(
            |log| log.push(("/else", 404)),
            "not a right crawl: 4 URLs fetched as expected\n1 unexpected:\n  http://h/else\n",
        );
        check(
            |log| log.extend([("/private", 200), ("/trap", 200)]),
            "not a right crawl: 4 URLs fetched as expected\n2 forbidden:\n  http://h/private\n  http://h/trap\n",
        );
        check(
            |log| log.extend([("/", 200), ("/broken", 500)]),
            "not a right crawl: 2 URLs fetched as expected\n2 requested too often:\n  \
             http://h/ (2 times, 1 allowed)\n  http://h/broken (4 times, 3 allowed)\n",
        );
        check(
            |log| {
                log.remove(4);
            },
            "not a right crawl: 3 URLs fetched as expected\n1 ended with the wrong status:\n  \
             http://h/flaky (503, expected 200)\n",
        );
        check(
            |log| log.swap(0, 1),
            "not a right crawl: 4 URLs fetched as expected\n1 requested before robots.txt:\n  http://h/\n",
        );
    }

    #[test]
    fn not_modified_is_right_on_a_later_visit() {
        check(|log| log[1].1 = 304, "a right crawl: 4 URLs fetched as expected\n");
    }

    #[test]
    fn long_lists_are_cut() {
        let log: Vec<Seen> = (0..15).map(|_| seen(("/robots.txt", 200))).collect();
        assert!(expectation().judge(&log).to_string().contains("15 times"));
        let judgement = Judgement { missing: vec!["u".to_owned(); 12], ..Judgement::default() };
        assert!(judgement.to_string().ends_with("  u\n  and 2 more\n"));
    }
}
