//! Text for pages to be filled with, written once and sliced ever after.

use crate::graph::MAX_SIZE;
use crate::paths::WORDS;
use crate::random::{Draws, Purpose};

/// Bytes of text before the last place a page may start from.
const STARTS_SPAN: usize = 128 * 1024;

/// HTML blocks without links, about 350 bytes each, with the share of tags real pages have.
#[derive(Debug)]
pub(crate) struct Filler {
    text: String,
    /// Where blocks begin, and the end of the last.
    bounds: Vec<usize>,
    /// Blocks a page may start from: after each follows enough for the largest page.
    starts: usize,
}

impl Filler {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, Purpose::Filler, 0, 0);
        let mut text = String::with_capacity(STARTS_SPAN + MAX_SIZE as usize + 8192);
        let mut bounds = vec![0];
        let mut starts = 0;
        while text.len() < STARTS_SPAN + MAX_SIZE as usize + 4096 {
            if text.len() < STARTS_SPAN {
                starts += 1;
            }
            push_block(&mut draws, &mut text);
            bounds.push(text.len());
        }
        Self { text, bounds, starts }
    }

    /// A block for a page to start from.
    pub(crate) fn start(&self, draws: &mut Draws) -> usize {
        draws.below(self.starts as u32) as usize
    }

    /// The blocks from `*block` on that fit into so many bytes; moves `block` past them.
    pub(crate) fn take(&self, block: &mut usize, bytes: usize) -> &str {
        let last = self.bounds.len() - 1;
        let first = (*block).min(last);
        let limit = self.bounds[first] + bytes;
        // Few blocks are taken at a time, so walking beats bisecting.
        let mut end = first;
        while end < last && self.bounds[end + 1] <= limit {
            end += 1;
        }
        *block = end;
        &self.text[self.bounds[first]..self.bounds[end]]
    }
}

fn push_block(draws: &mut Draws, out: &mut String) {
    let (open, close) = draws.choose(&[
        ("<p>", "</p>\n"),
        ("<p>", "</p>\n"),
        ("<p class=\"lead\">", "</p>\n"),
        ("<div class=\"note\"><span class=\"label\">Note</span> ", "</div>\n"),
        ("<ul><li>", "</li></ul>\n"),
        ("<blockquote><p>", "</p></blockquote>\n"),
        ("<h2>Overview</h2>\n<p>", "</p>\n"),
        ("<table><tr><td>1</td><td>", "</td></tr></table>\n"),
    ]);
    out.push_str(open);
    for word in 0..24 + draws.below(48) {
        let text = draws.choose(&WORDS);
        match draws.below(24) {
            0 => out.extend(["<em>", text, "</em>"]),
            1 => out.extend(["<code>", text, "</code>"]),
            2 => out.extend([text, ","]),
            3 => out.extend([text, " &amp; co."]),
            _ => out.push_str(text),
        }
        out.push_str(if word % 12 == 11 { ".\n" } else { " " });
    }
    out.push_str(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_in_order_and_within_bounds() {
        let filler = Filler::new(1);
        let mut block = 3;
        let first = filler.take(&mut block, 1000).to_owned();
        assert!((500..=1000).contains(&first.len()), "{}", first.len());
        assert!(first.starts_with('<') && first.ends_with(">\n"));
        let second = filler.take(&mut block, 2000);
        assert!(filler.text.contains(&[&first, second].concat()));
        assert_eq!(filler.take(&mut block, 0), "");
        assert!(!filler.text.contains("<a "));
    }

    #[test]
    fn the_last_start_can_fill_the_largest_page() {
        let filler = Filler::new(1);
        let mut block = filler.starts - 1;
        assert!(filler.take(&mut block, MAX_SIZE as usize).len() > MAX_SIZE as usize - 1024);
        let mut past_the_end = usize::MAX;
        assert_eq!(filler.take(&mut past_the_end, 10_000), "");
    }
}
