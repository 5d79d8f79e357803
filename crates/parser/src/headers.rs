//! Links that stand in the header of an answer.

use model::Headers;

/// One link of a `Link` field (RFC 8288 §3).
#[derive(Debug, PartialEq)]
pub(crate) struct HeaderLink<'a> {
    /// The URI reference between `<` and `>`.
    pub(crate) target: &'a str,
    /// Relations, separated by white space.
    pub(crate) rel: &'a str,
}

/// The links of all `Link` fields of an answer. A link with an `anchor` is one of another page and
/// left out, as RFC 8288 §3.2 permits.
pub(crate) fn links(headers: &Headers) -> impl Iterator<Item = HeaderLink<'_>> {
    headers.all("link").filter_map(|value| std::str::from_utf8(value).ok()).flat_map(|value| Links { rest: value })
}

struct Links<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Links<'a> {
    type Item = HeaderLink<'a>;

    fn next(&mut self) -> Option<HeaderLink<'a>> {
        loop {
            let (target, mut rest) = self.rest.split_once('<')?.1.split_once('>')?;
            let (mut rel, mut has_anchor) = (None, false);
            while let Some(parameter) = rest.trim_start().strip_prefix(';') {
                let name_end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
                let (name, after) = parameter.split_at(name_end);
                let value;
                (value, rest) = match after.strip_prefix('=') {
                    Some(after) => parameter_value(after.trim_start()),
                    None => ("", after),
                };
                let name = name.trim();
                if name.eq_ignore_ascii_case("rel") {
                    rel = rel.or(Some(value));
                }
                has_anchor |= name.eq_ignore_ascii_case("anchor");
            }
            self.rest = rest;
            if let Some(rel) = rel.filter(|_| !has_anchor) {
                return Some(HeaderLink { target: target.trim(), rel });
            }
        }
    }
}

/// A value, quoted or not, and what follows it. Relations hold no escaped quotes, so a backslash
/// only keeps the next character from ending the string.
fn parameter_value(text: &str) -> (&str, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([';', ',']).unwrap_or(text.len()));
        return (value.trim_end(), rest);
    };
    let mut escaped = false;
    let end = quoted.find(|character| {
        let ends = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    });
    match end {
        Some(end) => (&quoted[..end], &quoted[end + 1..]),
        None => (quoted, ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(values: &[&str], expected: &[(&str, &str)]) {
        let mut headers = Headers::default();
        for value in values {
            headers.push("Link", *value);
        }
        let found: Vec<_> = links(&headers).map(|link| (link.target, link.rel)).collect();
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn link_fields_are_read() {
        check(&["</a>; rel=next"], &[("/a", "next")]);
        check(
            &["</a>; rel=\"next prev\", </b> ; title=\"x, <y>; \\\"z\" ;REL = up"],
            &[("/a", "next prev"), ("/b", "up")],
        );
        check(&["</a>;rel=next", "</b>;rel=prev;rel=up"], &[("/a", "next"), ("/b", "prev")]);
        check(&["</a>; rel=next; anchor=\"/x\", </b>; rel=prev"], &[("/b", "prev")]);
        check(&["</a>"], &[]);
        check(&["</a>; crossorigin; rel=next"], &[("/a", "next")]);
        check(&["</a; rel=next", "rel=next", "", "<>; rel=\"x"], &[("", "x")]);
    }

    proptest! {
        #[test]
        fn any_field_is_read(value in "(<|>|;|,|=|\"|\\\\|rel|a| |é){0,40}") {
            let mut headers = Headers::default();
            headers.push("Link", value);
            links(&headers).for_each(drop);
        }
    }
}
