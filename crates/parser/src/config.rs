//! The section `[parser]`.

use std::collections::BTreeMap;

use model::ConfigError;
use serde::{Deserialize, Serialize};

use crate::fields::FieldSelector;

/// What is read from a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParserConfig {
    /// Distinct references kept per page; the rest are counted and dropped.
    pub max_links: u32,
    /// Elements nested deeper than this: the page's fields are not read (its links are).
    pub max_nesting: u32,
    /// Honour `rel=nofollow`, the robots meta element and the X-Robots-Tag header: links they name are not followed.
    pub nofollow: bool,
    /// Fields kept of every page: a name, and a CSS selector for their text or `selector@attribute` for an attribute.
    pub fields: BTreeMap<String, String>,
}

/// A DOM costs time quadratic in its depth: 5 000 nested elements take 43 ms, 40 000 take 2.2 s.
const NESTING_CEILING: u32 = 4096;

impl Default for ParserConfig {
    fn default() -> Self {
        Self { max_links: 10_000, max_nesting: 512, nofollow: true, fields: BTreeMap::new() }
    }
}

impl ParserConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// With all of them, each under its full key.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.field_selectors().map(drop)
    }

    /// The fields, their selectors compiled, in the order of the configuration; what
    /// [`ParserConfig::check`] finds, if it finds something.
    pub(crate) fn field_selectors(&self) -> Result<Vec<FieldSelector>, ConfigError> {
        let mut error = ConfigError::default();
        error.require(self.max_links > 0, "parser.max_links", "write at least 1");
        error.require(
            (1..=NESTING_CEILING).contains(&self.max_nesting),
            "parser.max_nesting",
            format!("write a number from 1 to {NESTING_CEILING}"),
        );
        let mut selectors = Vec::with_capacity(self.fields.len());
        for (name, rule) in &self.fields {
            match FieldSelector::new(name, rule) {
                Ok(selector) => selectors.push(selector),
                Err(message) => error.require(false, &format!("parser.fields.{name}"), message),
            }
        }
        error.into_result().map(|()| selectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &ParserConfig, keys: &[&str]) {
        let found: Vec<String> = match config.check() {
            Ok(()) => Vec::new(),
            Err(error) => error.0.into_iter().map(|problem| problem.key).collect(),
        };
        assert_eq!(found, keys);
    }

    #[test]
    fn every_impossible_value_is_found_at_once() {
        check(&ParserConfig::default(), &[]);
        let fields = [("author", "meta[name=author]@content"), ("bad", "h1["), ("empty", "")];
        check(
            &ParserConfig {
                max_links: 0,
                max_nesting: 0,
                nofollow: false,
                fields: fields.map(|(name, rule)| (name.to_owned(), rule.to_owned())).into(),
            },
            &["parser.max_links", "parser.max_nesting", "parser.fields.bad", "parser.fields.empty"],
        );
        check(&ParserConfig { max_nesting: 5000, ..ParserConfig::default() }, &["parser.max_nesting"]);
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(serde_json::from_str::<ParserConfig>(r#"{"max_link": 1}"#).is_err());
        let config: ParserConfig = serde_json::from_str(r#"{"max_links": 1}"#).unwrap();
        assert_eq!(config, ParserConfig { max_links: 1, ..ParserConfig::default() });
    }
}
