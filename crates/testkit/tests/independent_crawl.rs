//! The oracle against a crawl that knows nothing but bytes: a second, slow reading of the same web
//! by other means. What it does by hand (charsets, tags, robots.txt) it does as plainly as it can.

#![expect(clippy::unwrap_used, reason = "it reads only what the web under test has written")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;

use model::CanonicalUrl;
use testkit::{Answer, MAX_REDIRECTS, Request, Web, WebConfig};

#[test]
fn the_oracle_agrees_with_a_crawl_over_the_bytes() {
    let other = WebConfig { hosts: 30, pages: 600, traps: 0.9, respelled_links: 0.9, ..WebConfig::small(3) };
    for config in [WebConfig::small(1), other] {
        let seed = config.seed;
        let web = Web::new(config);
        let crawl = Crawl::of(&web);
        let expected = web.expected();
        assert_eq!(crawl.fetched, expected.fetched, "seed {seed}");
        assert_eq!(crawl.robots, expected.robots);
        assert_eq!(crawl.robots_refused, expected.robots_refused);
        let failing: BTreeMap<String, u32> =
            expected.failing.into_iter().map(|(url, failing)| (url, failing.min(expected.retries))).collect();
        assert_eq!(crawl.retried, failing);
        assert!(expected.must_not.iter().all(|url| !crawl.fetched.contains_key(url)));
        let named: BTreeSet<&str> = crawl.text.split("/trap/").skip(1).map(word).collect();
        for url in &expected.must_not {
            let trap = url.split("/trap/").nth(1);
            assert!(
                crawl.distinct.contains(url) || trap.is_none_or(|trap| named.contains(trap)),
                "{url} is named nowhere"
            );
        }
    }
}

#[test]
fn most_links_are_duplicates_as_on_the_real_web() {
    for config in [WebConfig::small(1), WebConfig::demo(), WebConfig { hosts: 3, ..WebConfig::small(2) }] {
        let crawl = Crawl::of(&Web::new(config.clone()));
        let duplicates = 1.0 - crawl.distinct.len() as f64 / f64::from(crawl.links);
        assert!((0.75..0.90).contains(&duplicates), "{duplicates} of {} links: {config:?}", crawl.links);
    }
}

#[test]
fn pages_are_spelt_in_many_ways_and_coded_in_some() {
    let crawl = Crawl::of(&Web::new(WebConfig::small(1)));
    for spelling in ["HTTP://WWW.SITE-", ":80/", "%7E", "%c3%a9", "/./away/../", "#part-2", "../", "=\"//", "&amp;"] {
        assert!(crawl.text.contains(spelling), "no {spelling}");
    }
    for other in ["mailto:", "javascript:", ".invalid/", "rel=\"nofollow\"", "<base href"] {
        assert!(crawl.text.contains(other), "no {other}");
    }
    assert!(crawl.gzipped > 200, "{}", crawl.gzipped);
}

/// What a text starts with, up to the end of a path's segment.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default()
}

#[derive(Default)]
struct Crawl {
    fetched: BTreeMap<String, u16>,
    robots: BTreeMap<String, u16>,
    robots_refused: BTreeSet<String>,
    /// Requests beyond the first.
    retried: BTreeMap<String, u32>,
    /// Links on all pages, repetitions included, and their distinct URLs.
    links: u32,
    distinct: BTreeSet<String>,
    gzipped: u32,
    /// All text and all locations.
    text: String,
}

impl Crawl {
    fn of(web: &Web) -> Self {
        let hosts: BTreeSet<String> = web.hosts().into_iter().collect();
        let mut crawl = Self::default();
        let mut rules: BTreeMap<String, Rules> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut queue = VecDeque::new();
        let mut offer = |queue: &mut VecDeque<_>, url: CanonicalUrl, redirects: u32| {
            if hosts.contains(url.host()) && redirects <= MAX_REDIRECTS && seen.insert(url.clone()) {
                queue.push_back((url, redirects));
            }
        };
        for seed in web.seeds() {
            offer(&mut queue, CanonicalUrl::parse(&seed).unwrap(), 0);
        }
        while let Some((url, redirects)) = queue.pop_front() {
            let rules = rules.entry(url.host().to_owned()).or_insert_with(|| {
                let robots = CanonicalUrl::parse(&format!("{}/robots.txt", url.origin())).unwrap();
                let answer = crawl.fetch(web, &robots);
                crawl.robots.insert(robots.to_string(), answer.status);
                Rules::read(answer.status, std::str::from_utf8(&answer.body).unwrap())
            });
            if !rules.allow(url.path_and_query()) {
                crawl.robots_refused.insert(url.to_string());
                continue;
            }
            let answer = crawl.fetch(web, &url);
            crawl.fetched.insert(url.to_string(), answer.status);
            if let Some(location) = answer.headers.get("location") {
                let target = CanonicalUrl::join(&url.to_url(), location.to_str().unwrap()).unwrap();
                crawl.text.push_str(target.as_str());
                offer(&mut queue, target, redirects + 1);
            }
            let text = crawl.decode(&answer);
            let is_html =
                answer.headers.get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"text/html"));
            if is_html && answer.status == 200 {
                for (target, nofollow) in Page::read(&text, &url).links {
                    crawl.links += 1;
                    crawl.distinct.insert(target.to_string());
                    if !nofollow {
                        offer(&mut queue, target, 0);
                    }
                }
            }
            crawl.text.push_str(&text);
        }
        crawl
    }

    fn fetch(&mut self, web: &Web, url: &CanonicalUrl) -> Answer {
        let mut request = Request { accepts_gzip: true, ..Request::get(url.host(), url.path_and_query()) };
        loop {
            let answer = web.answer(&request);
            if answer.status < 500 || request.nth == 4 {
                if request.nth > 1 {
                    self.retried.insert(url.to_string(), request.nth - 1);
                }
                return answer;
            }
            request.nth += 1;
        }
    }

    fn decode(&mut self, answer: &Answer) -> String {
        let mut body = answer.body.to_vec();
        if answer.headers.contains_key("content-encoding") {
            self.gzipped += 1;
            body.clear();
            flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut body).unwrap();
        }
        let content_type = answer.headers.get("content-type").map_or("", |value| value.to_str().unwrap());
        let declared = String::from_utf8_lossy(&body[..body.len().min(1024)]).to_lowercase();
        if content_type.ends_with("utf-16le") {
            let units: Vec<u16> = body.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).unwrap()
        } else if content_type.ends_with("ISO-8859-1") || declared.contains("charset=iso-8859-1") {
            body.into_iter().map(char::from).collect()
        } else {
            String::from_utf8_lossy(&body).into_owned()
        }
    }
}

/// The links of a page, read tag by tag.
struct Page {
    links: Vec<(CanonicalUrl, bool)>,
}

impl Page {
    fn read(text: &str, url: &CanonicalUrl) -> Self {
        let (mut base, mut nofollow) = (url.to_url(), false);
        let mut references = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            rest = &rest[start..];
            if rest.starts_with("<!--") {
                rest = &rest[rest.find("-->").unwrap()..];
                continue;
            }
            let (name, attributes, after) = tag(rest);
            rest = after;
            let attribute =
                |name: &str| attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            match name.as_str() {
                // What is in here is not markup, or not of this page.
                "script" | "style" | "textarea" | "title" | "template" => {
                    rest = &rest[rest.find(&format!("</{name}")).unwrap()..];
                }
                "base" => base = CanonicalUrl::parse(attribute("href").unwrap()).unwrap().to_url(),
                "meta" if attribute("name") == Some("robots") => {
                    nofollow |= attribute("content").is_some_and(|content| content.contains("nofollow"));
                }
                "a" => {
                    let rel = attribute("rel").unwrap_or_default().to_lowercase();
                    references.push((attribute("href").unwrap().to_owned(), rel.contains("nofollow")));
                }
                _ => {}
            }
        }
        let links = references
            .into_iter()
            .filter_map(|(reference, rel)| Some((CanonicalUrl::join(&base, &reference).ok()?, rel || nofollow)))
            .collect();
        Self { links }
    }
}

/// Name and attributes of the tag a text starts with, and the text after it.
fn tag(text: &str) -> (String, Vec<(String, String)>, &str) {
    let mut rest = &text[1..];
    let end = rest.find(|c: char| c.is_whitespace() || c == '>').unwrap();
    let name = rest[..end].to_lowercase();
    rest = &rest[end..];
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return (name, attributes, after);
        }
        let end = rest.find(|c: char| c.is_whitespace() || c == '=' || c == '>').unwrap();
        let key = rest[..end].to_lowercase();
        rest = rest[end..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            (value, rest) = match after.chars().next().unwrap() {
                quote @ ('"' | '\'') => after[1..].split_once(quote).unwrap(),
                _ => after.split_at(after.find(|c: char| c.is_whitespace() || c == '>').unwrap()),
            };
        }
        let value = value.replace("&#x2F;", "/").replace("&#38;", "&").replace("&amp;", "&");
        attributes.push((key, value));
    }
}

/// The rules of robots.txt that hold for argiope.
struct Rules(Vec<(bool, String)>);

impl Rules {
    fn read(status: u16, text: &str) -> Self {
        let (mut ours, mut everybodys, mut is_named) = (Vec::new(), Vec::new(), false);
        let (mut agents, mut in_agents): (Vec<String>, bool) = (Vec::new(), false);
        for line in text.lines().filter(|_| status == 200) {
            let Some((key, value)) = line.split('#').next().unwrap().split_once(':') else { continue };
            let (key, value) = (key.trim().to_lowercase(), value.trim());
            if key == "user-agent" {
                if !in_agents {
                    agents.clear();
                }
                in_agents = true;
                agents.push(value.to_lowercase());
                is_named |= value.eq_ignore_ascii_case("argiope");
                continue;
            }
            in_agents = false;
            if (key == "allow" || key == "disallow") && !value.is_empty() {
                let rule = (key == "allow", value.to_owned());
                if agents.iter().any(|agent| agent == "argiope") {
                    ours.push(rule.clone());
                }
                if agents.iter().any(|agent| agent == "*") {
                    everybodys.push(rule);
                }
            }
        }
        Self(if is_named { ours } else { everybodys })
    }

    /// The longest pattern wins; of equals, the one that allows.
    fn allow(&self, path: &str) -> bool {
        let matching = self.0.iter().filter(|(_, pattern)| matches(pattern, path));
        matching.map(|(allow, pattern)| (pattern.len(), *allow)).max().is_none_or(|(_, allow)| allow)
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.chars().next() {
        None => true,
        Some('$') if pattern.len() == 1 => path.is_empty(),
        Some('*') => (0..=path.len()).any(|skip| path.is_char_boundary(skip) && matches(&pattern[1..], &path[skip..])),
        Some(c) => path.strip_prefix(c).is_some_and(|rest| matches(&pattern[c.len_utf8()..], rest)),
    }
}
