//! The references of a page while it is read: each distinct text once.

use hashbrown::HashTable;
use model::HopClass;
use xxhash_rust::xxh3::xxh3_64;

/// What the scratch memory shrinks to after a page that needed more: it serves all but one page in
/// thousands without growing.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_REFERENCES: usize = 1 << 14;

/// What a reference is resolved against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Against {
    /// The page's base URL, as HTML's references are.
    Base,
    /// The page's own URL, as those of its header are (RFC 8288 §3.1).
    Page,
}

/// One distinct reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reference<'a> {
    /// Trimmed, character references decoded, without fragment.
    pub(crate) text: &'a str,
    /// What it is resolved against.
    pub(crate) against: Against,
    /// How it was linked first.
    pub(crate) hop: HopClass,
    /// Whether every link with it says `rel=nofollow`.
    pub(crate) nofollow: bool,
    /// How often it stands on the page.
    pub(crate) count: u32,
}

/// The distinct references of a page, in the order of their first occurrence. Their texts stand end
/// to end in one string, so that a link costs no allocation.
#[derive(Debug)]
pub(crate) struct References {
    text: String,
    entries: Vec<Entry>,
    /// Indices into `entries`, found by text and [`Against`].
    table: HashTable<u32>,
    limit: usize,
    dropped: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    end: usize,
    hash: u64,
    against: Against,
    hop: HopClass,
    nofollow: bool,
    count: u32,
}

impl References {
    /// An empty list that keeps at most `limit` distinct references.
    pub(crate) fn new(limit: u32) -> Self {
        Self { text: String::new(), entries: Vec::new(), table: HashTable::new(), limit: limit as usize, dropped: 0 }
    }

    /// Makes the list empty for the next page.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.entries.clear();
        self.entries.shrink_to(KEPT_REFERENCES);
        self.table.clear();
        self.table.shrink_to(KEPT_REFERENCES, |_| unreachable!("the table was just cleared"));
        self.dropped = 0;
    }

    /// Adds an occurrence of a reference. The fragment is cut off, since no fragment is ever sent:
    /// an index page's thousand links into ten pages are ten references.
    pub(crate) fn add(&mut self, text: &str, against: Against, hop: HopClass, nofollow: bool) {
        let text = text.trim_matches(|character: char| character <= ' ');
        let text = memchr::memchr(b'#', text.as_bytes()).map_or(text, |fragment| &text[..fragment]);
        let hash = xxh3_64(text.as_bytes());
        let Self { text: all, entries, table, limit, dropped } = self;
        let entry_at = |index: u32| entries[index as usize];
        let same = |index: &u32| {
            let entry = entry_at(*index);
            entry.hash == hash && entry.against == against && all[entry.start..entry.end] == *text
        };
        if let Some(&index) = table.find(hash, same) {
            let entry = &mut entries[index as usize];
            entry.count = entry.count.saturating_add(1);
            entry.nofollow &= nofollow;
        } else if entries.len() < *limit {
            table.insert_unique(hash, entries.len() as u32, |index| entry_at(*index).hash);
            let start = all.len();
            all.push_str(text);
            entries.push(Entry { start, end: all.len(), hash, against, hop, nofollow, count: 1 });
        } else {
            *dropped = dropped.saturating_add(1);
        }
    }

    /// The distinct references.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Reference<'_>> {
        self.entries.iter().map(|&Entry { start, end, against, hop, nofollow, count, .. }| Reference {
            text: &self.text[start..end],
            against,
            hop,
            nofollow,
            count,
        })
    }

    /// How many occurrences were dropped because the list was full.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_list_without_repetitions(
            added in proptest::collection::vec(("[ab]{0,2}(#[ab])?", any::<bool>(), any::<bool>()), 0..60),
            limit in 1_u32..8,
        ) {
            let mut references = References::new(limit);
            // What an earlier page left must not shine through.
            references.add("left over", Against::Base, HopClass::Redirect, true);
            references.clear();

            let mut expected: Vec<(String, Against, bool, u32)> = Vec::new();
            let mut dropped = 0;
            for (text, header, nofollow) in &added {
                let against = if *header { Against::Page } else { Against::Base };
                references.add(&format!(" {text}\n"), against, HopClass::Navigation, *nofollow);
                let text = text.split('#').next().unwrap();
                if let Some(entry) = expected.iter_mut().find(|entry| entry.0 == text && entry.1 == against) {
                    entry.2 &= nofollow;
                    entry.3 += 1;
                } else if expected.len() < limit as usize {
                    expected.push((text.to_owned(), against, *nofollow, 1));
                } else {
                    dropped += 1;
                }
            }
            let found: Vec<_> =
                references.iter().map(|it| (it.text.to_owned(), it.against, it.nofollow, it.count)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(references.dropped(), dropped);
        }
    }
}
