//! What a page asks of robots, in `<meta name=robots>` and `X-Robots-Tag`.

use model::{Headers, PageRobots};

/// The name by which a page addresses this crawler alone.
const OWN_NAME: &str = "argiope";

/// Directives that carry a value behind a colon, and so look like a robot's name.
const VALUED: [&str; 4] = ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];

/// Whether a meta element of that name speaks to this crawler.
pub(crate) fn addresses_us(meta_name: &str) -> bool {
    meta_name.eq_ignore_ascii_case("robots") || meta_name.eq_ignore_ascii_case(OWN_NAME)
}

/// Adds the directives of a comma-separated list. Once forbidden is forbidden.
pub(crate) fn apply(robots: &mut PageRobots, directives: &str) {
    for directive in directives.split(',') {
        apply_one(robots, directive.trim());
    }
}

/// Adds what every `X-Robots-Tag` field says. A directive may be preceded by a robot's name and a
/// colon, which then holds for the rest of the field (Google Search Central, "Robots meta tag").
pub(crate) fn apply_headers(robots: &mut PageRobots, headers: &Headers) {
    for value in headers.all("x-robots-tag") {
        let value = String::from_utf8_lossy(value);
        let mut for_us = true;
        for part in value.split(',') {
            let mut directive = part.trim();
            if let Some((name, rest)) = directive.split_once(':') {
                let name = name.trim();
                if !VALUED.iter().any(|valued| name.eq_ignore_ascii_case(valued)) {
                    for_us = addresses_us(name) || name == "*";
                    directive = rest.trim();
                }
            }
            if for_us {
                apply_one(robots, directive);
            }
        }
    }
}

fn apply_one(robots: &mut PageRobots, directive: &str) {
    let is = |word: &str| directive.eq_ignore_ascii_case(word);
    robots.noindex |= is("noindex") || is("none");
    robots.nofollow |= is("nofollow") || is("none");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], noindex: bool, nofollow: bool) {
        let mut headers = Headers::default();
        for value in values {
            headers.push("X-Robots-Tag", *value);
        }
        let mut robots = PageRobots::default();
        apply_headers(&mut robots, &headers);
        assert_eq!(robots, PageRobots { noindex, nofollow }, "{values:?}");
    }

    #[test]
    fn headers_are_read() {
        check(&[], false, false);
        check(&["noindex"], true, false);
        check(&["NoIndex , nofollow"], true, true);
        check(&["none"], true, true);
        check(&["all", "nofollow"], false, true);
        check(&["googlebot: none"], false, false);
        check(&["googlebot: noindex, nofollow"], false, false);
        check(&["Argiope: nofollow"], false, true);
        check(&["googlebot: noindex, argiope: nofollow"], false, true);
        check(&["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], true, false);
        check(&["*: noindex"], true, false);
        check(&["nofollowing, index"], false, false);
    }
}
