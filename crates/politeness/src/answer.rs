//! What is asked of this crate, and what it answers.

use std::time::Duration;

use model::{FailureKind, FetchOutcome, Refusal, Time};

/// Whether a URL may be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Now. The permission is spent by being given: the next one for this host comes after its pause.
    Go,
    /// Fetch `/robots.txt` of this host now, tell [`Politeness::robots_arrived`](crate::Politeness::robots_arrived),
    /// and ask again. Spent like [`Permit::Go`].
    RobotsFirst,
    /// Ask again then.
    NotBefore(Time),
    /// Never: by a rule of robots.txt, or because the host is given up.
    Refused(Refusal),
}

/// How a fetch of robots.txt ended, its redirects followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsAnswer<'a> {
    /// The server answered.
    Answered {
        /// Status code. A redirect status says that the limit of redirects was reached.
        status: u16,
        /// The body, its codings undone; more than 500 KiB of it is not read.
        body: &'a [u8],
    },
    /// The server did not.
    Failed(FailureKind),
}

/// What the host's robots.txt comes to, for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsState {
    /// It was read.
    Rules {
        /// How many rules concern us.
        rules: usize,
        /// The pause it asks for, as it stands there, not yet clamped.
        crawl_delay: Option<Duration>,
    },
    /// There is none: everything is allowed (RFC 9309 §2.3.1.3).
    AllowedAll,
    /// It could not be had now, and an older copy still serves.
    Stale {
        /// When it is asked for again.
        until: Time,
    },
    /// It could not be had now; the host's URLs wait.
    Waiting {
        /// When it is asked for again.
        until: Time,
    },
    /// It could not be had as often as is allowed; the host's URLs are refused.
    Unreachable {
        /// When it is asked for again.
        until: Time,
    },
}

/// How a fetch ended, as far as it tells how soon to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchSummary<'a> {
    /// The server answered.
    Answered {
        /// Status code.
        status: u16,
        /// The text of its `Retry-After` field.
        retry_after: Option<&'a str>,
    },
    /// The server did not.
    Failed(FailureKind),
}

impl<'a> From<&'a FetchOutcome> for FetchSummary<'a> {
    fn from(outcome: &'a FetchOutcome) -> Self {
        match outcome {
            FetchOutcome::Answered(exchange) => {
                Self::Answered { status: exchange.status, retry_after: exchange.headers.get_str("retry-after") }
            }
            FetchOutcome::Failed { kind, .. } => Self::Failed(*kind),
        }
    }
}

/// What follows from a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aftermath {
    /// When the host may be asked again.
    pub host_until: Time,
    /// When any host at the same address may be asked again.
    pub address_until: Time,
    /// What becomes of the URL. Of no concern for robots.txt, which [`Permit::RobotsFirst`] brings back.
    pub next: Next,
}

/// What becomes of a URL after a fetch of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The answer stands, whatever its status.
    Done,
    /// It is tried again.
    Retry {
        /// Not before this, and not before its host may be asked again.
        not_before: Time,
    },
    /// It was tried as often as this failure allows; the last outcome stands.
    GiveUp,
    /// As [`Next::GiveUp`], and from now on [`Permit::Refused`] is the answer to all the host's URLs.
    HostDead,
}
