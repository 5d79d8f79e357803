//! Where the report goes: Markdown to the terminal, and with `--out` also to `report.md`, with the raw
//! figures as lines of JSON in `raw.jsonl`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The two forms of the report.
pub(crate) struct Output {
    markdown: Option<File>,
    raw: Option<File>,
}

impl Output {
    /// Appends to the files of a folder, so that modes run one by one make one report.
    pub(crate) fn new(folder: Option<&Path>) -> io::Result<Self> {
        let Some(folder) = folder else { return Ok(Self { markdown: None, raw: None }) };
        fs::create_dir_all(folder)?;
        let open = |name| OpenOptions::new().create(true).append(true).open(folder.join(name));
        Ok(Self { markdown: Some(open("report.md")?), raw: Some(open("raw.jsonl")?) })
    }

    fn write(&mut self, text: &str) {
        io::stdout().write_all(text.as_bytes()).expect("the terminal takes the report");
        if let Some(file) = &mut self.markdown {
            file.write_all(text.as_bytes()).expect("the report can be written");
        }
    }

    pub(crate) fn title(&mut self, title: &str) {
        self.write(&format!("\n## {title}\n\n"));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.write(&format!("\n{text}\n\n"));
    }

    /// The head of a table: the first column is text, the others are figures.
    pub(crate) fn head(&mut self, cells: &[String]) {
        self.line(cells);
        self.write(&format!("|---|{}\n", "---:|".repeat(cells.len().saturating_sub(1))));
    }

    pub(crate) fn line(&mut self, cells: &[String]) {
        self.write(&format!("| {} |\n", cells.join(" | ")));
    }

    pub(crate) fn raw(&mut self, value: &serde_json::Value) {
        if let Some(file) = &mut self.raw {
            writeln!(file, "{value}").expect("the raw figures can be written");
        }
    }
}
