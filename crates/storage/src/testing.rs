//! Records for tests.

use model::{
    CanonicalUrl, Disposition, Exchange, FailureKind, Headers, HopClass, HttpVersion, PageRobots, Rank, Reason, Time,
};

use crate::record::{Admitted, Capture, Done, End, FetchFacts, PageFacts, Position, Record, Refused};

pub(crate) const SEGMENT: &str = "argiope-20261120182556123-00000.warc.gz";

pub(crate) fn at(seconds: u64) -> Time {
    Time::from_micros(1_790_000_000_000_000 + seconds * 1_000_000)
}

pub(crate) fn admitted(url: &str, admission: u64) -> Admitted {
    let url = CanonicalUrl::parse(url).unwrap();
    Admitted { url, rank: Rank::new(0, admission), depth: 0, redirects: 0, hop: HopClass::Seed }
}

pub(crate) fn linked(url: &str, admission: u64) -> Admitted {
    Admitted { rank: Rank::new(1, admission), depth: 1, hop: HopClass::Navigation, ..admitted(url, admission) }
}

pub(crate) fn refused(reference: &str, reason: Reason) -> Refused {
    Refused { reference: reference.to_owned(), reason, rule: format!("the rule for {reason}"), depth: 1 }
}

pub(crate) fn done(admitted: &Admitted, disposition: Disposition) -> Done {
    Done::new(admitted.queued(None), at(admitted.rank.admission() + 2), 1, disposition, String::new())
}

pub(crate) fn fetch(capture: Option<Capture>) -> FetchFacts {
    FetchFacts {
        started: at(1),
        duration_us: 41_500,
        address: Some("192.0.2.1:80".parse().unwrap()),
        media_type: Some("text/html".to_owned()),
        body_bytes: 1234,
        truncated: None,
        payload_digest: [7; 20],
        capture,
    }
}

pub(crate) fn page() -> PageFacts {
    PageFacts {
        title: Some("A \"title\"".to_owned()),
        charset: Some("UTF-8".to_owned()),
        canonical: Some(CanonicalUrl::parse("http://a.example/home").unwrap()),
        robots: PageRobots { noindex: true, nofollow: false },
        links_found: 5,
        fields: vec![("price".to_owned(), vec!["1".to_owned(), "2".to_owned()])],
        complaints: Vec::new(),
    }
}

/// A seed that answers and links to a page and a file, a seed out of scope, and how each ended.
pub(crate) fn small_crawl() -> Vec<Record> {
    let seed = admitted("http://a.example/", 0);
    let (dead, forbidden) = (linked("http://b.example/dead", 1), linked("http://a.example/private", 2));
    let via = Some(seed.url.shared());
    let home = Done {
        fetch: Some(fetch(Some(Capture { segment: SEGMENT.to_owned(), offset: 300, length: 500, end: 900 }))),
        page: Some(page()),
        offered: 4,
        seen: 1,
        admitted: vec![dead.clone(), forbidden.clone()],
        refused: vec![refused("http://", Reason::Malformed)],
        ..done(&seed, Disposition::Answered(200))
    };
    let dead = Done {
        url: dead.queued(via.clone()),
        attempts: 3,
        note: "connection refused".to_owned(),
        ..done(&dead, Disposition::Failed(FailureKind::ConnectRefused))
    };
    let forbidden = Done {
        url: forbidden.queued(via),
        attempts: 0,
        note: "Disallow: /private".to_owned(),
        ..done(&forbidden, Disposition::Refused(Reason::RobotsDisallowed))
    };
    vec![
        Record::SessionStarted { at: at(0), program: "argiope 0.1.0".to_owned(), visit: 1 },
        Record::Seeds {
            at: at(0),
            offered: 2,
            seen: 0,
            admitted: vec![seed],
            refused: vec![refused("http://c.example/", Reason::OutOfScope)],
        },
        Record::Done(Box::new(home)),
        Record::Done(Box::new(dead)),
        Record::Done(Box::new(forbidden)),
        Record::SessionEnded { at: at(9), end: End::Finished },
    ]
}

/// A second visit of the same seed, with its references counted.
pub(crate) fn second_visit() -> Vec<Record> {
    let seed = admitted("http://a.example/", 3);
    let home = Done {
        offered: 2,
        seen: 2,
        references: vec![seed.url.key(), linked("http://b.example/dead", 1).url.key()],
        ..done(&seed, Disposition::Answered(200))
    };
    vec![
        Record::VisitStarted { at: at(20), visit: 2 },
        Record::SessionStarted { at: at(20), program: "argiope 0.1.0".to_owned(), visit: 2 },
        Record::Seeds { at: at(20), offered: 1, seen: 0, admitted: vec![seed], refused: Vec::new() },
        Record::Done(Box::new(home)),
        Record::SessionEnded { at: at(29), end: End::Finished },
    ]
}

/// The records with positions that rise as a journal's do.
pub(crate) fn numbered(records: &[Record]) -> Vec<(Position, Record)> {
    (0..).map(|index| Position::new(16 + 100 * index)).zip(records.iter().cloned()).collect()
}

/// An exchange with that body and those header fields.
pub(crate) fn exchange(url: &str, fields: &[(&str, &[u8])], body: &[u8]) -> Exchange {
    let mut headers = Headers::default();
    for (name, value) in fields {
        headers.push(name, *value);
    }
    Exchange {
        url: CanonicalUrl::parse(url).unwrap(),
        address: Some("[2001:db8::1]:80".parse().unwrap()),
        started: at(0),
        first_byte: std::time::Duration::from_millis(3),
        duration: std::time::Duration::from_millis(5),
        request: b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n".to_vec(),
        version: HttpVersion::Http11,
        status: 200,
        headers,
        body: body.to_vec(),
        truncated: None,
    }
}
