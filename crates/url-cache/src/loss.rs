//! How many pages a trusted filter loses.

use std::collections::BTreeMap;

use model::UrlKey;
use serde::{Deserialize, Serialize};

use crate::filter::{Question, fold};

/// URLs in the sample.
const SAMPLE: usize = 4096;

/// Lost URLs named as examples.
const EXAMPLES: usize = 10;

/// What trusting the filter costs, kept while it is trusted.
///
/// Two figures that know nothing of each other:
///
/// * **Expected.** While the filter takes a share `f` of strangers for members, each URL it lets
///   through stands for `f / (1 − f)` that it did not. The sum over all that came through is the
///   number of different URLs that were lost.
/// * **Sampled.** Of the different URLs it called known, those with the smallest hashes are kept (a
///   bottom-k sketch, Bar-Yossef et al. 2002: a uniform sample of the *different* ones, however often
///   each was asked about, that also tells how many there are). When the crawl ends they are looked up
///   among the URLs that were really queued or fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossEstimate {
    expected: f64,
    sample: BTreeMap<u64, (UrlKey, Box<str>)>,
}

/// What a trusted filter lost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Different URLs that were taken for known and were not, as the filter's fill lets expect.
    pub expected: f64,
    /// The same, as the sample lets expect; `None` until it was looked up.
    pub sampled: Option<f64>,
    /// URLs looked up.
    pub sample: u64,
    /// Of these, URLs that were lost.
    pub missing: u64,
    /// Some of them.
    pub examples: Vec<String>,
}

impl LossEstimate {
    /// The filter let so many through while it took this share of strangers for members.
    pub(crate) fn let_through(&mut self, urls: u64, rate: f64) {
        let rate = rate.clamp(0.0, 0.999_999);
        self.expected += urls as f64 * rate / (1.0 - rate);
    }

    /// The filter called this URL known.
    pub(crate) fn called_known(&mut self, question: &Question<'_>) {
        let place = fold(question.key.url_hash() as u64 ^ 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3);
        if self.sample.len() == SAMPLE {
            if self.sample.last_key_value().is_some_and(|(largest, _)| place >= *largest) {
                return;
            }
            if !self.sample.contains_key(&place) {
                self.sample.pop_last();
            }
        }
        self.sample.entry(place).or_insert_with(|| (question.key, question.url.into()));
    }

    /// The URLs to look up.
    pub(crate) fn sample(&self) -> Vec<UrlKey> {
        self.sample.values().map(|(key, _)| *key).collect()
    }

    /// Different URLs the filter called known.
    fn called_known_in_all(&self) -> f64 {
        match self.sample.last_key_value() {
            // The k-th smallest of N random numbers below 1 is about k/N.
            Some((largest, _)) if self.sample.len() == SAMPLE => {
                (SAMPLE - 1) as f64 / (*largest as f64 / u64::MAX as f64)
            }
            _ => self.sample.len() as f64,
        }
    }

    /// The figures; `known` says of each URL of [`LossEstimate::sample`] whether it was really queued
    /// or fetched, and is empty while nobody has looked.
    pub(crate) fn loss(&self, known: &[bool]) -> Loss {
        let looked_up = known.len() == self.sample.len();
        let lost = || self.sample.values().zip(known).filter(|(_, known)| !**known).map(|((_, url), _)| url);
        let missing = if looked_up { lost().count() as u64 } else { 0 };
        Loss {
            expected: self.expected,
            sampled: looked_up.then(|| missing as f64 * self.called_known_in_all() / known.len().max(1) as f64),
            sample: if looked_up { known.len() as u64 } else { 0 },
            missing,
            examples: if looked_up { lost().take(EXAMPLES).map(ToString::to_string).collect() } else { Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests {
    use model::HostKey;

    use super::*;

    fn question(number: u64, text: &mut String) -> Question<'_> {
        *text = format!("http://a.test/{number}");
        Question { key: UrlKey::new(HostKey::of_origin("http://a.test"), text), url: text }
    }

    #[test]
    fn few_urls_are_counted_exactly_however_often_they_come() {
        let mut estimate = LossEstimate::default();
        for round in 0..3 {
            for number in 0..1000 {
                estimate.called_known(&question(number, &mut String::new()));
            }
            assert_eq!(estimate.sample().len(), 1000, "round {round}");
        }
        let known: Vec<bool> = (0..1000).map(|place| place % 100 != 0).collect();
        let loss = estimate.loss(&known);
        assert_eq!((loss.sampled, loss.missing, loss.sample), (Some(10.0), 10, 1000));
        assert_eq!(loss.examples.len(), 10);
        assert_eq!(estimate.loss(&[]).sampled, None);
    }

    #[test]
    fn many_urls_are_estimated() {
        let mut estimate = LossEstimate::default();
        let mut text = String::new();
        for number in 0..100_000 {
            for _ in 0..=(number % 3) {
                estimate.called_known(&question(number, &mut text));
            }
        }
        // The standard error of a bottom-k sketch of 4096 is 1/√4096 = 1.6 %.
        let all = estimate.called_known_in_all();
        assert!((95_000.0..105_000.0).contains(&all), "{all}");
        // Every fifth is lost: 20 000, and the sample of 4096 is right within a tenth.
        let mut texts = Vec::new();
        for number in 0..100_000_u64 {
            texts.push(question(number, &mut text).key);
        }
        let lost: std::collections::HashSet<UrlKey> = texts.into_iter().step_by(5).collect();
        let known: Vec<bool> = estimate.sample().iter().map(|key| !lost.contains(key)).collect();
        let sampled = estimate.loss(&known).sampled.unwrap();
        assert!((18_000.0..22_000.0).contains(&sampled), "{sampled}");
    }

    #[test]
    fn what_came_through_tells_what_did_not() {
        let mut estimate = LossEstimate::default();
        estimate.let_through(99, 0.01);
        estimate.let_through(100, 0.5);
        assert!((estimate.loss(&[]).expected - 101.0).abs() < 1e-9);
    }
}
