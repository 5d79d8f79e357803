//! `argiope config`.

use std::fmt::Write as _;

use engine::Settings;

use super::{Ended, add_layers, job_settings};
use crate::args::Config;
use crate::printed;

/// Every key, its default, one sentence.
const DEFAULTS: &str = include_str!("../../../config/default.toml");

pub(crate) fn run(args: &Config) -> anyhow::Result<Ended> {
    match args {
        Config::Default => printed::out(DEFAULTS),
        Config::Check { files } => {
            let mut settings = Settings::default();
            for file in files {
                settings.add_file(file)?;
            }
            settings.config()?;
            for file in files {
                printed::out(&format!("{} is fine\n", file.display()));
            }
        }
        Config::Show { job, layers } => {
            let mut settings = job.as_deref().map(job_settings).transpose()?.unwrap_or_default();
            add_layers(&mut settings, layers)?;
            let mut text = String::new();
            let mut section = "";
            let effective = settings.effective()?;
            for entry in &effective {
                let (of, key) = entry.key.split_once('.').unwrap_or(("", &entry.key));
                if of != section {
                    let _ = writeln!(text, "{}[{of}]", if section.is_empty() { "" } else { "\n" });
                    section = of;
                }
                let line = format!("{key} = {}", entry.value);
                let _ = writeln!(text, "{line:<48}  # {}", entry.origin);
            }
            printed::out(&text);
        }
    }
    Ok(Ended::Finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `config/default.toml` equals the code: every key stands there, with its default.
    #[test]
    fn the_default_file_is_the_default() {
        let mut settings = Settings::default();
        settings.add_text(DEFAULTS, "config/default.toml").unwrap();
        assert_eq!(settings.config().unwrap(), engine::Config::default());
        let missing: Vec<_> = settings
            .effective()
            .unwrap()
            .into_iter()
            .filter(|entry| entry.origin == "default")
            .map(|entry| entry.key)
            .collect();
        assert!(missing.is_empty(), "config/default.toml lacks {missing:?}");
    }
}
