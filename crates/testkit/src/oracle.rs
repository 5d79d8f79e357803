//! What a right crawl does, told from the descriptors.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::graph::{Destination, Graph, Kind, Place, What};
use crate::links::{PageLinks, Target};

/// Redirects that are followed in a row. A redirect beyond is answered, and leads nowhere.
pub const MAX_REDIRECTS: u32 = 10;

/// What a right crawl of a web requests. All keys are canonical URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Every URL that is fetched, with the status of its last answer; robots.txt apart.
    pub fetched: BTreeMap<String, u16>,
    /// Every robots.txt that is fetched, with the status of its last answer.
    pub robots: BTreeMap<String, u16>,
    /// Linked, and refused by robots.txt.
    pub robots_refused: BTreeSet<String>,
    /// Named on pages or by redirects, and not to be requested for other reasons.
    pub must_not: BTreeSet<String>,
    /// How many answers of a URL are 5xx before the right one; `u32::MAX` where there is none.
    pub failing: BTreeMap<String, u32>,
    /// How often the crawl asks again after a 5xx answer: 3 unless set otherwise. The web's
    /// passing failures are over after 2.
    pub retries: u32,
}

impl Expectation {
    /// How often the URL may be requested.
    pub(crate) fn allowed_requests(&self, url: &str) -> u32 {
        1 + self.failing.get(url).map_or(0, |failing| (*failing).min(self.retries))
    }
}

/// Walks the graph breadth-first.
pub(crate) fn expect(graph: &Graph) -> Expectation {
    let mut walk = Walk {
        graph,
        seen: HashSet::new(),
        queue: VecDeque::new(),
        expectation: Expectation {
            fetched: BTreeMap::new(),
            robots: BTreeMap::new(),
            robots_refused: BTreeSet::new(),
            must_not: BTreeSet::new(),
            failing: BTreeMap::new(),
            retries: 3,
        },
    };
    for seed in graph.seeds() {
        walk.offer(seed, 0);
    }
    while let Some((place, redirects)) = walk.queue.pop_front() {
        walk.visit(place, redirects);
    }
    walk.expectation
}

struct Walk<'a> {
    graph: &'a Graph,
    seen: HashSet<Place>,
    /// Places, and the redirects in a row that led there.
    queue: VecDeque<(Place, u32)>,
    expectation: Expectation,
}

impl Walk<'_> {
    fn offer(&mut self, place: Place, redirects: u32) {
        if self.seen.insert(place) {
            self.queue.push_back((place, redirects));
        }
    }

    fn visit(&mut self, place: Place, redirects: u32) {
        let graph = self.graph;
        let robots = Place { host: place.host, what: What::Robots };
        if self.seen.insert(robots) {
            let url = graph.url(robots);
            if graph.failures(robots) > 0 {
                self.expectation.failing.insert(url.clone(), graph.failures(robots));
            }
            self.expectation.robots.insert(url, graph.host(place.host).robots.status());
        }
        let url = graph.url(place);
        if graph.refused_by_robots(place) {
            self.expectation.robots_refused.insert(url);
            return;
        }
        if graph.failures(place) > 0 {
            self.expectation.failing.insert(url.clone(), graph.failures(place));
        }
        let status = self.follow(place, redirects);
        self.expectation.fetched.insert(url, status);
    }

    /// Offers what the place leads to; returns the status of its last answer.
    fn follow(&mut self, place: Place, redirects: u32) -> u16 {
        if let Some((status, destination)) = self.graph.redirect(place) {
            match destination {
                Destination::Inside(target) if redirects < MAX_REDIRECTS => self.offer(target, redirects + 1),
                Destination::Inside(target) if !self.seen.contains(&target) => {
                    self.expectation.must_not.insert(self.graph.url(target));
                }
                Destination::Inside(_) | Destination::Outside(_) => {}
            }
            return status;
        }
        let What::Page(page) = place.what else {
            unreachable!("pages and redirects are all that is ever offered");
        };
        if let Some((_, trap)) = self.graph.trap(place.host, page) {
            self.expectation.must_not.insert(self.graph.url(trap));
        }
        match self.graph.kind(place.host, page) {
            Kind::Missing { status } | Kind::Broken { status } => return status,
            Kind::Html | Kind::Guarded(_) | Kind::Flaky { .. } => {
                self.offer_links(&self.graph.links(place.host, page));
            }
            Kind::Unfollowed | Kind::Pdf | Kind::Text | Kind::Redirect { .. } => {}
        }
        200
    }

    fn offer_links(&mut self, links: &PageLinks) {
        for link in links.iter().filter(|link| !link.nofollow) {
            if let Target::Url(Destination::Inside(target)) = link.target {
                self.offer(target, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebConfig;
    use crate::graph::Trap;

    #[test]
    fn nearly_everything_is_reached_and_something_of_each_kind() {
        let graph = Graph::new(WebConfig::small(1));
        let expected = expect(&graph);
        let reached = expected.fetched.len() + expected.robots_refused.len();
        assert!(reached > 1500, "{reached} of 1500 pages, and hops");
        assert_eq!(expected.robots.len(), 12);
        for status in [200, 301, 302, 303, 307, 308, 404, 500] {
            assert!(expected.fetched.values().any(|got| *got == status), "no {status}");
        }
        assert!(expected.robots_refused.len() > 20);
        for trap in Trap::ALL {
            let path = format!("/trap/{}-", trap.as_str());
            assert!(expected.must_not.iter().any(|url| url.contains(&path)), "no {path}");
        }
        assert!(expected.must_not.iter().all(|url| !expected.fetched.contains_key(url)));
        assert!(expected.failing.len() > 10);
    }

    #[test]
    fn endless_redirects_are_followed_ten_times() {
        let expected = expect(&Graph::new(WebConfig::small(1)));
        let url = |step: u32| format!("http://www.site-000.test/endless/{step}");
        assert!((0..=10).all(|step| expected.fetched.contains_key(&url(step))));
        assert!(!expected.fetched.contains_key(&url(11)));
        assert!(expected.must_not.contains(&url(11)));
        assert!(expected.fetched.contains_key("http://www.site-000.test/loop/a"));
        assert!(expected.fetched.contains_key("http://www.site-000.test/loop/b"));
    }
}
