//! Intake: the only way into the frontier.

use std::collections::BTreeMap;

use model::{CanonicalUrl, HopClass, QueuedUrl, Reason, UrlError, UrlKey};
use std::sync::Arc;
use storage::{Admitted, Record, Refused};
use url_cache::{Question, Verdict};

use crate::crawl::Running;
use crate::error::EngineError;
use crate::pages::{Candidate, RefusedCandidate};

/// Bytes of seeds that make one record.
const SEEDS_BYTES: usize = 4 << 20;
/// Seeds that make one record: each may be refused by a rule that is longer than the seed.
const SEEDS_AT_ONCE: usize = 10_000;

/// What became of a batch of URLs, as the journal keeps it.
pub(crate) struct Intake {
    /// Those that were new.
    pub(crate) admitted: Vec<Admitted>,
    /// How many were seen before.
    pub(crate) seen: u32,
    /// Which these were, where references are counted.
    pub(crate) references: Vec<UrlKey>,
}

impl Running {
    /// Asks which of the URLs are new, as one batch, and queues those.
    pub(crate) fn intake(
        &mut self,
        candidates: Vec<Candidate>,
        via: Option<&CanonicalUrl>,
    ) -> Result<Intake, EngineError> {
        let questions: Vec<Question<'_>> =
            candidates.iter().map(|candidate| Question { key: candidate.key, url: candidate.url.as_str() }).collect();
        let mut verdicts = Vec::with_capacity(questions.len());
        self.url_cache.ask_and_mark(&questions, &mut verdicts)?;

        let now = self.clock.now();
        let mut admitted = Vec::new();
        let (mut seen, mut references) = (0, Vec::new());
        for (candidate, verdict) in candidates.into_iter().zip(verdicts) {
            if verdict != Verdict::New {
                seen += 1;
                if self.config.url_cache.count_references {
                    references.push(candidate.key);
                }
                continue;
            }
            let Candidate { url, depth, redirects, hop, .. } = candidate;
            // Most redirected seeds stay where they are. Widening copies the bounds, as pages that are
            // being parsed hold the old ones.
            if hop == HopClass::Seed && self.scope.judge(&url, depth).is_err() {
                Arc::make_mut(&mut self.scope).add_seed(&url);
            }
            let queued = QueuedUrl {
                url,
                rank: model::Rank::default(),
                depth,
                redirects,
                hop,
                via: via.map(CanonicalUrl::shared),
            };
            let QueuedUrl { url, rank, .. } = self.frontier.admit(queued, now);
            admitted.push(Admitted { url, rank, depth, redirects, hop });
        }
        Ok(Intake { admitted, seen, references })
    }

    /// Offers the user's seeds. They become durable with the first group, before anything that
    /// follows from them.
    pub(crate) fn offer_seeds(&mut self, seeds: &[String]) -> Result<(), EngineError> {
        // A record of the journal holds 64 MiB, and a list of seeds may be longer.
        let mut rest = seeds;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(SEEDS_AT_ONCE).take_while(|seed| {
                bytes += seed.len();
                bytes <= SEEDS_BYTES
            });
            let (chunk, others) = rest.split_at(fits.count().max(1));
            self.offer_seed_chunk(chunk)?;
            rest = others;
        }
        Ok(())
    }

    fn offer_seed_chunk(&mut self, seeds: &[String]) -> Result<(), EngineError> {
        let mut candidates = Vec::new();
        let mut refused = Vec::new();
        let mut refuse = |reference: &str, reason: Reason, rule: String| {
            refused.push(Refused { reference: reference.to_owned(), reason, rule, depth: 0 });
        };
        for seed in seeds {
            match parse_seed(seed) {
                Err(error) => {
                    let reason = match error {
                        UrlError::Malformed(_) => Reason::Malformed,
                        UrlError::Scheme => Reason::UnsupportedScheme,
                    };
                    refuse(seed, reason, error.to_string());
                }
                Ok(url) => {
                    if let Err(refusal) = self.scope.judge_seed(&url, 0) {
                        refuse(url.as_str(), refusal.reason, refusal.rule.to_string());
                    } else {
                        let key = url.key();
                        candidates.push(Candidate { url, key, depth: 0, redirects: 0, hop: HopClass::Seed });
                    }
                }
            }
        }
        for Refused { reference, rule, .. } in &refused {
            self.tally.warn(format!("the seed {reference} is refused: {rule}"));
        }
        let Intake { admitted, seen, .. } = self.intake(candidates, None)?;
        let at = self.clock.now();
        let offered = u32::try_from(seeds.len()).unwrap_or(u32::MAX);
        self.record(Record::Seeds { at, offered, seen, admitted, refused }, None, 0)
    }

    /// Divides refusals into those to be written down and those that were lately, which are only
    /// counted: an external link in the navigation would else stand in every page's record.
    pub(crate) fn note_refusals(&mut self, refused: Vec<RefusedCandidate>) -> (Vec<Refused>, Vec<(Reason, u32)>) {
        let mut fresh = Vec::new();
        let mut again: BTreeMap<Reason, u32> = BTreeMap::new();
        for RefusedCandidate { hash, refused } in refused {
            if self.recent_refusals.touch(hash) {
                *again.entry(refused.reason).or_default() += 1;
            } else {
                fresh.push(refused);
            }
        }
        (fresh, again.into_iter().collect())
    }
}

/// A seed as people write them: without a scheme it is taken for an http URL.
///
/// # Errors
/// When it is no URL even so, or one of a scheme that is not fetched.
pub fn parse_seed(seed: &str) -> Result<CanonicalUrl, UrlError> {
    let seed = seed.trim();
    let parsed = CanonicalUrl::parse(seed);
    // `example.org:8080/a` parses as a URL of the scheme `example.org`; `mailto:a@b.c` is what it says.
    let is_host_and_port =
        |(host, port): (&str, &str)| host.contains('.') || port.starts_with(|c: char| c.is_ascii_digit());
    let lacks_scheme = match parsed {
        Ok(_) => false,
        Err(UrlError::Malformed(_)) => !seed.contains("://"),
        Err(UrlError::Scheme) => !seed.contains("://") && seed.split_once(':').is_some_and(is_host_and_port),
    };
    if lacks_scheme { CanonicalUrl::parse(&format!("http://{seed}")).or(parsed) } else { parsed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_as_people_write_them() {
        for (seed, expected) in [
            ("http://example.org", Some("http://example.org/")),
            (" example.org/a ", Some("http://example.org/a")),
            ("example.org:8080/a", Some("http://example.org:8080/a")),
            ("localhost:8080/a", Some("http://localhost:8080/a")),
            ("mailto:a@example.org", None),
            ("not a url", None),
            ("ftp://example.org/", None),
            ("http://", None),
        ] {
            assert_eq!(parse_seed(seed).ok().as_ref().map(CanonicalUrl::as_str), expected, "{seed}");
        }
    }
}
