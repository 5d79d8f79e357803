//! Bytes to lines that are safe to parse.
//!
//! The `robotstxt` package reads the lines, so that its tolerance for typing errors is Google's. It
//! is given only text on which it is known to be right: its line clipping panics or loses a line
//! beside characters of more than one byte, its skipping of a BOM takes the mark for three
//! characters, and its percent-encoding loses what follows a `%` that opens no triplet. All three
//! are done here, before it; what reaches it is ASCII in short lines, which it leaves as it is.

use crate::robots::percent::push_normalised;

/// What is read of a robots.txt: the 500 KiB that RFC 9309 §2.5 asks for at least.
const MAX_BYTES: usize = 500 << 10;
/// What is read of a line; the package clips at 16 663.
const MAX_LINE: usize = 16_000;

/// Makes a file ready for the parser: as many lines as before, each ended by `\n`, in ASCII.
pub(crate) fn sanitise(file: &[u8]) -> String {
    let file = match file.get(..MAX_BYTES) {
        // A line that was cut in two says something its author did not.
        Some(head) if file.len() > MAX_BYTES => {
            let end = head.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
            &head[..end]
        }
        _ => file,
    };
    let text = String::from_utf8_lossy(file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file));
    let mut lines = String::with_capacity(text.len() + 1);
    for line in text.replace("\r\n", "\n").split(['\n', '\r']) {
        let start = lines.len();
        push_normalised(&mut lines, line.trim(), |byte| byte.is_ascii());
        if lines.len() > start + MAX_LINE {
            // In what is normalised, each `%` opens a triplet, which is not to be cut in two either.
            let tail = start + MAX_LINE - 2;
            let end = lines[tail..tail + 2].find('%').map_or(start + MAX_LINE, |at| tail + at);
            lines.truncate(end);
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(file: &[u8], expected: &str) {
        assert_eq!(sanitise(file), expected, "{:?}", String::from_utf8_lossy(file));
    }

    #[test]
    fn lines_are_kept_and_made_ascii() {
        check(b"", "\n");
        check(b"a\r\nb\rc\n\nd", "a\nb\nc\n\nd\n");
        check("\u{feff}a: ツ".as_bytes(), "a: %E3%83%84\n");
        check(b" a : %7e%2f% ", "a : ~%2F%25\n");
        check(b"a\xff", "a%EF%BF%BD\n");
        check(b"\0#", "\0#\n");
    }

    #[test]
    fn long_lines_are_clipped_between_triplets() {
        // An `é` is two triplets.
        for (prefix, expected) in [(MAX_LINE - 6, MAX_LINE), (MAX_LINE - 5, MAX_LINE - 2), (MAX_LINE - 4, MAX_LINE - 1)]
        {
            let safe = sanitise(format!("{}{}\nnext", "a".repeat(prefix), "é".repeat(MAX_LINE)).as_bytes());
            let (clipped, next) = safe.split_once('\n').unwrap();
            assert_eq!((clipped.len(), next), (expected, "next\n"), "{prefix}");
        }
    }

    #[test]
    fn a_file_is_cut_after_its_last_whole_line() {
        let mut file = b"Disallow: /first\n".to_vec();
        file.resize(MAX_BYTES - 10, b'#');
        file.extend_from_slice(b"\nDisallow: /private/\n");
        let safe = sanitise(&file);
        assert!(safe.starts_with("Disallow: /first\n"));
        assert!(!safe.contains("Disallow: /p") && !safe.contains("\nDis"));
        check(&vec![b'a'; MAX_BYTES + 1], "\n");
    }

    proptest! {
        #[test]
        fn anything_becomes_short_ascii_lines(file in prop::collection::vec(any::<u8>(), 0..300)) {
            let safe = sanitise(&file);
            prop_assert!(safe.is_ascii() && !safe.contains('\r'));
            let text = String::from_utf8_lossy(&file).replace("\r\n", "\n");
            prop_assert_eq!(safe.split('\n').count(), text.split(['\n', '\r']).count() + 1);
        }
    }
}
