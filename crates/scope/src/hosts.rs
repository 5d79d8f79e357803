//! Lists of host names: `scope.allow_hosts` and `scope.deny_hosts`.

use std::collections::HashMap;
use std::sync::Arc;

use model::ConfigError;
use url::Host;

/// Host names, and names with every host beneath them. A look-up costs one hash per label of the
/// host asked for, however long the list is.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostList {
    entries: HashMap<Box<str>, Entry>,
}

/// What the list says of one name: the rules, as the operator finds them in the configuration.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// `name` stands in the list.
    itself: Option<Arc<str>>,
    /// `.name` stands in the list.
    beneath: Option<Arc<str>>,
}

impl HostList {
    /// Reads the entries of the list that stands under `key`.
    ///
    /// # Errors
    /// Every entry that names no host.
    pub(crate) fn new(key: &str, entries: &[String]) -> Result<Self, ConfigError> {
        let mut list = Self::default();
        let mut problems = ConfigError::default();
        for (index, text) in entries.iter().enumerate() {
            let (name, beneath) = text.strip_prefix('.').map_or((text.as_str(), false), |name| (name, true));
            match Host::parse(name.trim_end_matches('.')) {
                // The host parser takes a star for a letter like any other.
                Ok(host) if !name.contains('*') => {
                    let entry = list.entries.entry(host.to_string().into()).or_default();
                    let rule = if beneath { &mut entry.beneath } else { &mut entry.itself };
                    rule.get_or_insert_with(|| format!("{key}[{index}] = \"{text}\"").into());
                }
                _ => problems.require(
                    false,
                    &format!("{key}[{index}]"),
                    format!(
                        "{text:?} names no host: write a name without scheme, port or path, such as \
                         \"example.org\", or \".example.org\" for it and every host beneath it"
                    ),
                ),
            }
        }
        problems.into_result().map(|()| list)
    }

    /// The rule that names `host`, the most specific one where several do.
    pub(crate) fn find(&self, host: &str) -> Option<&Arc<str>> {
        if self.entries.is_empty() {
            return None;
        }
        // `example.org.` is `example.org`, and must not slip past a rule for it.
        let host = host.trim_end_matches('.');
        if let Some(rule) = self.entries.get(host).and_then(|entry| entry.itself.as_ref()) {
            return Some(rule);
        }
        let mut name = Some(host);
        while let Some(suffix) = name {
            if let Some(rule) = self.entries.get(suffix).and_then(|entry| entry.beneath.as_ref()) {
                return Some(rule);
            }
            name = suffix.split_once('.').map(|(_, rest)| rest);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entries: &[&str], host: &str, expected: Option<usize>) {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        let list = HostList::new("hosts", &entries).unwrap();
        let expected = expected.map(|index| format!("hosts[{index}] = \"{}\"", entries[index]));
        assert_eq!(list.find(host).map(ToString::to_string), expected, "{host} in {entries:?}");
    }

    #[test]
    fn names_and_what_lies_beneath_them() {
        check(&[], "a.example", None);
        check(&["a.example"], "a.example", Some(0));
        check(&["a.example"], "b.a.example", None);
        check(&["a.example"], "ba.example", None);
        check(&[".a.example"], "a.example", Some(0));
        check(&[".a.example"], "c.b.a.example", Some(0));
        check(&[".a.example"], "ba.example", None);
        check(&[".a.example", "a.example", ".b.a.example"], "a.example", Some(1));
        check(&[".a.example", "a.example", ".b.a.example"], "x.b.a.example", Some(2));
        check(&["a.example", "A.EXAMPLE"], "a.example", Some(0));
        check(&["a.example"], "a.example.", Some(0));
        check(&["a.example."], "a.example", Some(0));
        check(&["bücher.example"], "xn--bcher-kva.example", Some(0));
        check(&["[2001:DB8::1]"], "[2001:db8::1]", Some(0));
        check(&["127.1"], "127.0.0.1", Some(0));
        check(&[".example"], "..", None);
    }
}
