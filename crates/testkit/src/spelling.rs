//! The many ways to write one URL.

use crate::graph::{Destination, External, Graph, Place};
use crate::random::Draws;

/// Writes references from one page (or redirect) to others.
#[derive(Debug)]
pub(crate) struct Speller<'a> {
    graph: &'a Graph,
    host: u32,
    /// Path of the base URL, without its query.
    base: &'a str,
    path: String,
    reference: String,
}

/// How a reference is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `http://host/path`
    Absolute,
    /// `//host/path`
    NoScheme,
    /// `HTTP://HOST/path`
    UpperCase,
    /// `http://host:80/path`
    DefaultPort,
    /// `/path`, on the same host
    FromRoot,
    /// `../path`, on the same host
    FromHere,
    /// `%7E` for `~`, `%c3%a9` for `%C3%A9`, `%67uide` for `guide`
    Escaped,
    /// `/./away/../path`
    DotSegments,
    /// `/path#part`
    Fragment,
    /// `é` for `%C3%A9`
    Accented,
}

const UNUSUAL: [Spelling; 9] = [
    Spelling::Absolute,
    Spelling::NoScheme,
    Spelling::UpperCase,
    Spelling::DefaultPort,
    Spelling::FromHere,
    Spelling::Escaped,
    Spelling::DotSegments,
    Spelling::Fragment,
    Spelling::Accented,
];

impl<'a> Speller<'a> {
    /// For references that will be resolved against a base of this host with this path.
    pub(crate) fn new(graph: &'a Graph, host: u32, base: &'a str) -> Self {
        Self {
            graph,
            host,
            base: base.split('?').next().unwrap_or(base),
            path: String::with_capacity(96),
            reference: String::with_capacity(160),
        }
    }

    /// A reference for an HTML page.
    pub(crate) fn html(&mut self, draws: &mut Draws, destination: Destination) -> &str {
        let spelling = draws.chance(self.graph.config.respelled_links).then(|| draws.choose(&UNUSUAL));
        self.spell(spelling, destination)
    }

    /// A reference for a `Location` header, which has no characters but ASCII.
    pub(crate) fn location(&mut self, draws: &mut Draws, destination: Destination) -> &str {
        let spelling = draws.choose(&[
            Spelling::Absolute,
            Spelling::Absolute,
            Spelling::FromRoot,
            Spelling::UpperCase,
            Spelling::DefaultPort,
            Spelling::FromHere,
            Spelling::Fragment,
        ]);
        self.spell(Some(spelling), destination)
    }

    fn spell(&mut self, spelling: Option<Spelling>, destination: Destination) -> &str {
        self.reference.clear();
        match destination {
            Destination::Inside(place) => self.spell_place(spelling, place),
            Destination::Outside(External { site, page }) => {
                let sections = ["news", "about", "wiki", "p"];
                let section = sections[page as usize % sections.len()];
                self.reference.extend(["http://external-", &site.to_string(), ".invalid/", section, "/"]);
                self.reference.push_str(&page.to_string());
            }
        }
        &self.reference
    }

    fn spell_place(&mut self, spelling: Option<Spelling>, place: Place) {
        let host = &*self.graph.host(place.host).name;
        self.path.clear();
        self.graph.write_path(place, &mut self.path);
        let (path, out) = (self.path.as_str(), &mut self.reference);
        let usual = if place.host == self.host { Spelling::FromRoot } else { Spelling::Absolute };
        let spelling = spelling.unwrap_or(usual);
        match spelling {
            Spelling::Absolute => out.extend(["http://", host, path]),
            Spelling::NoScheme => out.extend(["//", host, path]),
            Spelling::UpperCase => out.extend(["HTTP://", &host.to_ascii_uppercase(), path]),
            Spelling::DefaultPort => out.extend(["http://", host, ":80", path]),
            _ if place.host != self.host => {
                out.extend(["http://", host]);
                push_respelled_path(spelling, path, out);
            }
            Spelling::FromHere => {
                let climbs = self.base.matches('/').count().saturating_sub(1);
                // A reference must not be empty: that would name the page itself, with its query.
                out.push_str(if climbs == 0 { "./" } else { "" });
                out.extend(std::iter::repeat_n("../", climbs));
                out.push_str(path.strip_prefix('/').unwrap_or(path));
            }
            _ => push_respelled_path(spelling, path, out),
        }
    }
}

fn push_respelled_path(spelling: Spelling, path: &str, out: &mut String) {
    match spelling {
        Spelling::Escaped => push_escaped(path, out),
        Spelling::DotSegments => out.extend(["/./away/..", path]),
        Spelling::Fragment => out.extend([path, "#part-2"]),
        Spelling::Accented => match path.split_once("%C3%A9") {
            Some((before, after)) => out.extend([before, "é", after]),
            None => out.push_str(path),
        },
        _ => out.push_str(path),
    }
}

/// Escapes what needs no escape, or writes an escape in lower case.
fn push_escaped(path: &str, out: &mut String) {
    if let Some((before, after)) = path.split_once('~') {
        return out.extend([before, "%7E", after]);
    }
    if let Some((before, after)) = path.split_once("%C3%A9") {
        return out.extend([before, "%c3%a9", after]);
    }
    let name = path[..path.find('?').unwrap_or(path.len())].rfind('/').map_or(0, |slash| slash + 1);
    let (before, after) = path.split_at(name);
    match after.as_bytes().first() {
        Some(letter) if letter.is_ascii_alphabetic() => {
            out.extend([before, &format!("%{letter:02x}"), &after[1..]]);
        }
        _ => out.push_str(path),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::CanonicalUrl;

    use super::*;
    use crate::config::WebConfig;
    use crate::graph::What;
    use crate::random::Purpose;

    #[test]
    fn every_spelling_resolves_to_the_same_url() {
        let graph = Graph::new(WebConfig::small(6));
        let mut spelt = HashSet::new();
        for page in 0..graph.host(0).pages {
            let place = Place { host: page % 2, what: What::Page(page % 30) };
            let base = CanonicalUrl::parse(&graph.url(Place { host: 0, what: What::Page(page) })).unwrap();
            let mut speller = Speller::new(&graph, 0, base.path_and_query());
            for spelling in UNUSUAL.map(Some).into_iter().chain([None, Some(Spelling::FromRoot)]) {
                let reference = speller.spell(spelling, Destination::Inside(place)).to_owned();
                let resolved = CanonicalUrl::join(&base.to_url(), &reference).unwrap();
                assert_eq!(resolved.as_str(), graph.url(place), "{reference} on {base}");
                spelt.insert(reference);
            }
        }
        assert!(spelt.len() > 200, "{} spellings of 30 URLs", spelt.len());
    }

    #[test]
    fn locations_are_ascii_and_resolve() {
        let graph = Graph::new(WebConfig::small(6));
        let mut speller = Speller::new(&graph, 0, "/a/b");
        let base = CanonicalUrl::parse("http://www.site-000.test/a/b").unwrap().to_url();
        let mut draws = graph.draws(Purpose::Redirect, 0, 0);
        for page in 0..200 {
            for host in 0..3 {
                let place = Place { host, what: What::Page(page % 40) };
                let location = speller.location(&mut draws, Destination::Inside(place));
                assert!(location.is_ascii());
                assert_eq!(CanonicalUrl::join(&base, location).unwrap().as_str(), graph.url(place));
            }
        }
    }
}
