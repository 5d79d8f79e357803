//! Paths: the text of a place, and the place of a text.

use std::fmt::Write;

use crate::graph::{Graph, Guard, Kind, Place, Trap, What};
use crate::random::{Draws, Purpose};

/// Words that paths and link texts are made of.
pub(crate) const WORDS: [&str; 32] = [
    "amber", "basalt", "cedar", "delta", "ember", "fjord", "garnet", "harbor", "island", "juniper", "kelp", "lagoon",
    "meadow", "nectar", "orchard", "pebble", "quartz", "river", "saffron", "tundra", "umber", "valley", "willow",
    "yarrow", "zephyr", "anchor", "beacon", "compass", "dune", "estuary", "forest", "glacier",
];

/// The steps of a redirect chain by the hops still to come.
const STEPS: [&str; 3] = ["last", "middle", "first"];

impl Graph {
    /// Appends path and query, in canonical form. The last digits of every path are the number in
    /// its place, which is how [`Graph::locate`] finds the way back.
    pub(crate) fn write_path(&self, place: Place, out: &mut String) {
        match place.what {
            What::Robots => out.push_str("/robots.txt"),
            What::Page(0) => out.push('/'),
            What::Page(page) => self.write_page_path(place.host, page, out),
            What::Hop { page, left } => {
                push_numbered(out, &["/go/", STEPS[left as usize % STEPS.len()], "-"], page, "");
            }
            What::Loop { second } => out.push_str(if second { "/loop/b" } else { "/loop/a" }),
            What::Endless(step) => push_numbered(out, &["/endless/"], step, ""),
            What::Trap { trap, page } => push_numbered(out, &["/trap/", trap.as_str(), "-"], page, ""),
        }
    }

    /// The canonical URL of a place.
    pub(crate) fn url(&self, place: Place) -> String {
        let mut url = ["http://", &self.host(place.host).name].concat();
        self.write_path(place, &mut url);
        url
    }

    /// The place that has exactly this path and query, if any has.
    pub(crate) fn locate(&self, host: u32, target: &str) -> Option<Place> {
        let what = match target {
            "/" => What::Page(0),
            "/robots.txt" => What::Robots,
            "/loop/a" => What::Loop { second: false },
            "/loop/b" => What::Loop { second: true },
            _ => {
                let number = last_number(target)?;
                if let Some(rest) = target.strip_prefix("/go/") {
                    let left = STEPS.iter().position(|step| rest.starts_with(step))? as u8;
                    What::Hop { page: number, left }
                } else if let Some(rest) = target.strip_prefix("/trap/") {
                    let trap = Trap::ALL.into_iter().find(|trap| rest.starts_with(trap.as_str()))?;
                    What::Trap { trap, page: number }
                } else if target.starts_with("/endless/") {
                    What::Endless(number)
                } else {
                    What::Page(number)
                }
            }
        };
        let exists = match what {
            // Only the hops on some page's way are there, and only the first host has the mazes.
            What::Hop { page, left } => {
                page < self.host(host).pages && matches!(self.kind(host, page), Kind::Redirect { hops } if left < hops)
            }
            What::Page(page) | What::Trap { page, .. } => page < self.host(host).pages,
            What::Loop { .. } | What::Endless(_) => host == 0,
            What::Robots => true,
        };
        let place = Place { host, what };
        let mut path = String::with_capacity(target.len());
        if exists {
            self.write_path(place, &mut path);
        }
        (path == target).then_some(place)
    }

    fn write_page_path(&self, host: u32, page: u32, out: &mut String) {
        let mut draws = self.draws(Purpose::Path, host, page);
        let (first, second) = (draws.choose(&WORDS), draws.choose(&WORDS));
        let (head, tail): (&[&str], &str) = match self.kind(host, page) {
            Kind::Guarded(Guard::Private) => (&["/private/", first, "-"], ".html"),
            Kind::Guarded(Guard::PrivateOpen) => (&["/private/open-", first, "-"], ".html"),
            Kind::Guarded(Guard::Cgi) => (&["/tools/", first, "-"], ".cgi"),
            Kind::Guarded(Guard::CgiWithQuery) => (&["/tools/", first, "-"], ".cgi?mode=full"),
            Kind::Guarded(Guard::Print) => (&["/", first, "/", second, "-"], ".html?view=all&print=yes"),
            Kind::Pdf => (&["/papers/", first, "-"], ".pdf"),
            Kind::Text => (&["/notes/", first, "-"], ".txt"),
            _ => match draws.below(16) {
                0 | 1 => (&["/~", first, "/", second, "-"], ".html"),
                2 => (&["/caf%C3%A9/", first, "-"], ".html"),
                3 | 4 => (&["/", first, "/", second, "-"], "/"),
                5 | 6 => (&["/item?view=", first, "&id="], ""),
                7 => (&["/search/", first, "?page="], ""),
                8 => (&["/", first, "/", second, "/", first, "/", second, "-"], ".html"),
                9 => (&["/", first, "-"], ""),
                _ => (&["/", first, "/", second, "-"], ".html"),
            },
        };
        push_numbered(out, head, page, tail);
    }
}

/// A link text of one to four words.
pub(crate) fn push_words(draws: &mut Draws, out: &mut String) {
    let mut bits = draws.bits();
    for word in 0..=bits % 4 {
        if word > 0 {
            out.push(' ');
        }
        bits >>= 5;
        out.push_str(WORDS[bits as usize % WORDS.len()]);
    }
}

fn push_numbered(out: &mut String, head: &[&str], number: u32, tail: &str) {
    for part in head {
        out.push_str(part);
    }
    write!(out, "{number}").expect("writing to a String cannot fail");
    out.push_str(tail);
}

fn last_number(text: &str) -> Option<u32> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = text[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
    text.get(start..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::WebConfig;

    #[test]
    fn every_place_is_found_by_its_path_and_is_canonical() {
        let graph = Graph::new(WebConfig::small(2));
        let mut places = vec![
            Place { host: 0, what: What::Loop { second: false } },
            Place { host: 0, what: What::Loop { second: true } },
            Place { host: 0, what: What::Endless(12) },
        ];
        for host in 0..12 {
            places.push(Place { host, what: What::Robots });
            for page in 0..graph.host(host).pages {
                places.push(Place { host, what: What::Page(page) });
                places.extend(Trap::ALL.map(|trap| Place { host, what: What::Trap { trap, page } }));
                if let Kind::Redirect { hops } = graph.kind(host, page) {
                    places.extend((0..hops).map(|left| Place { host, what: What::Hop { page, left } }));
                }
            }
        }
        for place in places {
            let url = graph.url(place);
            let canonical = model::CanonicalUrl::parse(&url).expect("our URLs are URLs");
            assert_eq!(canonical.as_str(), url);
            assert_eq!(graph.locate(place.host, canonical.path_and_query()), Some(place), "{url}");
        }
    }

    #[test]
    fn what_does_not_exist_is_not_found() {
        let graph = Graph::new(WebConfig::small(2));
        for target in [
            "",
            "/nothing",
            "/nothing-7.html",
            "/amber/basalt-99999999.html",
            "/endless/99999999999999999999",
            "/endless/007",
            "/go/first-0",
            "/trap/other-1",
            "/loop/c",
            "/trap/comment-4000000000",
            "/é9",
        ] {
            assert_eq!(graph.locate(0, target), None, "{target}");
        }
        assert_eq!(graph.locate(1, "/loop/a"), None, "only the first host has the loop");
    }

    proptest! {
        #[test]
        fn any_target_is_located_or_not(target in "\\PC{0,40}", numbered in "/(go|trap|endless|item)/[a-z]{0,8}-?[0-9]{0,12}") {
            let graph = Graph::new(WebConfig::small(2));
            for target in [target, numbered] {
                if let Some(place) = graph.locate(0, &target) {
                    prop_assert_eq!(graph.url(place), format!("http://www.site-000.test{target}"));
                }
            }
        }
    }
}
