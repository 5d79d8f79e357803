//! `<meta http-equiv=refresh>`.

/// The URL of a refresh (WHATWG HTML §4.2.5.3, "shared declarative refresh steps"); `None` for one
/// that reloads the page itself.
pub(crate) fn refresh_target(content: &str) -> Option<&str> {
    let rest = content.trim_ascii_start();
    let delay = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|_| !rest.is_empty())?;
    if delay == 0 {
        return None;
    }
    let rest = rest[delay..].strip_prefix(|c: char| c.is_ascii_whitespace() || matches!(c, ';' | ','))?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || matches!(c, ';' | ','));
    let named = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url"));
    let target = named.and_then(|_| rest[3..].trim_ascii_start().strip_prefix('=')).map_or(rest, str::trim_ascii_start);
    let target = match target.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(&target[..1]).next().unwrap_or_default(),
        None => target,
    };
    (!target.is_empty()).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_are_read() {
        for (content, expected) in [
            ("0;url=/a", Some("/a")),
            ("5; URL = '/a' x", Some("/a")),
            (" 1.5 , \"/a b\"", Some("/a b")),
            ("0;/a", Some("/a")),
            ("0 url=a=b", Some("a=b")),
            ("0;urlx", Some("urlx")),
            ("5", None),
            ("", None),
            (";url=/a", None),
            ("5x;url=/a", None),
            ("5;url=", None),
        ] {
            assert_eq!(refresh_target(content), expected, "{content:?}");
        }
    }
}
