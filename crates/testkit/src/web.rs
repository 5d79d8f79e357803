//! The web as others use it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::answer::{Answer, Request};
use crate::config::WebConfig;
use crate::filler::Filler;
use crate::graph::{Graph, Kind, Place, What};
use crate::oracle::{self, Expectation};
use crate::render::Renderer;

/// A web, deterministic in its [`WebConfig`]. Holds its hosts and a megabyte of text to fill pages
/// with; pages are rendered when they are asked for. Clones share all of it.
#[derive(Debug, Clone)]
pub struct Web(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    graph: Graph,
    filler: Filler,
}

impl Web {
    /// Grows a web.
    pub fn new(config: WebConfig) -> Self {
        let filler = Filler::new(config.seed);
        Self(Arc::new(Inner { graph: Graph::new(config), filler }))
    }

    /// The URLs a crawl starts from: home pages of a quarter of the hosts, from which all others
    /// can be reached.
    pub fn seeds(&self) -> Vec<String> {
        self.graph().seeds().map(|place| self.graph().url(place)).collect()
    }

    /// The names of all hosts, the largest first; each serves `http` on port 80.
    pub fn hosts(&self) -> Vec<String> {
        self.graph().hosts().iter().map(|host| host.name.to_string()).collect()
    }

    /// What a right crawl of all hosts fetches, and what it must not; see the crate's page for what
    /// right means. Takes time and memory in proportion to the pages: some 6 s and
    /// 0.2 GB for a million.
    pub fn expected(&self) -> Expectation {
        oracle::expect(self.graph())
    }

    /// The answer to a request: the same answer for the same request, always.
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        self.answer_at(self.locate(request.host, request.target), request)
    }

    /// The URLs of pages whose content differs between two epochs, whether a crawl finds them or
    /// not. Pages that do not answer 200 have no content.
    pub fn changed(&self, from: u32, to: u32) -> BTreeSet<String> {
        let graph = self.graph();
        let mut changed = BTreeSet::new();
        for (host, number) in graph.hosts().iter().zip(0..) {
            for page in 0..host.pages {
                let has_content = !matches!(
                    graph.kind(number, page),
                    Kind::Redirect { .. } | Kind::Missing { .. } | Kind::Broken { .. }
                );
                if has_content && graph.revision(number, page, from) != graph.revision(number, page, to) {
                    changed.insert(graph.url(Place { host: number, what: What::Page(page) }));
                }
            }
        }
        changed
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.0.graph
    }

    pub(crate) fn locate(&self, host: &str, target: &str) -> Option<Place> {
        self.graph().locate(self.graph().host_number(host)?, target)
    }

    /// The answer for a place that is already located.
    pub(crate) fn answer_at(&self, place: Option<Place>, request: &Request<'_>) -> Answer {
        Renderer { graph: self.graph(), filler: &self.0.filler }.answer(place, request)
    }
}

impl Default for Web {
    fn default() -> Self {
        Self::new(WebConfig::default())
    }
}
