//! The web's descriptors: what stands where. Everything but the list of hosts is computed when asked.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::WebConfig;
use crate::random::{Draws, Purpose};
use crate::robots::RobotsProfile;

/// Children of a page in its host's tree, which makes every page reachable from the home page.
const FAN_OUT: u32 = 8;
/// Bytes: the median of HTML pages on the real web, about.
const MEDIAN_SIZE: f64 = 25_000.0;
/// Bytes: where sizes are cut.
pub(crate) const MAX_SIZE: u32 = 512 * 1024;

/// A URL of the web, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) host: u32,
    pub(crate) what: What,
}

/// What of its host a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// `/robots.txt`.
    Robots,
    /// A page; number 0 is the home page.
    Page(u32),
    /// A further redirect on the way of a redirecting page; the number of hops still to come.
    Hop { page: u32, left: u8 },
    /// One of the two redirects that lead to each other.
    Loop { second: bool },
    /// A redirect to the next of its kind, without end.
    Endless(u32),
    /// A URL only a wrong crawler requests, planted by a page.
    Trap { trap: Trap, page: u32 },
}

/// Where a trap's URL is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Trap {
    Comment,
    Script,
    Style,
    Textarea,
    Template,
    Attribute,
    /// In a link with `rel=nofollow`.
    Nofollow,
    /// On a page that asks robots not to follow its links.
    Unfollowed,
    /// In a resource that is not HTML.
    Media,
}

impl Trap {
    pub(crate) const ALL: [Self; 9] = [
        Self::Comment,
        Self::Script,
        Self::Style,
        Self::Textarea,
        Self::Template,
        Self::Attribute,
        Self::Nofollow,
        Self::Unfollowed,
        Self::Media,
    ];

    /// Those that any HTML page may hold.
    pub(crate) const IN_HTML: [Self; 7] =
        [Self::Comment, Self::Script, Self::Style, Self::Textarea, Self::Template, Self::Attribute, Self::Nofollow];

    /// The word in its path.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Comment => "comment",
            Self::Script => "script",
            Self::Style => "style",
            Self::Textarea => "textarea",
            Self::Template => "template",
            Self::Attribute => "attribute",
            Self::Nofollow => "nofollow",
            Self::Unfollowed => "unfollowed",
            Self::Media => "media",
        }
    }
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    /// HTML that asks robots not to follow its links.
    Unfollowed,
    /// HTML that a rule of robots.txt speaks of.
    Guarded(Guard),
    /// HTML, after this many answers with that status.
    Flaky {
        failures: u32,
        status: u16,
    },
    Redirect {
        hops: u8,
    },
    Missing {
        status: u16,
    },
    Broken {
        status: u16,
    },
    Pdf,
    Text,
}

/// Which rule of robots.txt speaks of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// `Disallow: /private/`
    Private,
    /// `Allow: /private/open-`, an exception to the former
    PrivateOpen,
    /// `Disallow: /*.cgi$`
    Cgi,
    /// Not at the end, so not refused by the former
    CgiWithQuery,
    /// `Disallow: /*?*print=`
    Print,
}

/// Where a redirect leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    Inside(Place),
    Outside(External),
}

/// A URL outside the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct External {
    pub(crate) site: u32,
    pub(crate) page: u32,
}

impl External {
    pub(crate) fn draw(draws: &mut Draws) -> Self {
        Self { site: draws.below(64), page: draws.bits() as u32 }
    }
}

/// A host: the only thing a web stores.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) pages: u32,
    pub(crate) robots: RobotsProfile,
}

/// All of the web, as numbers.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) config: WebConfig,
    hosts: Vec<Host>,
    by_name: HashMap<Arc<str>, u32>,
}

impl Graph {
    pub(crate) fn new(mut config: WebConfig) -> Self {
        config.hosts = config.hosts.max(1);
        config.pages = config.pages.max(config.hosts);
        let hosts = hosts(&config);
        let by_name = hosts.iter().zip(0..).map(|(host, number)| (Arc::clone(&host.name), number)).collect();
        Self { config, hosts, by_name }
    }

    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub(crate) fn host(&self, number: u32) -> &Host {
        &self.hosts[number as usize]
    }

    pub(crate) fn host_number(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The home pages a crawl starts from: those of the first quarter of the hosts. Footers lead to
    /// the others.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = Place> {
        (0..self.config.hosts.div_ceil(4)).map(|host| Place { host, what: What::Page(0) })
    }

    pub(crate) fn draws(&self, purpose: Purpose, host: u32, page: u32) -> Draws {
        Draws::new(self.config.seed, purpose, host, page)
    }

    /// The page's children in its host's tree.
    pub(crate) fn children(&self, host: u32, page: u32) -> std::ops::Range<u32> {
        let pages = u64::from(self.host(host).pages);
        let bound = |child: u64| child.min(pages) as u32;
        let first = u64::from(page) * u64::from(FAN_OUT) + 1;
        bound(first)..bound(first + u64::from(FAN_OUT))
    }

    /// What the page is. Home pages and those with children are plain HTML, so that nothing is lost
    /// behind a redirect or a failure.
    pub(crate) fn kind(&self, host: u32, page: u32) -> Kind {
        if page == 0 || !self.children(host, page).is_empty() {
            return Kind::Html;
        }
        let mut draws = self.draws(Purpose::Kind, host, page);
        let config = &self.config;
        // Seven of eight pages have no children and bear everybody's share.
        let mut left = draws.unit() * f64::from(FAN_OUT - 1) / f64::from(FAN_OUT);
        let mut is = |share: f64| {
            left -= share;
            left < 0.0
        };
        if is(config.redirects) {
            Kind::Redirect { hops: draws.choose(&[0, 0, 0, 0, 0, 0, 1, 3]) }
        } else if is(config.missing) {
            Kind::Missing { status: draws.choose(&[404, 404, 404, 410]) }
        } else if is(config.broken) {
            Kind::Broken { status: draws.choose(&[500, 502]) }
        } else if is(config.flaky) {
            Kind::Flaky { failures: 1 + draws.below(2), status: draws.choose(&[500, 502, 503]) }
        } else if is(config.guarded) {
            use Guard::{Cgi, CgiWithQuery, Print, Private, PrivateOpen};
            Kind::Guarded(draws.choose(&[Private, Private, PrivateOpen, Cgi, CgiWithQuery, Print]))
        } else if is(config.unfollowed) {
            Kind::Unfollowed
        } else if is(config.pdfs) {
            Kind::Pdf
        } else if is(config.texts) {
            Kind::Text
        } else {
            Kind::Html
        }
    }

    /// Bytes the page should have.
    pub(crate) fn size(&self, host: u32, page: u32) -> u32 {
        (self.draws(Purpose::Size, host, page).log_normal(MEDIAN_SIZE) as u32).min(MAX_SIZE)
    }

    /// The status and destination of a redirect, if that is what stands there.
    pub(crate) fn redirect(&self, place: Place) -> Option<(u16, Destination)> {
        let host = place.host;
        let at = |what| Destination::Inside(Place { host, what });
        let hop = |page, left: u8| match left.checked_sub(1) {
            Some(left) => at(What::Hop { page, left }),
            None => self.destination(host, page),
        };
        let (number, destination) = match place.what {
            What::Page(page) => match self.kind(host, page) {
                Kind::Redirect { hops } => (page, hop(page, hops)),
                _ => return None,
            },
            What::Hop { page, left } => (page + u32::from(left), hop(page, left)),
            What::Loop { second } => (u32::from(second), at(What::Loop { second: !second })),
            What::Endless(step) => (step, at(What::Endless(step.wrapping_add(1)))),
            What::Robots | What::Trap { .. } => return None,
        };
        let status = self.draws(Purpose::RedirectStatus, host, number).choose(&[301, 301, 302, 303, 307, 308]);
        Some((status, destination))
    }

    /// Where a redirecting page leads in the end.
    fn destination(&self, host: u32, page: u32) -> Destination {
        let mut draws = self.draws(Purpose::Redirect, host, page);
        let host = match draws.below(16) {
            0 => return Destination::Outside(External::draw(&mut draws)),
            1..=6 => draws.rank(self.config.hosts),
            _ => host,
        };
        let target = draws.rank(self.host(host).pages);
        // Destinations are not redirects themselves, so that chains have the lengths they should.
        let target = if matches!(self.kind(host, target), Kind::Redirect { .. }) { 0 } else { target };
        Destination::Inside(Place { host, what: What::Page(target) })
    }
}

/// Names and sizes. Every sixth host, about, shares its registrable domain with the one before.
fn hosts(config: &WebConfig) -> Vec<Host> {
    const SISTERS: [&str; 4] = ["docs", "blog", "shop", "wiki"];
    let harmonic: f64 = (1..=config.hosts).map(|rank| 1.0 / f64::from(rank)).sum();
    let spare = f64::from(config.pages - config.hosts);
    let mut hosts: Vec<Host> = Vec::with_capacity(config.hosts as usize);
    let mut sites: u32 = 0;
    let mut sisters = 0;
    for host in 0..config.hosts {
        // The second host is always a sister, so that every web has a shared domain.
        let is_sister = host == 1 || host > 1 && Draws::new(config.seed, Purpose::HostName, host, 0).below(6) == 0;
        let name = if is_sister && sisters < SISTERS.len() {
            sisters += 1;
            format!("{}.site-{:03}.test", SISTERS[sisters - 1], sites - 1)
        } else {
            sisters = 0;
            sites += 1;
            format!("www.site-{:03}.test", sites - 1)
        };
        let pages = 1 + (spare / (f64::from(host + 1) * harmonic)) as u32;
        hosts.push(Host { name: name.into(), pages, robots: RobotsProfile::draw(config.seed, host) });
    }
    // What rounding left over goes to the largest.
    let placed: u32 = hosts.iter().map(|host| host.pages).sum();
    hosts[0].pages += config.pages - placed;
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_heavy_tailed_and_some_share_a_domain() {
        let graph = Graph::new(WebConfig { hosts: 40, pages: 10_000, ..WebConfig::small(3) });
        let hosts = graph.hosts();
        assert_eq!(hosts.iter().map(|host| host.pages).sum::<u32>(), 10_000);
        assert!(hosts[0].pages > 2_000 && hosts[39].pages < 100);
        assert_eq!(&*hosts[0].name, "www.site-000.test");
        assert_eq!(&*hosts[1].name, "docs.site-000.test");
        let mut names: Vec<_> = hosts.iter().map(|host| &host.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 40, "names are distinct");
    }

    #[test]
    fn tiny_webs_stand() {
        for (hosts, pages) in [(0, 0), (1, 1), (3, 3), (5, 6)] {
            let graph = Graph::new(WebConfig { hosts, pages, ..WebConfig::small(1) });
            assert!(graph.hosts().iter().all(|host| host.pages > 0));
            assert_eq!(graph.kind(0, 0), Kind::Html);
        }
    }

    #[test]
    fn kinds_have_their_shares() {
        let config = WebConfig { hosts: 1, pages: 50_000, ..WebConfig::small(9) };
        let graph = Graph::new(config.clone());
        let share =
            |test: fn(Kind) -> bool| (0..50_000).filter(|page| test(graph.kind(0, *page))).count() as f64 / 50_000.0;
        for (name, got, expected) in [
            ("redirects", share(|kind| matches!(kind, Kind::Redirect { .. })), config.redirects),
            ("missing", share(|kind| matches!(kind, Kind::Missing { .. })), config.missing),
            ("broken", share(|kind| matches!(kind, Kind::Broken { .. })), config.broken),
            ("flaky", share(|kind| matches!(kind, Kind::Flaky { .. })), config.flaky),
            ("guarded", share(|kind| matches!(kind, Kind::Guarded(_))), config.guarded),
            ("unfollowed", share(|kind| kind == Kind::Unfollowed), config.unfollowed),
            ("pdfs", share(|kind| kind == Kind::Pdf), config.pdfs),
            ("texts", share(|kind| kind == Kind::Text), config.texts),
        ] {
            assert!((got / expected - 1.0).abs() < 0.2, "{name}: {got} for {expected}");
        }
    }

    #[test]
    fn redirects_end_but_for_the_planted_ones() {
        let graph = Graph::new(WebConfig::small(5));
        let mut longest = 0;
        for page in 0..graph.host(0).pages {
            let mut place = Place { host: 0, what: What::Page(page) };
            let mut hops = 0;
            while let Some((_, Destination::Inside(next))) = graph.redirect(place) {
                place = next;
                hops += 1;
                assert!(hops <= 4);
            }
            longest = longest.max(hops);
        }
        assert_eq!(longest, 4, "the longest chain");
        let first = Place { host: 0, what: What::Loop { second: false } };
        let second = Place { host: 0, what: What::Loop { second: true } };
        assert!(matches!(graph.redirect(first), Some((_, Destination::Inside(place))) if place == second));
        assert!(matches!(graph.redirect(second), Some((_, Destination::Inside(place))) if place == first));
    }
}
