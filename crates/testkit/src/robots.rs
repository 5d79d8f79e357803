//! Each host's robots.txt, and what it refuses.

use std::time::Duration;

use crate::graph::{Graph, Guard, Kind, Place, What};
use crate::random::{Draws, Purpose};

/// What a host's robots.txt is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RobotsProfile {
    /// Rules for everybody.
    Common,
    /// Rules for us by name, in two groups; everybody else is refused.
    Named,
    /// As `Common`, after the first answer, which is a 500.
    Flaky,
    /// 404: everything is allowed (RFC 9309 §2.3.1.3).
    Missing,
}

impl RobotsProfile {
    /// The first four hosts have one each, so that every web has all of them.
    pub(crate) fn draw(seed: u64, host: u32) -> Self {
        match host {
            0 => Self::Common,
            1 => Self::Missing,
            2 => Self::Flaky,
            3 => Self::Named,
            _ => Draws::new(seed, Purpose::RobotsProfile, host, 0).choose(&[
                Self::Common,
                Self::Common,
                Self::Common,
                Self::Common,
                Self::Named,
                Self::Missing,
            ]),
        }
    }

    /// How many answers fail before the right one.
    pub(crate) fn failures(self) -> u32 {
        u32::from(self == Self::Flaky)
    }

    /// The status of the answer that counts.
    pub(crate) fn status(self) -> u16 {
        if self == Self::Missing { 404 } else { 200 }
    }

    /// The file.
    pub(crate) fn text(self, host: &str, crawl_delay: Option<Duration>) -> String {
        let delay = crawl_delay.map(|delay| format!("Crawl-delay: {}\n", delay.as_secs_f64())).unwrap_or_default();
        match self {
            Self::Common | Self::Flaky => format!(
                "# robots.txt of {host}\n\
                 User-agent: otherbot\n\
                 User-agent: thirdbot # two names, one group\n\
                 Disallow: /\n\
                 \n\
                 User-agent: *\n\
                 {delay}\
                 Disallow: /private/   # but see below\n\
                 Allow: /private/open-\n\
                 Disallow: /*.cgi$\n\
                 Disallow: /*?*print=\n\
                 Disallow:\n"
            ),
            Self::Named => format!(
                "User-agent: *\r\n\
                 Disallow: /\r\n\
                 \r\n\
                 user-agent: ARGIOPE\r\n\
                 {delay}\
                 disallow:/private/\r\n\
                 allow: /private/open-*\r\n\
                 Disallow: /*.cgi$\r\n\
                 \r\n\
                 User-agent: otherbot\r\n\
                 Disallow: /docs/\r\n\
                 \r\n\
                 # The same robot again: its groups count as one (RFC 9309, section 2.2.1).\r\n\
                 User-agent: argiope\r\n\
                 Disallow: /*?*print=\r\n"
            ),
            Self::Missing => String::from(NOT_RULES),
        }
    }
}

/// The body of an answer that is no robots.txt: a crawler that reads rules from it loses the host.
pub(crate) const NOT_RULES: &str = "User-agent: *\nDisallow: /\n";

impl Graph {
    /// Whether the host's robots.txt forbids a robot called argiope to fetch this. Told from what
    /// the page is, not by matching its path.
    pub(crate) fn refused_by_robots(&self, place: Place) -> bool {
        let What::Page(page) = place.what else { return false };
        self.host(place.host).robots != RobotsProfile::Missing
            && matches!(self.kind(place.host, page), Kind::Guarded(Guard::Private | Guard::Cgi | Guard::Print))
    }
}
