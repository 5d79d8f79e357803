//! There is a reason for every URL, and it names the rule.

use std::collections::HashSet;

use model::{Disposition, Reason};
use serde_json::Value;
use storage::{JobDir, Record};

use crate::harness::Site;
use crate::job_files::{ends, journal};

/// What `why` says of a URL must hold each of the words, and its JSON the state.
#[track_caller]
fn check(site: &Site, url: &str, state: &str, words: &[&str]) {
    let told = site.argiope(&["why", url, "--job", "job"]).exits(0);
    for word in words {
        assert!(told.stdout.contains(word), "{word:?} is not in\n{told}");
    }
    assert_eq!(told.stderr, "");
    let json = site.argiope(&["why", url, "--job", "job", "--json"]).exits(0);
    let json: Value = serde_json::from_str(&json.stdout).expect("one JSON document and nothing else");
    assert_eq!(json["state"], state, "{json:#}");
    assert!(json["url"].as_str().is_some_and(|text| told.stdout.starts_with(text)), "{json:#}");
}

/// A reference that some page held, that was refused for this reason, and that no other page got admitted.
fn refused(job: &JobDir, reason: Reason) -> String {
    let records = journal(job);
    let admitted: HashSet<&str> =
        records.iter().flat_map(|(_, record)| record.admitted().0).map(|admitted| admitted.url.as_str()).collect();
    let mut refused = records.iter().flat_map(|(_, record)| record.refused());
    let found = refused.find(|refused| refused.reason == reason && !admitted.contains(refused.reference.as_str()));
    found.expect("this web has some").reference.clone()
}

#[test]
fn each_kind_of_url_has_its_reason() {
    let site = Site::small(12);
    site.crawl(&[]).exits(0);
    let job = site.job();
    let expected = site.web.expected();
    let with_status = |status: u16| expected.fetched.iter().find(|(_, got)| **got == status).expect("there is one").0;

    let seed = &site.web.seeds()[0];
    check(&site, seed, "done", &["is done", "as a seed, 0 links", "answered with status 200", "kept in warc/"]);
    check(&site, &format!("{seed}#top"), "done", &["answered with status 200"]);
    check(&site, with_status(301), "done", &["admitted from http://", "answered with status 301"]);
    check(&site, with_status(404), "done", &["admitted from http://", "answered with status 404"]);
    check(&site, with_status(500), "done", &["answered with status 500, at attempt 3"]);

    let late = ends(&job).into_iter().find(|done| done.disposition == Disposition::Refused(Reason::RobotsDisallowed));
    let late = late.expect("robots.txt refused something");
    let url = late.url.url.as_str();
    assert!(expected.robots_refused.contains(url));
    check(&site, url, "done", &["not fetched: robots-disallowed", "(robots.txt line ", "Disallow: /"]);
    for url in &expected.robots_refused {
        let end = ends_of(&job, url);
        assert!(end.starts_with("robots.txt line "), "{url}: {end}");
    }

    let outside = refused(&job, Reason::OutOfScope);
    check(&site, &outside, "unknown", &["refused from http://", "out-of-scope, by scope.kind = \"host\""]);
    let trap = expected.must_not.iter().find(|url| url.contains("/trap/nofollow-")).expect("there is one");
    check(&site, trap, "unknown", &["refused from http://", "nofollow, by rel=nofollow"]);
    check(&site, &refused(&job, Reason::UnsupportedScheme), "unknown", &["unsupported-scheme"]);

    check(&site, &format!("{seed}never-named"), "unknown", &["no page offered it; scope would admit it"]);
    check(&site, "http://never.example/", "unknown", &["no page offered it; scope would refuse it", "scope.kind"]);
    check(&site, "no url", "unknown", &["is unknown"]);
}

/// The note on the end of a URL.
fn ends_of(job: &JobDir, url: &str) -> String {
    let mut ends = ends(job).into_iter().filter(|done| done.url.url.as_str() == url);
    ends.next().expect("it is done").note
}

#[test]
fn a_stopped_crawl_has_urls_queued() {
    let site = Site::tiny(13);
    site.crawl(&["crawl.max_pages=30"]).exits(3);
    let job = site.job();
    let done: Vec<String> = ends(&job).iter().map(|done| done.url.url.as_str().to_owned()).collect();
    let admitted = journal(&job).into_iter().flat_map(|(_, record)| record.admitted().0.to_vec());
    let waiting = admitted.map(|admitted| admitted.url.as_str().to_owned()).find(|url| !done.contains(url));
    check(&site, &waiting.expect("something waits"), "queued", &["is queued", "admitted from http://"]);
    assert!(journal(&job).iter().any(|(_, record)| matches!(record, Record::SessionEnded { .. })));
}

#[test]
fn bounds_are_named_by_their_keys() {
    let site = Site::tiny(14);
    let settings = ["scope.max_depth=1", "frontier.per_host_max_pages=3"];
    site.crawl(&settings).exits(0);
    let job = site.job();
    check(&site, &refused(&job, Reason::TooDeep), "unknown", &["too-deep, by scope.max_depth = 1"]);
    let records = journal(&job);
    let full = records.iter().find_map(|(_, record)| match record {
        Record::HostParked { origin, reason: Reason::HostPageLimit, .. } => Some(origin.clone()),
        _ => None,
    });
    let full = full.expect("some host has more than three pages");
    let done: HashSet<String> = ends(&job).iter().map(|done| done.url.url.as_str().to_owned()).collect();
    let mut admitted = records.iter().flat_map(|(_, record)| record.admitted().0);
    let waiting = admitted.find(|admitted| admitted.url.origin() == full && !done.contains(admitted.url.as_str()));
    let waiting = waiting.expect("it has pages left").url.as_str();
    check(&site, waiting, "queued", &["left for another run: host-page-limit", "frontier.per_host_max_pages = 3"]);
}
