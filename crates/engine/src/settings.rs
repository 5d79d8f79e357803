//! The way from files and options to a [`Config`], keeping where each value came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::Config;

/// A configuration that cannot be used. Nothing was touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file could not be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not TOML, or a key or value in it is not one of ours.
    #[error("{origin}: {message}")]
    Invalid {
        /// File and line, or the option.
        origin: String,
        /// What is wrong, and the nearest known key.
        message: String,
    },
    /// Values that cannot be.
    #[error("{0}")]
    Values(#[from] model::ConfigError),
}

/// Layers of configuration, later over earlier, each checked alone as it is added.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    table: Table,
    origins: BTreeMap<String, String>,
}

impl Settings {
    /// Lays a file over what there is.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, or has an unknown key.
    pub fn add_file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
        self.add_text(&text, &path.display().to_string())
    }

    /// Lays the text of a file over what there is; `name` stands for it in messages.
    ///
    /// # Errors
    /// When it is not TOML, or has an unknown key.
    pub fn add_text(&mut self, text: &str, name: &str) -> Result<(), SettingsError> {
        let invalid = |error: &toml::de::Error| SettingsError::Invalid {
            origin: match error.span() {
                Some(span) => format!("{name}:{}", line_of(text, span.start)),
                None => name.to_owned(),
            },
            message: explain(error.message()),
        };
        toml::from_str::<Config>(text).map_err(|error| invalid(&error))?;
        let table: Table = toml::from_str(text).map_err(|error| invalid(&error))?;
        self.merge(table, name);
        Ok(())
    }

    /// Lays one `section.key=value` over what there is. The value is TOML; what is not TOML is
    /// taken as text, so that quotes may be left out.
    ///
    /// # Errors
    /// When there is no `=`, no such key, or no such value.
    pub fn add_assignment(&mut self, assignment: &str) -> Result<(), SettingsError> {
        let origin = format!("--set {assignment}");
        let invalid = |message: String| SettingsError::Invalid { origin: origin.clone(), message };
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| invalid("expected section.key=value, such as politeness.min_delay=2s".to_owned()))?;
        let (key, text) = (key.trim(), text.trim());
        let parsed =
            toml::from_str::<Table>(&format!("value = {text}")).ok().and_then(|mut table| table.remove("value"));
        let check = |value: &Value| -> Result<Table, String> {
            let mut table = Table::new();
            insert_path(&mut table, key, value.clone());
            match table.clone().try_into::<Config>() {
                Ok(_) => Ok(table),
                Err(error) => Err(explain(error.message())),
            }
        };
        let as_text = Value::String(text.to_owned());
        let table = match parsed {
            // `2` may be meant as text, where the key wants text.
            Some(value) => check(&value).or_else(|message| check(&as_text).map_err(|_| message)),
            None => check(&as_text),
        };
        let table = table.map_err(invalid)?;
        match (parts(key).collect::<Vec<_>>().as_slice(), at_path(&table, key)) {
            // Tables below a section are values, but one entry of them is set beside the others.
            ([section, name, _], Some(value)) => {
                insert_path(&mut self.table, key, value.clone());
                self.origins.insert(format!("{section}.{name}"), "--set".to_owned());
            }
            _ => self.merge(table, "--set"),
        }
        Ok(())
    }

    /// The configuration these layers make over the defaults.
    ///
    /// # Errors
    /// When values cannot be: all of them at once.
    pub fn config(&self) -> Result<Config, SettingsError> {
        let config: Config = self.table.clone().try_into().map_err(|error: toml::de::Error| {
            SettingsError::Invalid { origin: "the configuration".to_owned(), message: explain(error.message()) }
        })?;
        config.check()?;
        Ok(config)
    }

    /// Every key with its effective value and where that came from, sorted.
    ///
    /// # Errors
    /// As [`Settings::config`].
    pub fn effective(&self) -> Result<Vec<Effective>, SettingsError> {
        let whole = Table::try_from(self.config()?).map_err(|error| SettingsError::Invalid {
            origin: "the configuration".to_owned(),
            message: error.to_string(),
        })?;
        let mut values = BTreeMap::new();
        flatten("", &Value::Table(whole), &mut values);
        Ok(values
            .into_iter()
            .map(|(key, value)| {
                let origin = self.origins.get(&key).map_or("default", String::as_str).to_owned();
                Effective { key, value: value.to_string(), origin }
            })
            .collect())
    }

    fn merge(&mut self, table: Table, origin: &str) {
        let mut values = BTreeMap::new();
        flatten("", &Value::Table(table), &mut values);
        for (key, value) in values {
            insert_path(&mut self.table, &key, value);
            self.origins.insert(key, origin.to_owned());
        }
    }
}

/// One key of the effective configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// `section.key`.
    pub key: String,
    /// Its value as TOML.
    pub value: String,
    /// "default", a file's name, or "--set".
    pub origin: String,
}

/// Tables below the second level are values: `downloader.resolve`, `parser.fields`.
fn flatten(prefix: &str, value: &Value, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Table(table) if !prefix.contains('.') => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&path, value, values);
            }
        }
        value => {
            values.insert(prefix.to_owned(), value.clone());
        }
    }
}

/// Section, key, and what is left: names below a key may have dots of their own.
fn parts(path: &str) -> std::str::SplitN<'_, char> {
    path.splitn(3, '.')
}

fn at_path<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut parts = parts(path);
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_table()?.get(part))
}

fn insert_path(table: &mut Table, path: &str, value: Value) {
    let mut parts = parts(path).peekable();
    let mut inner = table;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            inner.insert(part.to_owned(), value);
            return;
        }
        let next = inner.entry(part.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(next) = next else { return };
        inner = next;
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// Serde's message; where it lists the known names, the one nearest to the unknown is proposed.
fn explain(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown ").then(|| names.next()).flatten();
    let Some(unknown) = unknown else { return message.trim_end().to_owned() };
    let kind = if message.starts_with("unknown variant") { "value" } else { "key" };
    let known: Vec<&str> = names.collect();
    let nearest = known.iter().min_by_key(|name| edit_distance(unknown, name));
    match nearest {
        Some(nearest) if edit_distance(unknown, nearest) <= unknown.len().max(nearest.len()) / 2 => {
            format!("unknown {kind} `{unknown}`: did you mean `{nearest}`?")
        }
        _ => format!("unknown {kind} `{unknown}`; known are {}", known.join(", ")),
    }
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Settings::default().add_text(text, "my.toml").unwrap_err().to_string()
    }

    #[test]
    fn unknown_keys_are_refused_with_line_and_nearest_key() {
        assert_eq!(
            problem("[crawl]\nmax_pages = 1\nmax_page = 2\n"),
            "my.toml:3: unknown key `max_page`: did you mean `max_pages`?"
        );
        assert_eq!(problem("[crwal]\n"), "my.toml:1: unknown key `crwal`: did you mean `crawl`?");
        assert!(problem("[url_cache]\nfilter = \"blom\"").contains("did you mean `bloom`?"));
        assert!(problem("[crawl]\nmax_duration = \"soon\"").starts_with("my.toml:2: \"soon\" is not a duration"));
        assert!(problem("[crawl\n").starts_with("my.toml:1: "));
        assert!(problem("[crawl]\nzzzzzzzzzzzzzzzzzz = 1").contains("known are "));
    }

    #[test]
    fn later_layers_win_and_are_named() {
        let mut settings = Settings::default();
        settings.add_text("[crawl]\nmax_pages = 1\ncontact = \"a\"", "one.toml").unwrap();
        settings.add_text("[crawl]\nmax_pages = 2", "two.toml").unwrap();
        settings.add_assignment("politeness.min_delay=250ms").unwrap();
        settings.add_assignment("crawl.contact = 7").unwrap();
        let config = settings.config().unwrap();
        assert_eq!(config.crawl.max_pages, 2);
        assert_eq!(config.crawl.contact, "7");
        assert_eq!(config.politeness.min_delay.to_string(), "250ms");
        settings.add_assignment("parser.fields.a=h1").unwrap();
        settings.add_assignment("parser.fields.b=h2").unwrap();
        settings.add_assignment("downloader.resolve.www.a.test=127.0.0.1").unwrap();
        settings.add_assignment("crawl={max_bytes = \"1KiB\"}").unwrap();
        let config = settings.config().unwrap();
        assert_eq!(config.crawl.max_pages, 2, "the rest of the section stays");
        assert_eq!(config.parser.fields.len(), 2);
        assert_eq!(config.downloader.resolve.get("www.a.test").map(String::as_str), Some("127.0.0.1"));
        let effective = settings.effective().unwrap();
        let origin = |key: &str| effective.iter().find(|entry| entry.key == key).unwrap().origin.as_str();
        assert_eq!(origin("crawl.max_pages"), "two.toml");
        assert_eq!(origin("crawl.contact"), "--set");
        assert_eq!(origin("crawl.user_agent"), "default");
    }

    #[test]
    fn assignments_are_checked() {
        let problem = |text: &str| Settings::default().add_assignment(text).unwrap_err().to_string();
        assert_eq!(
            problem("crawl.max_pagez=1"),
            "--set crawl.max_pagez=1: unknown key `max_pagez`: did you mean `max_pages`?"
        );
        assert!(problem("crawl.max_pages").contains("expected section.key=value"));
        assert!(problem("crawl.max_pages=many").contains("invalid type"));
    }

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("max_page", "max_pages", 1)] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }
}
