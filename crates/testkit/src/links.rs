//! Links: which page leads where.
//!
//! As on the real web, most links of a page are repetitions: navigation and footer stand on every
//! page of a host, and what the text links to is chosen by popularity.

use crate::graph::{Destination, External, Graph, Kind, Place, Trap, What};
use crate::random::{Draws, Purpose};

/// One link in the text for so many bytes of a page; gives the median page about 60 links with its
/// navigation and footer.
const BYTES_PER_LINK: u32 = 700;
/// Links in the text, at most.
const MAX_BODY_LINKS: u32 = 400;
/// Pages in the navigation besides the home page.
const NAVIGATION: u32 = 10;
/// Popular pages in the footer, besides the home pages of the next two hosts.
const FOOTER: u32 = 11;

/// A link as a page has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) target: Target,
    pub(crate) nofollow: bool,
}

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Url(Destination),
    /// Not to a page: a whole reference of another scheme.
    Scheme(&'static str),
}

/// All links of one page, in its order.
#[derive(Debug)]
pub(crate) struct PageLinks {
    pub(crate) navigation: Vec<Link>,
    pub(crate) body: Vec<Link>,
    pub(crate) footer: Vec<Link>,
}

impl PageLinks {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.navigation.iter().chain(&self.body).chain(&self.footer)
    }
}

impl Graph {
    /// The links of an HTML page.
    pub(crate) fn links(&self, host: u32, page: u32) -> PageLinks {
        PageLinks { navigation: self.navigation(host), body: self.body(host, page), footer: self.footer(host) }
    }

    /// The trap the page holds, if it holds one, and where its URL leads.
    pub(crate) fn trap(&self, host: u32, page: u32) -> Option<(Trap, Place)> {
        let trap = match self.kind(host, page) {
            Kind::Unfollowed => Trap::Unfollowed,
            Kind::Pdf | Kind::Text => Trap::Media,
            Kind::Html | Kind::Guarded(_) | Kind::Flaky { .. } => {
                let mut draws = self.draws(Purpose::Trap, host, page);
                draws.chance(self.config.traps).then(|| draws.choose(&Trap::IN_HTML))?
            }
            Kind::Redirect { .. } | Kind::Missing { .. } | Kind::Broken { .. } => return None,
        };
        Some((trap, Place { host, what: What::Trap { trap, page } }))
    }

    fn navigation(&self, host: u32) -> Vec<Link> {
        (0..self.host(host).pages.min(NAVIGATION + 1)).map(|page| link(host, page)).collect()
    }

    fn footer(&self, host: u32) -> Vec<Link> {
        let mut draws = self.draws(Purpose::Footer, host, 0);
        let next = |step: u32| (host + step) % self.config.hosts;
        let popular = (0..FOOTER).map(|_| link(host, draws.rank(self.host(host).pages)));
        [link(next(1), 0), link(next(2), 0)].into_iter().chain(popular).collect()
    }

    fn body(&self, host: u32, page: u32) -> Vec<Link> {
        let mut draws = self.draws(Purpose::Links, host, page);
        let count = (self.size(host, page) / BYTES_PER_LINK).clamp(2, MAX_BODY_LINKS) as usize;
        let mut links = Vec::with_capacity(count + 12);
        links.extend(self.children(host, page).map(|child| link(host, child)));
        if (host, page) == (0, 0) {
            links.extend([What::Loop { second: false }, What::Endless(0)].map(|what| to(Place { host, what })));
        }
        if let Some((trap @ (Trap::Nofollow | Trap::Unfollowed), place)) = self.trap(host, page) {
            links.push(Link { nofollow: trap == Trap::Nofollow, ..to(place) });
        }
        while links.len() < count {
            links.push(self.drawn_link(host, &mut draws));
        }
        links
    }

    fn drawn_link(&self, host: u32, draws: &mut Draws) -> Link {
        const OTHER_SCHEMES: [&str; 5] =
            ["mailto:someone@site.test", "javascript:void(0)", "tel:+4912345", "data:text/plain,x", "ftp://old.test/x"];
        let config = &self.config;
        let nofollow = draws.chance(config.nofollow_links);
        let mut left = draws.unit();
        let mut is = |share: f64| {
            left -= share;
            left < 0.0
        };
        let target = if is(config.external_links) {
            Target::Url(Destination::Outside(External::draw(draws)))
        } else if is(0.01) {
            Target::Scheme(draws.choose(&OTHER_SCHEMES))
        } else {
            let host = if is(config.cross_host_links) { draws.rank(config.hosts) } else { host };
            link(host, draws.rank(self.host(host).pages)).target
        };
        Link { target, nofollow }
    }
}

fn link(host: u32, page: u32) -> Link {
    to(Place { host, what: What::Page(page) })
}

fn to(place: Place) -> Link {
    Link { target: Target::Url(Destination::Inside(place)), nofollow: false }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::WebConfig;

    #[test]
    fn popularity_and_out_degree_are_heavy_tailed() {
        let graph = Graph::new(WebConfig { hosts: 1, pages: 4000, ..WebConfig::small(4) });
        let mut in_degrees: HashMap<Place, u32> = HashMap::new();
        let mut out_degrees = Vec::new();
        for page in 0..4000 {
            let links = graph.links(0, page);
            out_degrees.push(links.iter().count());
            for link in links.body {
                if let Target::Url(Destination::Inside(place)) = link.target {
                    *in_degrees.entry(place).or_default() += 1;
                }
            }
        }
        let mut in_degrees: Vec<u32> = in_degrees.into_values().collect();
        in_degrees.sort_unstable();
        let (median, top) = (in_degrees[in_degrees.len() / 2], in_degrees[in_degrees.len() - 1]);
        assert!(top > 500 * median.max(1), "median {median}, top {top}");
        out_degrees.sort_unstable();
        assert!((50..70).contains(&out_degrees[2000]), "median out-degree {}", out_degrees[2000]);
        assert!(out_degrees[3990] > 250, "{}", out_degrees[3990]);
    }

    #[test]
    fn every_page_is_linked_and_followed_from_its_parent() {
        let graph = Graph::new(WebConfig::small(4));
        for host in 0..12 {
            for page in 0..graph.host(host).pages {
                for child in graph.children(host, page) {
                    assert!(graph.links(host, page).body.contains(&link(host, child)));
                    assert_eq!(graph.kind(host, page), Kind::Html);
                }
            }
        }
    }
}
