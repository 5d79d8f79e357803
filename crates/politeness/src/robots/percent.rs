//! One spelling for what RFC 9309 §2.2.2 counts as equal.

use std::borrow::Cow;

/// The form in which paths and rules are compared: characters that RFC 3986 calls unreserved stand
/// as they are, so do its reserved ones where they were written as they are, and all else is
/// percent-encoded in upper case. Idempotent.
///
/// `*` and `$` are encoded as well, as RFC 9309 §2.2.3 writes them where they mean themselves, and
/// so is `'`, which a URL's path keeps and its query encodes.
pub(crate) fn comparison_form(path: &str) -> Cow<'_, str> {
    if path.bytes().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let mut form = String::with_capacity(path.len() + 16);
    push_normalised(&mut form, path, is_plain);
    Cow::Owned(form)
}

/// Whether a character stands as it is in the comparison form. `%` does not: it must be looked at.
pub(crate) fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || b":/?#[]@!&()+,;=".contains(&byte)
}

/// Appends `text`: triplets of unreserved characters decoded, others in upper case; a `%` that opens
/// none, and whatever is not `plain`, encoded.
pub(crate) fn push_normalised(out: &mut String, text: &str, plain: impl Fn(u8) -> bool) {
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%'
            && let [high, low, after @ ..] = rest
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = after;
            let decoded = high << 4 | low;
            if is_unreserved(decoded) { out.push(decoded as char) } else { push_triplet(out, decoded) }
        } else if byte != b'%' && plain(byte) {
            out.push(byte as char);
        } else {
            push_triplet(out, byte);
        }
    }
}

fn push_triplet(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(DIGITS[usize::from(byte >> 4)] as char);
    out.push(DIGITS[usize::from(byte & 15)] as char);
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_paths_have_one_form() {
        for (path, expected) in [
            ("/a/b?c=d&e=f:/g", "/a/b?c=d&e=f:/g"),
            ("/%7Euser/%61", "/~user/a"),
            ("/a%2fb", "/a%2Fb"),
            ("/ツ", "/%E3%83%84"),
            ("/%e3%83%84", "/%E3%83%84"),
            ("/a*b$", "/a%2Ab%24"),
            ("/a%2ab%24", "/a%2Ab%24"),
            ("/it's", "/it%27s"),
            ("/{a b}", "/%7Ba%20b%7D"),
            ("/100%", "/100%25"),
            ("/%%34%31", "/%2541"),
            ("/%4", "/%254"),
        ] {
            assert_eq!(comparison_form(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn the_form_is_a_fixed_point(path in "(%|[0-9a-fA-F]|[*$'/ é]|%[0-9a-fA-F]{2}){0,30}") {
            let once = comparison_form(&path).into_owned();
            prop_assert_eq!(comparison_form(&once), once.as_str());
        }

        /// What the URL's own canonical form has already changed makes no difference.
        #[test]
        fn a_canonical_url_has_the_form_of_the_text_it_came_from(path in "(%|[0-9a-fA-F]|%[0-9a-fA-F]{2}){0,20}") {
            let url = model::CanonicalUrl::parse(&format!("http://h/-{path}")).unwrap();
            let text = format!("/-{path}");
            prop_assert_eq!(comparison_form(url.path_and_query()), comparison_form(&text));
        }
    }
}
