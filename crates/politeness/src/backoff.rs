//! What a failure costs: one table for every kind.

use std::time::{Duration, UNIX_EPOCH};

use model::{FailureKind, Time};

use crate::{FetchSummary, PolitenessConfig};

/// How each wait grows over the one before.
const GROWTH: u32 = 3;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// How often the URL is tried again, where `politeness.retries` allows as many.
    retries: u8,
    /// Whether the whole host waits or only the URL.
    pub(crate) host_waits: bool,
    /// The host is dead once so many URLs in a row would have used up their tries; 0 is never.
    dead_after: u8,
}

const fn row(retries: u8, host_waits: bool, dead_after: u8) -> Row {
    Row { retries, host_waits, dead_after }
}

/// As often as `politeness.retries` says.
const ALL: u8 = u8::MAX;

impl Row {
    /// The table. `None` is no failure: the answer stands.
    ///
    /// A host that is not there dies with its first URL. One that is there and in trouble is given
    /// twice as long, so that one bad page does not bury a site. Waiting does not help against what
    /// is the same tomorrow: a private address, a server that speaks another protocol, our own faults.
    pub(crate) fn of(summary: FetchSummary<'_>) -> Option<Self> {
        match summary {
            FetchSummary::Failed(kind) => Some(match kind {
                // Retries, whether the host waits, dead after so many URLs.
                FailureKind::PrivateAddress => row(0, true, 1),
                FailureKind::DnsNotFound | FailureKind::Tls => row(1, true, 1),
                FailureKind::ConnectRefused | FailureKind::ConnectFailed => row(2, true, 1),
                FailureKind::DnsFailed | FailureKind::ConnectTimeout => row(ALL, true, 1),
                FailureKind::FirstByteTimeout | FailureKind::Disconnected => row(ALL, true, 2),
                FailureKind::Protocol => row(0, false, 10),
                FailureKind::Internal => row(0, false, 0),
            }),
            FetchSummary::Answered { status, .. } => match status {
                429 | 503 => Some(row(ALL, true, 2)),
                // One page's programming error as often as a server's distress: the page waits.
                500..600 => Some(row(2, false, 0)),
                _ => None,
            },
        }
    }

    /// Whether such a failure counts towards the host's death.
    pub(crate) fn tells_against_host(self) -> bool {
        self.dead_after > 0
    }

    /// Tries again that the configuration grants this kind.
    fn retries(self, config: &PolitenessConfig) -> u32 {
        u32::from(self.retries.min(config.retries))
    }

    /// Whether a URL is given up that was tried `attempts` times.
    pub(crate) fn gives_up(self, config: &PolitenessConfig, attempts: u32) -> bool {
        attempts > self.retries(config)
    }

    /// Whether a host is dead that failed `failures` times in a row.
    pub(crate) fn kills(self, config: &PolitenessConfig, failures: u32) -> bool {
        self.tells_against_host() && failures >= (self.retries(config) + 1) * u32::from(self.dead_after)
    }
}

/// The wait after the given number of failures in a row: `politeness.retry_delay`, three times that,
/// nine times that, and so on up to `politeness.max_retry_delay`.
pub(crate) fn wait(config: &PolitenessConfig, failures: u32) -> Duration {
    let growth = GROWTH.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    config.retry_delay.0.saturating_mul(growth).min(config.max_retry_delay.0)
}

/// What a `Retry-After` field asks for (RFC 9110 §10.2.3), seconds or a date, at most
/// `politeness.max_retry_after`; `None` where it is neither.
pub(crate) fn retry_after(config: &PolitenessConfig, text: &str, now: Time) -> Option<Duration> {
    let text = text.trim();
    let asked = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds are a long time, too.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        (Time::ZERO + date).since(now)
    };
    Some(asked.min(config.max_retry_after.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound() {
        let config = PolitenessConfig::default();
        for (failures, expected) in [(1, 30), (2, 90), (3, 270), (4, 810), (5, 900), (6, 900), (u32::MAX, 900)] {
            assert_eq!(wait(&config, failures), Duration::from_secs(expected), "{failures}");
        }
    }

    #[test]
    fn retry_after_is_read_and_clamped() {
        let config = PolitenessConfig::default();
        // 1994-11-06T08:49:37Z, the example of RFC 9110 §5.6.7.
        let now = Time::from_micros(784_111_777_000_000);
        for (text, expected) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("3601", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(&config, text, now), expected.map(Duration::from_secs), "{text}");
        }
    }

    /// Tries of one URL, and failures in a row after which the host is dead, at three retries.
    #[test]
    fn the_table() {
        let config = PolitenessConfig::default();
        let status = |status| FetchSummary::Answered { status, retry_after: None };
        let check = |summary, tries, failures: Option<u32>| {
            let row = Row::of(summary).unwrap();
            assert_eq!((1..100).find(|&attempts| row.gives_up(&config, attempts)), Some(tries), "{summary:?}");
            assert_eq!((1..100).find(|&failures| row.kills(&config, failures)), failures, "{summary:?}");
        };
        for (kind, tries, failures) in [
            (FailureKind::DnsNotFound, 2, Some(2)),
            (FailureKind::DnsFailed, 4, Some(4)),
            (FailureKind::PrivateAddress, 1, Some(1)),
            (FailureKind::ConnectRefused, 3, Some(3)),
            (FailureKind::ConnectTimeout, 4, Some(4)),
            (FailureKind::ConnectFailed, 3, Some(3)),
            (FailureKind::Tls, 2, Some(2)),
            (FailureKind::FirstByteTimeout, 4, Some(8)),
            (FailureKind::Disconnected, 4, Some(8)),
            (FailureKind::Protocol, 1, Some(10)),
            (FailureKind::Internal, 1, None),
        ] {
            check(FetchSummary::Failed(kind), tries, failures);
        }
        check(status(429), 4, Some(8));
        check(status(503), 4, Some(8));
        check(status(500), 3, None);
        check(status(599), 3, None);
        for fine in [200, 204, 301, 304, 404, 403, 408, 600] {
            assert_eq!(Row::of(status(fine)), None, "{fine}");
        }
    }
}
