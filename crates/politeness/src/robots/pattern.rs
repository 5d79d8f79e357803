//! The path patterns of RFC 9309 §2.2.3.

use crate::robots::percent::{is_plain, push_normalised};

/// Appends a pattern in the form [`matches()`] takes: a `*` stands for any characters, a `$` at the
/// end for the end of the path, and all else is in comparison form.
pub(crate) fn push_pattern(out: &mut String, text: &str) {
    let (body, anchor) = text.strip_suffix('$').map_or((text, ""), |body| (body, "$"));
    push_normalised(out, body, |byte| byte == b'*' || is_plain(byte));
    out.push_str(anchor);
}

/// Whether a pattern matches a path, both in comparison form, in which a path has no `*` and no `$`:
/// so the two part at the latest where the pattern says something special.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let common = pattern.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
    match pattern.as_bytes().get(common) {
        None => true,
        Some(b'$') => common == path.len(),
        Some(b'*') => matches_from_star(&pattern[common..], &path[common..]),
        Some(_) => false,
    }
}

/// [`matches()`] for a pattern that begins with a star.
///
/// The pieces between stars are searched for from left to right, each as early as it occurs. That
/// leaves the most room to the pieces after it, so nothing is ever tried twice: the time is linear
/// in pattern and path together.
fn matches_from_star(pattern: &str, path: &str) -> bool {
    let (body, anchored) = pattern.strip_suffix('$').map_or((pattern, false), |body| (body, true));
    let (pieces, last) = body.rsplit_once('*').unwrap_or(("", body));
    let mut rest = path;
    for piece in pieces.split('*') {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    if anchored { rest.ends_with(last) } else { rest.contains(last) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, path: &str, expected: bool) {
        assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
    }

    #[test]
    fn prefixes_stars_and_ends() {
        check("/", "/a", true);
        check("/exact", "/exact/more", true);
        check("/exact$", "/exact/more", false);
        check("/exact$", "/exact", true);
        check("/a*", "/a", true);
        check("/*/x", "/a/b/x/y", true);
        check("/**/x", "//x", true);
        check("/**/x", "/x", false);
        check("/*ab$", "/abab", true);
        check("/*ab*ab$", "/ab", false);
        check("/ab*ba$", "/aba", false);
        check("/a*$", "/abc", true);
        check("*.gif$", "/a.gif", true);
        check("a", "/a", false);
        check("", "/a", true);
        check("$", "/a", false);
    }

    /// What other matchers miss by searching in the wrong order.
    #[test]
    fn repeated_beginnings_are_found() {
        check("/*sid=", "/shop/item?sort=a&sid=1", true);
        check("/*wp-admin", "/wp/wp-admin/a.php", true);
        check("/*/print.html$", "/foo/print/print.html", true);
        check("*/search.php", "/en/search/search.php", true);
    }

    #[test]
    fn patterns_are_brought_to_comparison_form() {
        for (text, expected) in [
            ("/a*b$", "/a*b$"),
            ("/a$b", "/a%24b"),
            ("/a$$", "/a%24$"),
            ("/a%2A%24", "/a%2A%24"),
            ("/ツ*", "/%E3%83%84*"),
            ("/%62%61%7a", "/baz"),
        ] {
            let mut pattern = String::new();
            push_pattern(&mut pattern, text);
            assert_eq!(pattern, expected);
        }
    }

    /// The slow and obvious matcher: `reach[at]` says whether the pattern so far can end at `at`.
    fn oracle(pattern: &str, path: &str) -> bool {
        let (body, anchored) = pattern.strip_suffix('$').map_or((pattern, false), |body| (body, true));
        let path = path.as_bytes();
        let mut reach = vec![false; path.len() + 1];
        reach[0] = true;
        for byte in body.bytes() {
            let before = reach.clone();
            for at in 0..reach.len() {
                reach[at] = if byte == b'*' {
                    before[..=at].contains(&true)
                } else {
                    at > 0 && before[at - 1] && path[at - 1] == byte
                };
            }
        }
        if anchored { reach[path.len()] } else { reach.contains(&true) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn it_agrees_with_the_oracle(pattern in "/?[ab*/]{0,8}\\$?", path in "/[ab/]{0,12}") {
            prop_assert_eq!(matches(&pattern, &path), oracle(&pattern, &path), "{} on {}", pattern, path);
        }
    }
}
