//! What `scope.kind` draws around the seeds.

use std::collections::{BTreeSet, HashSet};
use std::net::Ipv4Addr;
use std::ops::Bound;
use std::sync::Arc;

use model::CanonicalUrl;

use crate::Kind;

/// The part of the web that the seeds span. A question costs one look-up, however many seeds
/// there are.
#[derive(Debug, Clone)]
pub(crate) enum Area {
    /// Every URL.
    Any,
    /// `host:port` of the seeds, without a port that is the scheme's own: so http and https on
    /// their own ports are one host, and so are both on any other.
    Hosts(HashSet<Box<str>>),
    /// Registrable domains of the seeds.
    Domains(HashSet<Box<str>>),
    /// `host:port/directory/` of the seeds. None of them is a prefix of another, so that the only
    /// one that can be a prefix of a URL is its predecessor in the order.
    Prefixes(BTreeSet<Box<str>>),
}

impl Area {
    /// The empty area of a kind; [`Kind::Any`] holds everything from the start.
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Any => Self::Any,
            Kind::Host => Self::Hosts(HashSet::new()),
            Kind::Domain => Self::Domains(HashSet::new()),
            Kind::Prefix => Self::Prefixes(BTreeSet::new()),
        }
    }

    /// Draws the area around one more seed.
    pub(crate) fn add(&mut self, seed: &CanonicalUrl) {
        match self {
            Self::Any => {}
            Self::Hosts(hosts) => insert(hosts, seed.host_and_port()),
            Self::Domains(domains) => insert(domains, registrable_domain(seed)),
            Self::Prefixes(prefixes) => {
                let directory_end = seed.path().rfind('/').map_or(0, |slash| slash + 1);
                let beyond_directory = seed.path_and_query().len() - directory_end;
                let place = place(seed);
                let prefix = &place[..place.len() - beyond_directory];
                insert_prefix(prefixes, prefix);
            }
        }
    }

    /// Whether the URL lies in the area.
    pub(crate) fn holds(&self, url: &CanonicalUrl) -> bool {
        match self {
            Self::Any => true,
            Self::Hosts(hosts) => hosts.contains(url.host_and_port()),
            Self::Domains(domains) => domains.contains(registrable_domain(url)),
            Self::Prefixes(prefixes) => covers(prefixes, place(url)),
        }
    }

    /// Why a URL that does not lie in the area does not, in the words of the configuration.
    pub(crate) fn rule_against(&self, url: &CanonicalUrl) -> Arc<str> {
        let words = match self {
            Self::Any => ["scope.kind = \"any\": ", url.host_and_port(), " is in scope"],
            Self::Hosts(_) => ["scope.kind = \"host\": ", url.host_and_port(), " is no seed's host"],
            Self::Domains(_) => ["scope.kind = \"domain\": ", registrable_domain(url), " is no seed's domain"],
            Self::Prefixes(_) => ["scope.kind = \"prefix\": ", url.path(), " is in no seed's directory on its host"],
        };
        words.concat().into()
    }
}

fn insert(set: &mut HashSet<Box<str>>, name: &str) {
    if !set.contains(name) {
        set.insert(name.into());
    }
}

/// Adds a prefix unless one covers it already, and drops those that it covers.
fn insert_prefix(prefixes: &mut BTreeSet<Box<str>>, prefix: &str) {
    if covers(prefixes, prefix) {
        return;
    }
    let next = |prefixes: &BTreeSet<Box<str>>| {
        let after = prefixes.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)).next()?;
        after.starts_with(prefix).then(|| after.clone())
    };
    while let Some(covered) = next(prefixes) {
        prefixes.remove(&covered);
    }
    prefixes.insert(prefix.into());
}

/// Whether one of `prefixes`, none of which is a prefix of another, is a prefix of `text`.
fn covers(prefixes: &BTreeSet<Box<str>>, text: &str) -> bool {
    let predecessor = prefixes.range::<str, _>((Bound::Unbounded, Bound::Included(text))).next_back();
    predecessor.is_some_and(|prefix| text.starts_with(&**prefix))
}

/// The URL without scheme and user name, from the host on.
fn place(url: &CanonicalUrl) -> &str {
    let length = url.host_and_port().len() + url.path_and_query().len();
    &url.as_str()[url.as_str().len() - length..]
}

/// The public suffix and one label more; the whole host where there is no such thing.
fn registrable_domain(url: &CanonicalUrl) -> &str {
    let host = url.host().trim_end_matches('.');
    // In canonical form an IPv4 address is four decimal numbers and nothing else is.
    if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    fn area(kind: Kind, seeds: &[&str]) -> Area {
        let mut area = Area::new(kind);
        for seed in seeds {
            area.add(&url(seed));
        }
        area
    }

    fn check(kind: Kind, seed: &str, asked: &str, expected: bool) {
        assert_eq!(area(kind, &[seed]).holds(&url(asked)), expected, "{kind:?} of {seed}: {asked}");
    }

    #[test]
    fn the_host_of_a_seed() {
        check(Kind::Host, "http://a.example/x", "https://a.example/y", true);
        check(Kind::Host, "http://u@a.example/x", "http://a.example:80/", true);
        check(Kind::Host, "http://a.example/", "http://www.a.example/", false);
        check(Kind::Host, "http://a.example/", "http://a.example:8080/", false);
        check(Kind::Host, "http://a.example:8080/", "https://a.example:8080/", true);
        check(Kind::Host, "http://[::1]/", "http://[::1]/a", true);
    }

    #[test]
    fn the_registrable_domain_of_a_seed() {
        check(Kind::Domain, "http://www.a.co.uk/", "https://x.y.a.co.uk:8443/", true);
        check(Kind::Domain, "http://www.a.co.uk/", "http://b.co.uk/", false);
        check(Kind::Domain, "http://a.github.io/", "http://b.github.io/", false);
        check(Kind::Domain, "http://a.github.io/", "http://x.a.github.io/", true);
        check(Kind::Domain, "http://github.io/", "http://a.github.io/", false);
        check(Kind::Domain, "http://github.io/", "http://github.io/b", true);
        check(Kind::Domain, "http://localhost:1/", "http://localhost:2/", true);
        check(Kind::Domain, "http://127.0.0.1/", "http://10.0.0.1/", false);
        check(Kind::Domain, "http://127.0.0.1:1/", "http://127.0.0.1:2/", true);
        check(Kind::Domain, "http://[::1]/", "http://[::2]/", false);
        check(Kind::Domain, "http://a.example/", "http://a.example./", true);
    }

    #[test]
    fn the_directory_of_a_seed() {
        check(Kind::Prefix, "http://a.example/dir/page.html?x=/y/", "https://a.example/dir/sub/", true);
        check(Kind::Prefix, "http://a.example/dir/page.html?x=/y/", "http://a.example/dir/?z", true);
        check(Kind::Prefix, "http://a.example/dir/page.html", "http://a.example/dir", false);
        check(Kind::Prefix, "http://a.example/dir", "http://a.example/other", true);
        check(Kind::Prefix, "http://a.example/dir/", "http://b.example/dir/", false);
        check(Kind::Prefix, "http://a.example/", "http://a.example:81/", false);
        check(Kind::Prefix, "http://u:p@a.example/dir/", "http://v@a.example/dir/x", true);
    }

    #[test]
    fn anywhere() {
        check(Kind::Any, "http://a.example/", "http://b.example/", true);
        assert!(!area(Kind::Host, &[]).holds(&url("http://a.example/")));
    }

    proptest! {
        /// The set without nested prefixes answers as a list of all of them would.
        #[test]
        fn prefixes_answer_as_a_list_would(
            seeds in prop::collection::vec("http://[ab](:8)?(/[ab-]{0,2}){1,4}", 1..8),
            asked in "https?://[ab](:8)?(/[ab-]{0,2}){1,5}",
        ) {
            let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
            let asked = url(&asked);
            let expected = seeds.iter().map(|seed| url(seed)).any(|seed| {
                let directory = &seed.path()[..=seed.path().rfind('/').unwrap()];
                seed.host_and_port() == asked.host_and_port() && asked.path().starts_with(directory)
            });
            prop_assert_eq!(area(Kind::Prefix, &seeds).holds(&asked), expected);
        }
    }
}
