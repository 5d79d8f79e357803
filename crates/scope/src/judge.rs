//! The decision.

use std::collections::HashSet;
use std::sync::Arc;

use model::{CanonicalUrl, ConfigError, Reason, Refusal, UrlKey};

use crate::ScopeConfig;
use crate::area::Area;
use crate::hosts::HostList;
use crate::patterns::Patterns;

/// The crawl's bounds. Every method but [`Scope::add_seed`] takes `&self`, so threads share it by
/// `Arc`; a clone copies the seeds' hosts.
#[derive(Debug, Clone)]
pub struct Scope {
    max_url_length: usize,
    max_depth: u16,
    area: Area,
    allow_hosts: HostList,
    deny_hosts: HostList,
    include: Patterns,
    exclude: Patterns,
    /// The seeds, whom `include` does not concern. Empty while `include` is: nothing would ask.
    seeds: HashSet<UrlKey>,
    rules: Rules,
}

/// The rules that read the same for every URL.
#[derive(Debug, Clone)]
struct Rules {
    max_url_length: Arc<str>,
    max_depth: Arc<str>,
    include: Arc<str>,
}

impl Scope {
    /// The bounds that `config` draws around `seeds`.
    ///
    /// # Errors
    /// What [`ScopeConfig::check`] finds.
    pub fn new(config: &ScopeConfig, seeds: &[CanonicalUrl]) -> Result<Self, ConfigError> {
        config.check()?;
        let mut scope = Self {
            max_url_length: config.max_url_length,
            max_depth: config.max_depth,
            area: Area::new(config.kind),
            allow_hosts: HostList::new("scope.allow_hosts", &config.allow_hosts)?,
            deny_hosts: HostList::new("scope.deny_hosts", &config.deny_hosts)?,
            include: Patterns::new("scope.include", &config.include)?,
            exclude: Patterns::new("scope.exclude", &config.exclude)?,
            seeds: HashSet::new(),
            rules: Rules {
                max_url_length: format!("scope.max_url_length = {}", config.max_url_length).into(),
                max_depth: format!("scope.max_depth = {}", config.max_depth).into(),
                include: format!("scope.include: none of its {} patterns matches", config.include.len()).into(),
            },
        };
        for seed in seeds {
            scope.add_seed(seed);
        }
        Ok(scope)
    }

    /// Takes in one more seed: it is in scope from now on, and so is what `scope.kind` draws around it.
    pub fn add_seed(&mut self, seed: &CanonicalUrl) {
        self.area.add(seed);
        if !self.include.is_empty() {
            self.seeds.insert(seed.key());
        }
    }

    /// Whether a URL, `depth` links away from a seed, belongs to the crawl.
    ///
    /// # Errors
    /// The first rule that refuses it, in the order the crate's page gives.
    pub fn judge(&self, url: &CanonicalUrl, depth: u16) -> Result<(), Refusal> {
        self.judge_seed(url, depth)?;
        if !self.area.holds(url) && self.allow_hosts.find(url.host()).is_none() {
            return Err(Refusal { reason: Reason::OutOfScope, rule: self.area.rule_against(url) });
        }
        if !self.include.is_empty() && !self.include.matches(url.as_str()) && !self.seeds.contains(&url.key()) {
            return Err(Refusal { reason: Reason::NotIncluded, rule: Arc::clone(&self.rules.include) });
        }
        Ok(())
    }

    /// As [`Scope::judge`], for a URL that is to become a seed: only the rules that not even seeds
    /// are spared.
    ///
    /// # Errors
    /// The first rule that refuses it.
    pub fn judge_seed(&self, url: &CanonicalUrl, depth: u16) -> Result<(), Refusal> {
        let refuse = |reason, rule: &Arc<str>| Err(Refusal { reason, rule: Arc::clone(rule) });
        let text = url.as_str();
        if text.len() > self.max_url_length {
            return refuse(Reason::UrlTooLong, &self.rules.max_url_length);
        }
        if depth > self.max_depth {
            return refuse(Reason::TooDeep, &self.rules.max_depth);
        }
        if let Some(rule) = self.deny_hosts.find(url.host()) {
            return refuse(Reason::DeniedHost, rule);
        }
        if let Some(rule) = self.exclude.find(text) {
            return refuse(Reason::Excluded, rule);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "http://seed.example/start.pdf";

    fn check(config: &str, url: &str, depth: u16, expected: Result<(), (Reason, &str)>) {
        let config: ScopeConfig = toml::from_str(config).unwrap();
        let url = CanonicalUrl::parse(url).unwrap();
        let scope = Scope::new(&config, &[CanonicalUrl::parse(SEED).unwrap()]).unwrap();
        let judged = scope.judge(&url, depth).map_err(|refusal| (refusal.reason, refusal.rule.to_string()));
        assert_eq!(judged, expected.map_err(|(reason, rule)| (reason, rule.to_owned())), "{url} by {config:?}");
    }

    #[test]
    fn each_rule_refuses_in_its_own_words() {
        check("", "https://seed.example/", 100, Ok(()));
        check("", "http://seed.example/", 101, Err((Reason::TooDeep, "scope.max_depth = 100")));
        check(
            "max_url_length = 29",
            "http://seed.example/123456789a",
            0,
            Err((Reason::UrlTooLong, "scope.max_url_length = 29")),
        );
        check("max_url_length = 30", "http://seed.example/123456789a", 0, Ok(()));
        check(
            "deny_hosts = ['x', '.seed.example']",
            "http://seed.example/",
            0,
            Err((Reason::DeniedHost, "scope.deny_hosts[1] = \".seed.example\"")),
        );
        check(
            "exclude = ['x$', '\\?']",
            "http://seed.example/?",
            0,
            Err((Reason::Excluded, "scope.exclude[1] = \"\\?\"")),
        );
        check(
            "",
            "http://other.example:81/",
            1,
            Err((Reason::OutOfScope, "scope.kind = \"host\": other.example:81 is no seed's host")),
        );
        check(
            "kind = 'domain'",
            "http://www.other.example/",
            1,
            Err((Reason::OutOfScope, "scope.kind = \"domain\": other.example is no seed's domain")),
        );
        check(
            "include = ['a', 'b']",
            "http://seed.example/c/d",
            1,
            Ok(()), // The 'a' of "example" is matched: a pattern may match anywhere.
        );
        check(
            "include = ['/a', '/b']",
            "http://seed.example/c/d",
            1,
            Err((Reason::NotIncluded, "scope.include: none of its 2 patterns matches")),
        );
    }

    #[test]
    fn a_directory_is_named_in_the_refusal() {
        let config = ScopeConfig { kind: crate::Kind::Prefix, ..ScopeConfig::default() };
        let scope = Scope::new(&config, &[CanonicalUrl::parse("http://a.example/docs/").unwrap()]).unwrap();
        let refusal = scope.judge(&CanonicalUrl::parse("http://a.example/blog/?q").unwrap(), 1).unwrap_err();
        assert_eq!(&*refusal.rule, "scope.kind = \"prefix\": /blog/ is in no seed's directory on its host");
    }

    /// Each URL breaks the rule before it in the order as well, and that one gives the reason.
    #[test]
    fn the_order_is_fixed() {
        let config =
            "max_url_length = 40\nmax_depth = 1\ndeny_hosts = ['denied.example']\nexclude = ['no']\ninclude = ['/yes']";
        let long = "http://denied.example/no/a-long-way-beyond-forty-bytes";
        check(config, long, 2, Err((Reason::UrlTooLong, "scope.max_url_length = 40")));
        check(config, "http://denied.example/no", 2, Err((Reason::TooDeep, "scope.max_depth = 1")));
        check(
            config,
            "http://denied.example/no",
            1,
            Err((Reason::DeniedHost, "scope.deny_hosts[0] = \"denied.example\"")),
        );
        check(config, "http://other.example/no", 1, Err((Reason::Excluded, "scope.exclude[0] = \"no\"")));
        check(
            config,
            "http://other.example/maybe",
            1,
            Err((Reason::OutOfScope, "scope.kind = \"host\": other.example is no seed's host")),
        );
        check(
            config,
            "http://seed.example/maybe",
            1,
            Err((Reason::NotIncluded, "scope.include: none of its 1 patterns matches")),
        );
        check(config, "http://seed.example/yes", 1, Ok(()));
    }

    #[test]
    fn allowed_hosts_widen_and_nothing_else() {
        let allow = "allow_hosts = ['.cdn.example']";
        check(allow, "http://a.cdn.example/x.pdf", 1, Ok(()));
        check(
            &format!("{allow}\ndeny_hosts = ['a.cdn.example']"),
            "http://a.cdn.example/",
            1,
            Err((Reason::DeniedHost, "scope.deny_hosts[0] = \"a.cdn.example\"")),
        );
        check(
            &format!("{allow}\nexclude = ['cdn']"),
            "http://a.cdn.example/",
            1,
            Err((Reason::Excluded, "scope.exclude[0] = \"cdn\"")),
        );
        check(
            &format!("{allow}\ninclude = ['/i']"),
            "http://a.cdn.example/",
            1,
            Err((Reason::NotIncluded, "scope.include: none of its 1 patterns matches")),
        );
    }

    #[test]
    fn seeds_need_not_be_included_but_may_be_excluded() {
        check("include = ['html$']", SEED, 0, Ok(()));
        check("exclude = ['pdf$']", SEED, 0, Err((Reason::Excluded, "scope.exclude[0] = \"pdf$\"")));
        check(
            "deny_hosts = ['seed.example']",
            SEED,
            0,
            Err((Reason::DeniedHost, "scope.deny_hosts[0] = \"seed.example\"")),
        );
    }

    #[test]
    fn a_later_seed_widens_the_scope() {
        let config: ScopeConfig = toml::from_str("include = ['html$']").unwrap();
        let mut scope = Scope::new(&config, &[]).unwrap();
        let seed = CanonicalUrl::parse(SEED).unwrap();
        assert_eq!(scope.judge(&seed, 0).unwrap_err().reason, Reason::OutOfScope);
        scope.add_seed(&seed);
        assert_eq!(scope.judge(&seed, 0), Ok(()));
        assert_eq!(scope.judge(&CanonicalUrl::parse("http://seed.example/a.html").unwrap(), 1), Ok(()));
    }

    #[test]
    fn a_bad_configuration_makes_no_scope() {
        let config = ScopeConfig { exclude: vec!["(".into()], ..ScopeConfig::default() };
        assert_eq!(Scope::new(&config, &[]).unwrap_err().0[0].key, "scope.exclude[0]");
    }
}
