//! The section `[politeness]`.

use std::time::Duration;

use model::{ByteSize, ConfigError, Span};
use serde::{Deserialize, Serialize};

/// How soon a host is asked again, and how often a failure is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolitenessConfig {
    /// The pause after a fetch, as a multiple of the time the fetch took.
    pub delay_factor: f64,
    /// The shortest pause between two fetches of one host.
    pub min_delay: Span,
    /// The longest pause that a slow fetch leads to.
    pub max_delay: Span,
    /// The longest Crawl-delay of a robots.txt that is kept; a longer one counts as this.
    pub max_crawl_delay: Span,
    /// Whether hosts at one address wait for each other as one host would, Crawl-delay and back-off apart.
    pub per_ip: bool,
    /// How often a URL is tried again after a failure that may pass; some kinds of failure allow fewer.
    pub retries: u8,
    /// The wait before the first try again; it triples with each further failure of the host in a row.
    pub retry_delay: Span,
    /// The longest wait before a try again.
    pub max_retry_delay: Span,
    /// The longest Retry-After of a server that is kept; a longer one counts as this.
    pub max_retry_after: Span,
    /// The memory for robots.txt rules and paces of hosts, of which those with nothing queued are forgotten when it is full.
    pub memory: ByteSize,
}

impl Default for PolitenessConfig {
    fn default() -> Self {
        let span = |seconds| Span(Duration::from_secs(seconds));
        Self {
            // Heritrix's factor and upper bound. Its lower bound of 3 s dates from slower servers; a
            // server that is slow now is spared by the factor.
            delay_factor: 5.0,
            min_delay: span(1),
            max_delay: span(30),
            max_crawl_delay: span(5 * 60),
            per_ip: true,
            // 30 s, 90 s and 270 s: a restart is waited for, an outage does not hold up the crawl's end.
            retries: 3,
            retry_delay: span(30),
            max_retry_delay: span(15 * 60),
            max_retry_after: span(60 * 60),
            memory: ByteSize(64 << 20),
        }
    }
}

impl PolitenessConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them: factors that are no number, bounds that cross, waits so long that robots.txt,
    /// which is asked for anew every 24 hours, would be all that is ever fetched.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        problems.require(
            (0.0..=MAX_DELAY_FACTOR).contains(&self.delay_factor),
            "politeness.delay_factor",
            format!("must be a number from 0 to {MAX_DELAY_FACTOR}"),
        );
        problems.require(
            self.min_delay <= self.max_delay,
            "politeness.min_delay",
            format!("must not be longer than politeness.max_delay, which is {}", self.max_delay),
        );
        problems.require(
            self.retry_delay <= self.max_retry_delay,
            "politeness.retry_delay",
            format!("must not be longer than politeness.max_retry_delay, which is {}", self.max_retry_delay),
        );
        problems.require(
            self.retries <= MAX_RETRIES,
            "politeness.retries",
            format!("must be at most {MAX_RETRIES}: a host that is gone would hold up the crawl's end"),
        );
        for (key, span) in [
            ("politeness.max_delay", self.max_delay),
            ("politeness.max_crawl_delay", self.max_crawl_delay),
            ("politeness.max_retry_delay", self.max_retry_delay),
            ("politeness.max_retry_after", self.max_retry_after),
        ] {
            problems.require(span <= MAX_WAIT, key, format!("must be at most {MAX_WAIT}"));
        }
        problems.into_result()
    }
}

const MAX_DELAY_FACTOR: f64 = 1000.0;
const MAX_RETRIES: u8 = 20;
/// Half the life of a robots.txt, so that between two of them there is always time for a page.
const MAX_WAIT: Span = Span(Duration::from_hours(12));

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let config: PolitenessConfig = toml::from_str(text).unwrap();
        let problems = config.check().err().unwrap_or_default().0;
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, expected, "{text}: {problems:?}");
    }

    #[test]
    fn every_bad_value_is_found() {
        check("", &[]);
        check("delay_factor = 0.0\nmin_delay = '0s'\nmax_delay = '0s'", &[]);
        check("delay_factor = -1.0", &["politeness.delay_factor"]);
        check("delay_factor = nan", &["politeness.delay_factor"]);
        check("delay_factor = inf", &["politeness.delay_factor"]);
        check("min_delay = '31s'\nretries = 21", &["politeness.min_delay", "politeness.retries"]);
        check("retry_delay = '16m'", &["politeness.retry_delay"]);
        check(
            "max_delay = '13h'\nmax_crawl_delay = '13h'\nmax_retry_delay = '13h'\nmax_retry_after = '13h'",
            &[
                "politeness.max_delay",
                "politeness.max_crawl_delay",
                "politeness.max_retry_delay",
                "politeness.max_retry_after",
            ],
        );
    }

    #[test]
    fn unknown_keys_are_refused() {
        for text in ["obey_robots = false", "retries = 256", "min_delay = 3"] {
            assert!(toml::from_str::<PolitenessConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_is_written_and_read_back() {
        let default = PolitenessConfig::default();
        assert_eq!(toml::from_str::<PolitenessConfig>(&toml::to_string(&default).unwrap()).unwrap(), default);
    }
}
