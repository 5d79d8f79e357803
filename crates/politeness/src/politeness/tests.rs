use model::{ByteSize, FailureKind, Span};

use super::*;

const AGENT: &str = "Argiope/0.1";
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const START: Time = Time::ZERO;

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

fn status(status: u16) -> FetchSummary<'static> {
    FetchSummary::Answered { status, retry_after: None }
}

fn answer(status: u16, body: &str) -> RobotsAnswer<'_> {
    RobotsAnswer::Answered { status, body: body.as_bytes() }
}

/// A host with its robots.txt read, and no pause under way.
fn known(config: &PolitenessConfig, robots: &str) -> (Politeness, CanonicalUrl) {
    let mut politeness = Politeness::new(config, AGENT);
    let page = url("http://a.example/page");
    politeness.robots_arrived(page.host_key(), answer(200, robots), START);
    (politeness, page)
}

fn without_delay() -> PolitenessConfig {
    PolitenessConfig { delay_factor: 0.0, min_delay: Span(Duration::ZERO), ..PolitenessConfig::default() }
}

fn refusal(permit: Permit) -> (Reason, String) {
    let Permit::Refused(Refusal { reason, rule }) = permit else { panic!("{permit:?}") };
    (reason, rule.to_string())
}

#[test]
fn robots_come_first_once_for_each_host() {
    let mut politeness = Politeness::new(&without_delay(), AGENT);
    let page = url("http://a.example/page");
    assert_eq!(politeness.permit(&page, START), Permit::RobotsFirst);
    politeness.robots_arrived(page.host_key(), answer(404, "User-agent: *\nDisallow: /"), START);
    assert_eq!(politeness.permit(&page, START), Permit::Go, "an error page is no robots.txt");
    assert_eq!(politeness.permit(&url("https://a.example/page"), START), Permit::RobotsFirst);
    assert_eq!(politeness.permit(&url("http://a.example:81/page"), START), Permit::RobotsFirst);
    let a_day_later = START + SECOND * 86_400;
    assert_eq!(politeness.permit(&page, a_day_later), Permit::RobotsFirst);
}

#[test]
fn each_status_of_robots_has_its_meaning() {
    let check = |answer, expected: fn(&RobotsState) -> bool, permit: fn(&Permit) -> bool| {
        let mut politeness = Politeness::new(&without_delay(), AGENT);
        let page = url("http://a.example/page");
        let state = politeness.robots_arrived(page.host_key(), answer, START);
        assert!(expected(&state), "{answer:?}: {state:?}");
        let permitted = politeness.permit(&page, START);
        assert!(permit(&permitted), "{answer:?}: {permitted:?}");
    };
    let everything = "User-agent: *\nDisallow: /";
    for code in [200, 203, 206] {
        check(
            answer(code, everything),
            |state| *state == RobotsState::Rules { rules: 1, crawl_delay: None },
            |permit| matches!(permit, Permit::Refused(_)),
        );
    }
    for code in [301, 308, 400, 401, 403, 404, 410, 451] {
        check(answer(code, everything), |state| *state == RobotsState::AllowedAll, |permit| *permit == Permit::Go);
    }
    for code in [100, 429, 500, 503, 599, 600] {
        check(
            answer(code, ""),
            |state| *state == RobotsState::Waiting { until: START + SECOND * 30 },
            |permit| *permit == Permit::NotBefore(START + SECOND * 30),
        );
    }
    for kind in FailureKind::ALL {
        check(
            RobotsAnswer::Failed(kind),
            |state| matches!(state, RobotsState::Waiting { .. }),
            |permit| matches!(permit, Permit::NotBefore(_)),
        );
    }
}

#[test]
fn robots_that_cannot_be_had_refuse_in_the_end() {
    let mut politeness = Politeness::new(&without_delay(), AGENT);
    let page = url("http://a.example/page");
    let mut now = START;
    for wait in [30, 90, 270] {
        assert_eq!(politeness.permit(&page, now), Permit::RobotsFirst);
        let until = now + SECOND * wait;
        assert_eq!(politeness.robots_arrived(page.host_key(), answer(500, ""), now), RobotsState::Waiting { until });
        assert_eq!(politeness.permit(&page, now), Permit::NotBefore(until));
        now = until;
    }
    let until = now + SECOND * 86_400;
    let state = politeness.robots_arrived(page.host_key(), answer(500, ""), now);
    assert_eq!(state, RobotsState::Unreachable { until });
    let (reason, rule) = refusal(politeness.permit(&page, now));
    assert_eq!(reason, Reason::RobotsUnreachable);
    assert_eq!(rule, "robots.txt could not be had, 4 times in a row: status 500");
    assert_eq!(politeness.permit(&page, until), Permit::RobotsFirst);
}

#[test]
fn an_old_copy_of_robots_goes_on_serving() {
    let (mut politeness, page) = known(&without_delay(), "User-agent: *\nDisallow: /private");
    let tomorrow = START + SECOND * 86_400;
    assert_eq!(politeness.permit(&page, tomorrow), Permit::RobotsFirst);
    let state = politeness.robots_arrived(page.host_key(), RobotsAnswer::Failed(FailureKind::Disconnected), tomorrow);
    assert_eq!(state, RobotsState::Stale { until: tomorrow + SECOND * 30 });
    assert_eq!(politeness.permit(&page, tomorrow), Permit::Go);
    let (reason, _) = refusal(politeness.permit(&url("http://a.example/private"), tomorrow));
    assert_eq!(reason, Reason::RobotsDisallowed);
    assert_eq!(politeness.permit(&page, tomorrow + SECOND * 30), Permit::RobotsFirst);
}

#[test]
fn the_pause_follows_the_fetch_time_within_its_bounds() {
    let config = PolitenessConfig::default();
    let check = |fetch_time, expected: Duration| {
        let (mut politeness, page) = known(&config, "");
        assert_eq!(politeness.permit(&page, START), Permit::Go);
        let now = START + fetch_time;
        let after = politeness.fetched(page.host_key(), fetch_time, status(200), 1, now);
        assert_eq!(after, Aftermath { host_until: now + expected, address_until: now + expected, next: Next::Done });
        assert_eq!(politeness.permit(&page, now), Permit::NotBefore(now + expected));
        assert_eq!(politeness.permit(&page, now + expected), Permit::Go);
        assert_eq!(politeness.permit(&page, now + expected), Permit::NotBefore(now + expected * 2), "it was spent");
    };
    check(MS * 10, SECOND);
    check(MS * 400, SECOND * 2);
    check(SECOND * 60, SECOND * 30);
    check(SECOND * 10_000, SECOND * 30);
}

#[test]
fn hosts_at_one_address_wait_for_each_other_unless_told_otherwise() {
    let config = PolitenessConfig { per_ip: false, ..PolitenessConfig::default() };
    let (mut politeness, page) = known(&config, "User-agent: *\nCrawl-delay: 7");
    let after = politeness.fetched(page.host_key(), MS, status(200), 1, START);
    assert_eq!((after.host_until, after.address_until), (START + SECOND * 7, START));
}

#[test]
fn without_delays_nothing_waits() {
    let (mut politeness, page) = known(&without_delay(), "");
    for _ in 0..3 {
        assert_eq!(politeness.permit(&page, START), Permit::Go);
        let after = politeness.fetched(page.host_key(), SECOND, status(200), 1, START);
        assert_eq!(after, Aftermath { host_until: START, address_until: START, next: Next::Done });
    }
}

#[test]
fn crawl_delay_lengthens_the_pause_in_whatever_order_things_arrive() {
    for (text, expected) in [("2.5", MS * 2500), ("0", SECOND), ("86400", SECOND * 300)] {
        let robots = format!("User-agent: *\nCrawl-delay: {text}");
        let page = url("http://a.example/page");
        let host = page.host_key();
        let mut politeness = Politeness::new(&PolitenessConfig::default(), AGENT);
        politeness.robots_arrived(host, answer(200, &robots), START);
        assert_eq!(politeness.fetched(host, MS, status(200), 1, START).host_until, START + expected, "{text}");

        let mut politeness = Politeness::new(&PolitenessConfig::default(), AGENT);
        politeness.fetched(host, MS, status(200), 1, START);
        politeness.robots_arrived(host, answer(200, &robots), START);
        assert_eq!(politeness.permit(&page, START), Permit::NotBefore(START + expected), "{text}");
    }
}

#[test]
fn a_refusal_does_not_wait_and_names_its_line() {
    let (mut politeness, page) = known(&PolitenessConfig::default(), "User-agent: *\n\nDisallow: /private/");
    politeness.fetched(page.host_key(), MS, status(200), 1, START);
    let (reason, rule) = refusal(politeness.permit(&url("http://a.example/private/x"), START));
    assert_eq!((reason, rule.as_str()), (Reason::RobotsDisallowed, "robots.txt line 3: Disallow: /private/"));
}

/// What a URL's fetches lead to, one after the other, when each ends as the one before.
fn check_backoff(summary: FetchSummary<'_>, expected: &[Next]) {
    let (mut politeness, page) = known(&without_delay(), "");
    for (attempts, expected) in (1..).zip(expected) {
        let after = politeness.fetched(page.host_key(), MS, summary, attempts, START);
        assert_eq!(after.next, *expected, "{summary:?}, attempt {attempts}");
    }
}

#[test]
fn failures_are_tried_again_and_end() {
    let retry = |seconds| Next::Retry { not_before: START + SECOND * seconds };
    check_backoff(status(404), &[Next::Done]);
    check_backoff(status(503), &[retry(30), retry(90), retry(270), Next::GiveUp]);
    check_backoff(status(429), &[retry(30), retry(90), retry(270), Next::GiveUp]);
    check_backoff(status(500), &[retry(30), retry(90), Next::GiveUp]);
    let failed = |kind| FetchSummary::Failed(kind);
    check_backoff(failed(FailureKind::FirstByteTimeout), &[retry(30), retry(90), retry(270), Next::GiveUp]);
    check_backoff(failed(FailureKind::DnsNotFound), &[retry(30), Next::HostDead]);
    check_backoff(failed(FailureKind::ConnectRefused), &[retry(30), retry(90), Next::HostDead]);
    check_backoff(failed(FailureKind::PrivateAddress), &[Next::HostDead]);
    check_backoff(failed(FailureKind::Protocol), &[Next::GiveUp]);
    check_backoff(failed(FailureKind::Internal), &[Next::GiveUp]);
    let asked = FetchSummary::Answered { status: 503, retry_after: Some("7") };
    check_backoff(asked, &[retry(7), retry(7), retry(7), Next::GiveUp]);
    let asked = FetchSummary::Answered { status: 429, retry_after: Some("9999999") };
    check_backoff(asked, &[retry(3600)]);
    let redirect = FetchSummary::Answered { status: 302, retry_after: Some("7") };
    check_backoff(redirect, &[Next::Done]);
}

#[test]
fn the_host_waits_for_its_own_trouble_and_not_for_one_page() {
    let (mut politeness, page) = known(&without_delay(), "");
    let host = page.host_key();
    assert_eq!(politeness.fetched(host, MS, status(500), 1, START).host_until, START);
    let after = politeness.fetched(host, MS, status(503), 1, START);
    assert_eq!((after.host_until, after.address_until), (START + SECOND * 30, START));
    assert_eq!(politeness.permit(&page, START), Permit::NotBefore(START + SECOND * 30));
}

#[test]
fn a_success_makes_good_what_went_before() {
    let (mut politeness, page) = known(&without_delay(), "");
    let host = page.host_key();
    let refused = FetchSummary::Failed(FailureKind::ConnectRefused);
    for _ in 0..10 {
        politeness.fetched(host, MS, refused, 1, START);
        assert_eq!(politeness.fetched(host, MS, refused, 2, START).host_until, START + SECOND * 90);
        assert_eq!(politeness.fetched(host, MS, status(200), 3, START).next, Next::Done);
    }
    assert_eq!(politeness.permit(&page, START), Permit::Go);
}

#[test]
fn a_dead_host_refuses_until_the_next_day() {
    let (mut politeness, page) = known(&without_delay(), "");
    let host = page.host_key();
    for attempts in 1..=3 {
        politeness.fetched(host, MS, FetchSummary::Failed(FailureKind::ConnectRefused), attempts, START);
    }
    let (reason, rule) = refusal(politeness.permit(&page, START));
    assert_eq!(reason, Reason::HostDead);
    assert_eq!(rule, "connect-refused, 3 times in a row at this host");
    let tomorrow = START + SECOND * 86_400;
    assert_eq!(politeness.permit(&page, tomorrow), Permit::RobotsFirst);
    politeness.robots_arrived(host, answer(200, ""), tomorrow);
    let after = politeness.fetched(host, MS, FetchSummary::Failed(FailureKind::ConnectRefused), 1, tomorrow);
    assert_eq!(after.next, Next::Retry { not_before: tomorrow + SECOND * 30 }, "the count began anew");
}

/// The engine's loop in small: nothing but failures, from robots.txt on, ends within minutes.
#[test]
fn a_host_that_never_answers_ends_soon() {
    for (kind, minutes) in [
        (FailureKind::DnsNotFound, 1),
        (FailureKind::PrivateAddress, 1),
        (FailureKind::ConnectRefused, 3),
        (FailureKind::ConnectTimeout, 7),
        (FailureKind::FirstByteTimeout, 7),
        (FailureKind::Protocol, 7),
    ] {
        let mut politeness = Politeness::new(&PolitenessConfig::default(), AGENT);
        let page = url("http://a.example/page");
        let mut now = START;
        let reason = loop {
            match politeness.permit(&page, now) {
                Permit::Go => panic!("robots.txt was never had"),
                Permit::RobotsFirst => {
                    politeness.robots_arrived(page.host_key(), RobotsAnswer::Failed(kind), now);
                    politeness.fetched(page.host_key(), MS, FetchSummary::Failed(kind), 1, now);
                }
                Permit::NotBefore(until) => {
                    assert!(until > now);
                    now = until;
                }
                Permit::Refused(refusal) => break refusal.reason,
            }
        };
        match kind {
            FailureKind::PrivateAddress => assert_eq!(reason, Reason::PrivateAddress),
            _ => assert!(matches!(reason, Reason::HostDead | Reason::RobotsUnreachable), "{kind:?}: {reason}"),
        }
        assert!(now.since(START) <= SECOND * 60 * minutes, "{kind:?} took {:?}", now.since(START));
    }
}

#[test]
fn a_forgotten_host_is_remembered_while_there_is_room() {
    let room = PolitenessConfig::default();
    let none = PolitenessConfig { memory: ByteSize(0), ..PolitenessConfig::default() };
    for (config, remembered) in [(room, true), (none, false)] {
        let (mut politeness, page) = known(&config, "Sitemap: http://a.example/map.xml");
        let host = page.host_key();
        politeness.fetched(host, MS, status(200), 1, START);
        assert_eq!(politeness.sitemaps(host).collect::<Vec<_>>(), ["http://a.example/map.xml"]);
        politeness.forget(host);
        assert_eq!(politeness.sitemaps(host).count(), usize::from(remembered));
        let expected = if remembered { Permit::NotBefore(START + SECOND) } else { Permit::RobotsFirst };
        assert_eq!(politeness.permit(&page, START), expected);
    }
}

#[test]
fn an_outcome_is_summed_up() {
    use model::FetchOutcome;
    let failed = FetchOutcome::Failed { kind: FailureKind::Tls, detail: String::new(), duration: MS };
    assert_eq!(FetchSummary::from(&failed), FetchSummary::Failed(FailureKind::Tls));
    let mut headers = model::Headers::default();
    headers.push("Retry-After", "5");
    let exchange = model::Exchange {
        url: url("http://a.example/"),
        address: None,
        started: START,
        first_byte: MS,
        duration: MS,
        request: Vec::new(),
        version: model::HttpVersion::Http11,
        status: 503,
        headers,
        body: Vec::new(),
        truncated: None,
    };
    let answered = FetchOutcome::Answered(Box::new(exchange));
    assert_eq!(FetchSummary::from(&answered), FetchSummary::Answered { status: 503, retry_after: Some("5") });
}
