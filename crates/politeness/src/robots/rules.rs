//! The rules of one robots.txt that concern us, compiled once per host.

use std::cmp::Reverse;
use std::time::Duration;

use robotstxt::RobotsParseHandler;

use crate::robots::pattern::{matches, push_pattern};
use crate::robots::percent::comparison_form;
use crate::robots::text::sanitise;

/// The bytes of patterns with stars, and of paths held against them, that one question may cost: a
/// millisecond or so. A real file with a thousand such rules comes to a fifth of it; without a
/// bound, forty thousand against a long URL would come to a tenth of a second.
const MAX_STEPS: usize = 1 << 20;
/// The most sitemaps that are kept, each no longer than a URL that can be fetched.
const MAX_SITEMAPS: usize = 1000;
const MAX_SITEMAP_LENGTH: usize = 2083;
/// The most of a pattern that is shown in a refusal.
const MAX_SHOWN: usize = 200;
/// Longer than any pause that is kept; keeps an absurd one within what a `Duration` holds.
const MAX_CRAWL_DELAY_SECONDS: f64 = 1e9;

/// The rules for one user agent. The default is none: everything is allowed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rules {
    /// The patterns, one after the other.
    patterns: Box<str>,
    /// The most specific first, and of two as specific the one that allows: the first that matches
    /// decides (RFC 9309 §2.2.2).
    sorted: Box<[Rule]>,
    crawl_delay: Option<Duration>,
    sitemaps: Box<[Box<str>]>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rule {
    /// Where its pattern stands in [`Rules::patterns`].
    start: u32,
    end: u32,
    /// Its line in the file, from 1.
    line: u32,
    allow: bool,
    /// Its pattern has a `*`, and so costs more than the length of the pattern.
    stars: bool,
}

impl Rules {
    /// Reads a file for the user agent whose product token begins `product`.
    pub(crate) fn parse(file: &[u8], product: &str) -> Self {
        let mut reader = Reader { product: product_token(product), ..Reader::default() };
        robotstxt::parse_robotstxt(&sanitise(file), &mut reader);
        let group = if reader.named { reader.ours } else { reader.everyones };
        let Group { patterns, mut rules, crawl_delay } = group;
        rules.sort_by_key(|rule| (Reverse(rule.end - rule.start), Reverse(rule.allow), rule.line));
        Self { patterns: patterns.into(), sorted: rules.into(), crawl_delay, sitemaps: reader.sitemaps.into() }
    }

    /// The rule that refuses a path with its query, as it stands in the file; `None` where it is allowed.
    pub(crate) fn refusal(&self, path_and_query: &str) -> Option<String> {
        // RFC 9309 §2.2.2: the file itself is allowed, whatever it says.
        if self.sorted.is_empty() || path_and_query == "/robots.txt" {
            return None;
        }
        let path = comparison_form(path_and_query);
        let mut steps = MAX_STEPS;
        for rule in &self.sorted {
            let pattern = self.pattern(rule);
            if rule.stars {
                let Some(left) = steps.checked_sub(pattern.len() + path.len()) else {
                    let line = rule.line;
                    return Some(format!("robots.txt line {line}: more rules with * than are held against one URL"));
                };
                steps = left;
            }
            if matches(pattern, &path) {
                let shown = pattern.get(..MAX_SHOWN).unwrap_or(pattern);
                return (!rule.allow).then(|| format!("robots.txt line {}: Disallow: {shown}", rule.line));
            }
        }
        None
    }

    /// How many rules there are.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The pause that the file asks for.
    pub(crate) fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The sitemaps that the file names, for whichever user agent, as they stand there.
    pub(crate) fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.sitemaps.iter().map(|sitemap| &**sitemap)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let sitemaps: usize = self.sitemaps.iter().map(|sitemap| sitemap.len() + size_of::<Box<str>>()).sum();
        self.patterns.len() + size_of_val(&*self.sorted) + sitemaps
    }

    fn pattern(&self, rule: &Rule) -> &str {
        &self.patterns[rule.start as usize..rule.end as usize]
    }
}

/// The groups of a file as they are read: those that name us are one group, and so are those for
/// everyone (RFC 9309 §2.2.1).
#[derive(Default)]
struct Reader<'a> {
    product: &'a str,
    /// Some group names us, be it empty.
    named: bool,
    /// The last line of a group's rules or agents was an agent: the next agent joins it.
    among_agents: bool,
    /// The group being read is ours, and for everyone.
    for_us: bool,
    for_everyone: bool,
    ours: Group,
    everyones: Group,
    sitemaps: Vec<Box<str>>,
}

#[derive(Default)]
struct Group {
    patterns: String,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

impl Reader<'_> {
    fn rule(&mut self, line: u32, text: &str, allow: bool) {
        self.among_agents = false;
        // An empty pattern matches nothing; it is how the first robots.txt files allowed everything.
        if text.is_empty() {
            return;
        }
        for group in self.groups() {
            let start = group.patterns.len();
            push_pattern(&mut group.patterns, text);
            let end = group.patterns.len();
            group.rules.push(Rule { start: start as u32, end: end as u32, line, allow, stars: text.contains('*') });
        }
    }

    /// The groups that the present line belongs to.
    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        let ours = self.for_us.then_some(&mut self.ours);
        let everyones = self.for_everyone.then_some(&mut self.everyones);
        ours.into_iter().chain(everyones)
    }
}

impl RobotsParseHandler for Reader<'_> {
    fn handle_robots_start(&mut self) {}

    fn handle_robots_end(&mut self) {}

    fn handle_user_agent(&mut self, _line: u32, agent: &str) {
        if !self.among_agents {
            (self.for_us, self.for_everyone) = (false, false);
        }
        self.among_agents = true;
        let after_star = agent.strip_prefix('*');
        if after_star.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            self.for_everyone = true;
        } else if !self.product.is_empty() && product_token(agent).eq_ignore_ascii_case(self.product) {
            self.for_us = true;
            self.named = true;
        }
    }

    fn handle_allow(&mut self, line: u32, text: &str) {
        self.rule(line, text, true);
    }

    fn handle_disallow(&mut self, line: u32, text: &str) {
        self.rule(line, text, false);
    }

    fn handle_sitemap(&mut self, _line: u32, sitemap: &str) {
        if self.sitemaps.len() < MAX_SITEMAPS && (1..=MAX_SITEMAP_LENGTH).contains(&sitemap.len()) {
            self.sitemaps.push(sitemap.into());
        }
    }

    /// Of all else only Crawl-delay means something. It leaves the group as it is: other records
    /// must not change what the defined ones mean (RFC 9309 §2.2.4).
    fn handle_unknown_action(&mut self, _line: u32, key: &str, value: &str) {
        if !key.eq_ignore_ascii_case("crawl-delay") {
            return;
        }
        let Some(seconds) = value.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0) else {
            return;
        };
        let delay = Duration::from_secs_f64(seconds.min(MAX_CRAWL_DELAY_SECONDS));
        for group in self.groups() {
            group.crawl_delay = group.crawl_delay.max(Some(delay));
        }
    }
}

/// The letters, hyphens and underscores a user agent begins with (RFC 9309 §2.2.1).
fn product_token(agent: &str) -> &str {
    let end = agent.find(|c: char| !c.is_ascii_alphabetic() && c != '-' && c != '_').unwrap_or(agent.len());
    &agent[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(file: &str, path: &str, expected: Option<&str>) {
        let rules = Rules::parse(file.as_bytes(), "Argiope/0.1 (+http://a.example)");
        assert_eq!(rules.refusal(path).as_deref(), expected, "{path:.100} by {file:.1000}");
    }

    #[test]
    fn nested_prefixes_do_not_shadow_each_other() {
        let file = "User-agent: *\nDisallow: /\nDisallow: /admin\nAllow: /admin/public";
        check(file, "/b", Some("robots.txt line 2: Disallow: /"));
        check(file, "/admin/x", Some("robots.txt line 3: Disallow: /admin"));
        check(file, "/admin/public/x", None);
    }

    #[test]
    fn allow_wins_between_equals_and_length_otherwise() {
        check("User-agent: *\nDisallow: /a\nAllow: /a", "/a", None);
        check(
            "User-agent: *\nAllow: /page\nDisallow: /*.html",
            "/page.html",
            Some("robots.txt line 3: Disallow: /*.html"),
        );
        check("User-agent: *\nDisallow: /\nAllow: /$", "/", None);
        check("User-agent: *\nDisallow: /\nAllow: /$", "/a", Some("robots.txt line 2: Disallow: /"));
    }

    #[test]
    fn groups_are_merged_and_ours_comes_before_everyones() {
        let file = "user-agent: *\ndisallow: /all\n\nuser-agent: other\nuser-agent: ARGIOPE/2\ndisallow: /ours\n\
                    sitemap: http://a/\n\nuser-agent: argiope\ndisallow: /too";
        check(file, "/all", None);
        check(file, "/ours", Some("robots.txt line 6: Disallow: /ours"));
        check(file, "/too", Some("robots.txt line 10: Disallow: /too"));
        check("User-agent: argiope-news\nDisallow: /", "/", None);
        check("User-agent: argiope\n\nUser-agent: *\nDisallow: /", "/", Some("robots.txt line 4: Disallow: /"));
        check("User-agent: argiope\nDisallow:\n\nUser-agent: *\nDisallow: /", "/", None);
    }

    #[test]
    fn the_file_itself_is_allowed() {
        check("User-agent: *\nDisallow: /", "/robots.txt", None);
        check("User-agent: *\nDisallow: /", "/robots.txt?x", Some("robots.txt line 2: Disallow: /"));
    }

    #[test]
    fn crawl_delay_and_sitemaps_are_read() {
        let parse = |file: &str| Rules::parse(file.as_bytes(), "Argiope");
        for (value, expected) in [
            ("10", Some(Duration::from_secs(10))),
            ("0.5", Some(Duration::from_millis(500))),
            ("1e300", Some(Duration::from_secs_f64(MAX_CRAWL_DELAY_SECONDS))),
            ("-1", None),
            ("inf", None),
            ("nan", None),
            ("ten", None),
        ] {
            let rules = parse(&format!("User-agent: *\nCrawl-Delay: {value}\nDisallow: /"));
            assert_eq!(rules.crawl_delay(), expected, "{value}");
            assert!(rules.refusal("/").is_some(), "the group goes on after it");
        }
        assert_eq!(parse("User-agent: other\nCrawl-delay: 9").crawl_delay(), None);
        let rules = parse("Sitemap: http://a/é.xml\nUser-agent: other\nSitemap:\nSitemap: /b.xml");
        assert_eq!(rules.sitemaps().collect::<Vec<_>>(), ["http://a/%C3%A9.xml", "/b.xml"]);
        assert_eq!(parse(&"Sitemap: a\n".repeat(2000)).sitemaps().count(), MAX_SITEMAPS);
    }

    #[test]
    fn hostile_files_are_read_and_answered_in_time() {
        // A character of several bytes astride the length at which the package clips a line.
        for extra in 0..8 {
            let file =
                format!("User-agent: *\nDisallow: /{}{}\nDisallow: /b", "a".repeat(16_640), "é".repeat(extra + 10));
            check(&file, "/b", Some("robots.txt line 3: Disallow: /b"));
        }
        check("\u{feff}User-agent: *\nDisallow: /", "/", Some("robots.txt line 2: Disallow: /"));
        let stars = format!("User-agent: *\nDisallow: /{}$", "*a".repeat(64));
        let path = format!("/{}b", "a".repeat(2000));
        check(&stars, &path, None);
        let costly = format!("User-agent: *\n{}", "Disallow: /*ab*c\n".repeat(30_000));
        check(&costly, &path, Some("robots.txt line 524: more rules with * than are held against one URL"));
        check(&costly, "/ordinary", None);
    }

    #[test]
    fn memory_is_bounded_by_the_length_that_is_read() {
        let file = format!("User-agent: *\n{}", "Allow:/é\n".repeat(100_000));
        let rules = Rules::parse(file.as_bytes(), "Argiope");
        assert!(rules.len() > 50_000);
        assert!(rules.heap_bytes() < 2 << 20, "{}", rules.heap_bytes());
    }

    proptest! {
        /// The oracle goes through all rules and keeps the longest that matches.
        #[test]
        fn the_most_specific_rule_decides(
            lines in prop::collection::vec((any::<bool>(), "/[ab*]{0,5}\\$?"), 0..8),
            path in "/[ab]{0,6}",
        ) {
            let mut file = String::from("User-agent: *\n");
            for (allow, pattern) in &lines {
                file.extend([if *allow { "Allow: " } else { "Disallow: " }, pattern.as_str(), "\n"]);
            }
            let rules = Rules::parse(file.as_bytes(), "Argiope");
            let best = lines.iter().filter(|(_, pattern)| matches(pattern, &path)).max_by_key(|(allow, pattern)| (pattern.len(), *allow));
            let expected = best.is_none_or(|(allow, _)| *allow);
            prop_assert_eq!(rules.refusal(&path).is_none(), expected);
        }

        #[test]
        fn any_bytes_are_read(file in prop::collection::vec(any::<u8>(), 0..400), path in "/\\PC{0,20}") {
            let _ = Rules::parse(&file, "Argiope").refusal(&path);
        }

        #[test]
        fn any_lines_are_read(
            lines in prop::collection::vec("(user-agent|allow|disallow|crawl-delay|sitemap)?[ :]{0,2}[*$%/a-f0-9é.-]{0,8}[\r\n]{1,2}", 0..12),
        ) {
            let _ = Rules::parse(lines.concat().as_bytes(), "Argiope").refusal("/a");
        }
    }
}
