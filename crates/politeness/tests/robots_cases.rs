//! 189 cases of robots.txt, gathered from RFC 9309, Google's own tests and five other programs:
//! what each of them answers stands beside each case.

use std::collections::BTreeMap;

use model::{CanonicalUrl, Time};
use politeness::{Permit, Politeness, PolitenessConfig, RobotsAnswer};
use serde_json::Value;

/// Whether each case on which the programs differ is allowed by us, and why where that is not what
/// the case expects.
const DISPUTED: &str = include_str!("data/robots_disputed.txt");

/// Whether a URL is allowed, asked as the engine asks. The one URL in the cases that is none stands
/// for the root, as it does for Google.
fn allowed(file: &[u8], agent: &str, url: &str) -> bool {
    let mut politeness = Politeness::new(&PolitenessConfig::default(), agent);
    let url = if url.is_empty() { "http://foo.bar/" } else { url };
    let url = CanonicalUrl::parse(url).expect("the cases have no other bad URL");
    politeness.robots_arrived(url.host_key(), RobotsAnswer::Answered { status: 200, body: file }, Time::ZERO);
    match politeness.permit(&url, Time::ZERO) {
        Permit::Go => true,
        Permit::Refused(refusal) => {
            assert!(refusal.rule.starts_with("robots.txt line "), "{refusal:?}");
            false
        }
        other => panic!("{other:?}"),
    }
}

struct Case {
    id: String,
    disputed: bool,
    expected: bool,
    allowed: bool,
}

fn cases() -> Vec<Case> {
    let cases: Value = serde_json::from_str(include_str!("data/robots_cases.json")).expect("the file is JSON");
    let case = |case: &Value| {
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        let plain = case["robots_txt"].as_str().map(|text| text.as_bytes().to_vec());
        let file = plain.unwrap_or_else(|| base64(text("robots_txt_b64")));
        Case {
            id: text("id").to_owned(),
            disputed: case["disagree"].as_array().is_some_and(|programs| !programs.is_empty()),
            expected: case["allowed"].as_bool().expect("each case has an answer"),
            allowed: allowed(&file, text("agent"), text("url")),
        }
    };
    cases["cases"].as_array().into_iter().flatten().map(case).collect()
}

fn base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|&digit| digit == byte)
    });
    let bits: Vec<usize> = digits.flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1)).collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}

#[test]
fn what_nobody_disputes_holds() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for case in cases().into_iter().filter(|case| !case.disputed) {
        checked += 1;
        if case.allowed != case.expected {
            wrong.push(case.id);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(checked, 108);
}

#[test]
fn what_is_disputed_is_decided() {
    let decision = |line: &'static str| {
        let mut words = line.splitn(3, ' ');
        let (id, verdict, why) = (words.next()?, words.next()?, words.next());
        Some((id.to_owned(), (verdict, why)))
    };
    let lines = DISPUTED.lines().filter(|line| !line.starts_with('#'));
    let mut decisions: BTreeMap<String, _> = lines.filter_map(decision).collect();
    for case in cases().into_iter().filter(|case| case.disputed) {
        let (verdict, why) = decisions.remove(&case.id).unwrap_or_else(|| panic!("{} is not decided", case.id));
        assert_eq!(case.allowed, verdict == "allowed", "{}", case.id);
        assert_eq!(case.allowed == case.expected, why.is_none(), "{}: a different answer needs a reason", case.id);
    }
    assert!(decisions.is_empty(), "not disputed: {decisions:?}");
}
