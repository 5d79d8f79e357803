//! Which relations lead to a page.

/// Link relations that lead to a page: those of HTML 4 and of RFC 8288's registry that a person
/// could follow. What a page is shown with (`stylesheet`, `icon`, `preload`), what only warms
/// connections (`preconnect`, `dns-prefetch`) and what machines talk to (`pingback`, `edituri`) is
/// none. A `stylesheet` stays one when it is also `alternate`.
pub const PAGE_RELATIONS: [&str; 24] = [
    "alternate",
    "amphtml",
    "appendix",
    "author",
    "bookmark",
    "canonical",
    "chapter",
    "contents",
    "copyright",
    "first",
    "glossary",
    "help",
    "index",
    "last",
    "license",
    "next",
    "prev",
    "previous",
    "section",
    "shortlink",
    "start",
    "subsection",
    "top",
    "up",
];

/// Whether relations, separated by white space, lead to a page.
pub(crate) fn leads_to_page(rel: &str) -> bool {
    let is_page = |token: &str| PAGE_RELATIONS.iter().any(|relation| token.eq_ignore_ascii_case(relation));
    rel.split_ascii_whitespace().any(is_page) && !has_relation(rel, "stylesheet")
}

/// Whether relations, separated by white space, name this one.
pub(crate) fn has_relation(rel: &str, relation: &str) -> bool {
    rel.split_ascii_whitespace().any(|token| token.eq_ignore_ascii_case(relation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_told_apart() {
        for (rel, expected) in [
            ("next", true),
            ("NOFOLLOW Next", true),
            ("stylesheet", false),
            ("alternate stylesheet", false),
            ("icon", false),
            ("preload prefetch dns-prefetch", false),
            ("", false),
        ] {
            assert_eq!(leads_to_page(rel), expected, "{rel:?}");
        }
    }
}
