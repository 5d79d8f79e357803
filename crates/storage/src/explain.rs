//! What the journal knows of one URL.

use std::sync::Arc;

use model::{CanonicalUrl, HopClass, Reason, Time};
use serde::Serialize;

use crate::error::StorageError;
use crate::journal::JournalReader;
use crate::record::{Done, Position, Record};

/// Refusals that are kept one by one: a menu entry out of scope is refused on every page of a site.
const REFUSALS_KEPT: usize = 20;

/// The life of one URL, for `argiope why`. A page that linked to it when it was known already left
/// no trace: the journal only counts those.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// When it was queued, once for each visit.
    pub admissions: Vec<Admission>,
    /// How often it was refused.
    pub refused: u64,
    /// The first of those refusals.
    pub refusals: Vec<Refusal>,
    /// Why its host is left alone in the last session, if the URL is still queued.
    pub parked: Option<Parked>,
    /// How often a page linked to it that did not queue it, as far as references are counted.
    pub references: u64,
    /// How it ended, once for each visit.
    pub ends: Vec<(Position, Done)>,
}

/// One admission of a URL.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Admission {
    /// Where the record begins.
    pub position: Position,
    /// When.
    pub at: Time,
    /// The page that linked to it; `None` for a seed.
    pub via: Option<Arc<str>>,
    /// Links away from a seed.
    pub depth: u16,
    /// How it was reached.
    pub hop: HopClass,
}

/// A host left alone for the rest of a session.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Parked {
    /// When.
    pub at: Time,
    /// Why.
    pub reason: Reason,
    /// The rule, or what the system said.
    pub rule: String,
}

/// One refusal of a URL.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Where the record begins.
    pub position: Position,
    /// When.
    pub at: Time,
    /// The page that linked to it; `None` for a seed.
    pub via: Option<Arc<str>>,
    /// Links away from a seed.
    pub depth: u16,
    /// Why.
    pub reason: Reason,
    /// The rule that made the decision.
    pub rule: String,
}

/// Gathers all the journal says of a URL. One that cannot be parsed is looked for among the refused
/// references, as it stands.
///
/// # Errors
/// When the journal cannot be read.
pub fn explain(journal: JournalReader, reference: &str) -> Result<Explanation, StorageError> {
    let url = CanonicalUrl::parse(reference).ok();
    let is_asked_for = |text: &str| text == reference || url.is_some() && CanonicalUrl::parse(text).ok() == url;
    let key = url.as_ref().map(CanonicalUrl::key);
    let mut explanation = Explanation::default();
    for record in journal {
        let (position, record) = record?;
        let (at, (admitted, via)) = (record.at(), record.admitted());
        for admitted in admitted.iter().filter(|admitted| Some(&admitted.url) == url.as_ref()) {
            let (depth, hop) = (admitted.depth, admitted.hop);
            explanation.admissions.push(Admission { position, at, via: via.clone(), depth, hop });
        }
        for refused in record.refused().iter().filter(|refused| is_asked_for(&refused.reference)) {
            explanation.refused += 1;
            if explanation.refusals.len() < REFUSALS_KEPT {
                let (depth, reason, rule) = (refused.depth, refused.reason, refused.rule.clone());
                explanation.refusals.push(Refusal { position, at, via: via.clone(), depth, reason, rule });
            }
        }
        if let (Record::Done(done), Some(key)) = (&record, key) {
            explanation.references += done.references.iter().filter(|reference| **reference == key).count() as u64;
        }
        match record {
            Record::Done(done) if Some(&done.url.url) == url.as_ref() => {
                explanation.ends.push((position, *done));
            }
            Record::HostParked { origin, reason, rule, .. }
                if url.as_ref().is_some_and(|url| url.origin() == origin) =>
            {
                explanation.parked = Some(Parked { at, reason, rule });
            }
            // It may have been queued, and was given up; this visit has to find it anew.
            Record::VisitStarted { .. } => {
                explanation.admissions.truncate(explanation.ends.len());
                explanation.parked = None;
            }
            // A new session begins without a memory of it.
            Record::SessionStarted { .. } => explanation.parked = None,
            _ => {}
        }
    }
    if explanation.ends.len() >= explanation.admissions.len() {
        explanation.parked = None;
    }
    Ok(explanation)
}

#[cfg(test)]
mod tests {
    use model::Disposition;

    use super::*;
    use crate::{Journal, testing};

    fn check(reference: &str, via: Option<&str>, refused: &[Reason], end: Option<Disposition>) {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), |_, _| Ok(())).unwrap();
        for record in testing::small_crawl() {
            journal.append(&record).unwrap();
        }
        journal.sync().unwrap();
        let found = explain(JournalReader::open(dir.path()).unwrap(), reference).unwrap();
        let admission = found.admissions.first();
        assert_eq!(admission.and_then(|admission| admission.via.as_deref()), via, "{reference}");
        assert_eq!(found.refusals.iter().map(|refusal| refusal.reason).collect::<Vec<_>>(), refused);
        assert_eq!(found.refused, refused.len() as u64);
        assert_eq!(found.ends.first().map(|(_, done)| done.disposition), end);
        assert_eq!(admission.is_some(), end.is_some(), "in this crawl every admitted URL is done");
    }

    #[test]
    fn each_url_has_its_story() {
        check("http://a.example/", None, &[], Some(Disposition::Answered(200)));
        let forbidden = Disposition::Refused(Reason::RobotsDisallowed);
        check("HTTP://A.example/private#top", Some("http://a.example/"), &[], Some(forbidden));
        check("http://c.example", None, &[Reason::OutOfScope], None);
        check("http://", None, &[Reason::Malformed], None);
        check("http://nobody.example/", None, &[], None);
    }
}
