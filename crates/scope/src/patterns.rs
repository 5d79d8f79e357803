//! Lists of regular expressions: `scope.include` and `scope.exclude`.

use std::sync::Arc;

use model::ConfigError;
use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

/// The most bytes one pattern may take when compiled. The regex crate matches in time linear in the
/// URL for every pattern, so its size is all that is left to bound.
const MAX_COMPILED: usize = 1 << 20;
/// The most bytes all patterns of a list may take together.
const MAX_COMPILED_LIST: usize = 64 << 20;

/// Patterns matched in one pass, each with its rule as the operator finds it in the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Patterns {
    set: RegexSet,
    rules: Vec<Arc<str>>,
}

impl Patterns {
    /// Compiles the patterns of the list that stands under `key`.
    ///
    /// # Errors
    /// Every pattern that does not compile, with the regex crate's words.
    pub(crate) fn new(key: &str, patterns: &[String]) -> Result<Self, ConfigError> {
        let mut problems = ConfigError::default();
        for (index, pattern) in patterns.iter().enumerate() {
            if let Err(error) = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build() {
                problems.require(false, &format!("{key}[{index}]"), error.to_string());
            }
        }
        problems.into_result()?;
        let set = RegexSetBuilder::new(patterns).size_limit(MAX_COMPILED_LIST).build().map_err(|error| {
            let mut problems = ConfigError::default();
            problems.require(false, key, format!("the patterns together: {error}"));
            problems
        })?;
        let rules =
            patterns.iter().enumerate().map(|(index, pattern)| format!("{key}[{index}] = \"{pattern}\"").into());
        Ok(Self { set, rules: rules.collect() })
    }

    /// No pattern was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether any pattern matches somewhere in `text`.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// The rule of the first pattern that matches somewhere in `text`.
    pub(crate) fn find(&self, text: &str) -> Option<&Arc<str>> {
        // Most URLs match nothing; asking which pattern matches allocates, asking whether does not.
        if !self.matches(text) {
            return None;
        }
        self.set.matches(text).iter().next().and_then(|index| self.rules.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], text: &str, expected: Option<&str>) {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let patterns = Patterns::new("list", &patterns).unwrap();
        assert_eq!(patterns.find(text).map(|rule| &**rule), expected, "{text}");
        assert_eq!(patterns.matches(text), expected.is_some());
    }

    #[test]
    fn the_first_match_gives_the_rule() {
        check(&[], "http://a/", None);
        check(&[r"\.pdf$"], "http://a/b.pdf", Some(r#"list[0] = "\.pdf$""#));
        check(&[r"\.pdf$"], "http://a/b.pdf?c", None);
        check(&["x", "b", "a"], "http://a/b", Some(r#"list[1] = "b""#));
    }

    #[test]
    fn patterns_that_are_too_large_are_refused() {
        let error = Patterns::new("list", &["a".to_owned(), r"(\w{100}){100}".to_owned()]).unwrap_err();
        assert_eq!(error.0.len(), 1);
        assert_eq!(error.0[0].key, "list[1]");
        assert!(error.0[0].message.contains("size limit"), "{error}");
    }
}
