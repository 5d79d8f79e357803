//! What went wrong, in the words of [`FailureKind`].

use std::error::Error;
use std::{fmt, io, iter};

use model::FailureKind;

/// A fetch that ended without an answer, and a look-up that ended without an address.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

/// A failed look-up travels through reqwest as an error, and is found again by [`classify`].
impl Error for Failure {}

/// Longest detail kept, in bytes: some errors quote what the server sent.
const MAX_DETAIL: usize = 300;

/// Reads a failure off reqwest's error and the errors behind it.
pub(crate) fn classify(error: &reqwest::Error) -> Failure {
    if let Some(failure) = causes(error).find_map(|cause| cause.downcast_ref::<Failure>()) {
        return failure.clone();
    }
    let connecting = error.is_connect();
    let kind = causes(error).find_map(|cause| kind_of(cause, connecting)).unwrap_or(match connecting {
        true if error.is_timeout() => FailureKind::ConnectTimeout,
        true => FailureKind::ConnectFailed,
        false => FailureKind::Protocol,
    });
    Failure { kind, detail: describe(error) }
}

/// What one error in the chain says by itself, from the outside in; `None` leaves it to the next.
fn kind_of(cause: &(dyn Error + 'static), connecting: bool) -> Option<FailureKind> {
    if cause.is::<rustls::Error>() {
        return Some(FailureKind::Tls);
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return kind_of_io(error, connecting);
    }
    let error = cause.downcast_ref::<hyper::Error>()?;
    if error.is_parse() {
        Some(FailureKind::Protocol)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some(FailureKind::Disconnected)
    } else {
        None
    }
}

/// I/O errors wrap other errors, TLS's among them: a kind that tells nothing is left to those.
fn kind_of_io(error: &io::Error, connecting: bool) -> Option<FailureKind> {
    match (error.kind(), connecting) {
        (io::ErrorKind::ConnectionRefused, _) => Some(FailureKind::ConnectRefused),
        (io::ErrorKind::TimedOut, true) => Some(FailureKind::ConnectTimeout),
        // TCP's own connecting never ends so; this is a handshake the other side left.
        (io::ErrorKind::UnexpectedEof, true) => Some(FailureKind::Tls),
        (
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut
            | io::ErrorKind::UnexpectedEof,
            false,
        ) => Some(FailureKind::Disconnected),
        _ => None,
    }
}

/// The errors behind an error. What an I/O error wraps counts as behind it, which
/// [`Error::source`] skips.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    // A chain deeper than this is none that any of the libraries here makes.
    iter::successors(behind(error), |cause| behind(*cause)).take(16)
}

fn behind<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => cause.source(),
    }
}

/// All causes in one line, each said once.
fn describe(error: &reqwest::Error) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let words = cause.to_string();
        if !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
    }
    if text.len() > MAX_DETAIL {
        text.truncate(text.floor_char_boundary(MAX_DETAIL));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: impl Error + 'static, connecting: bool, expected: Option<FailureKind>) {
        let text = format!("{error:?}");
        assert_eq!(kind_of(&error, connecting), expected, "{text}, connecting: {connecting}");
    }

    #[test]
    fn io_errors_are_told_apart() {
        use FailureKind::{ConnectRefused, ConnectTimeout, Disconnected, Tls};
        use io::ErrorKind;
        for (kind, connecting, expected) in [
            (ErrorKind::ConnectionRefused, true, Some(ConnectRefused)),
            (ErrorKind::TimedOut, true, Some(ConnectTimeout)),
            // Nothing closer is said: the one who asked says that connecting failed.
            (ErrorKind::NetworkUnreachable, true, None),
            (ErrorKind::ConnectionReset, true, None),
            (ErrorKind::UnexpectedEof, true, Some(Tls)),
            (ErrorKind::ConnectionReset, false, Some(Disconnected)),
            (ErrorKind::BrokenPipe, false, Some(Disconnected)),
            (ErrorKind::UnexpectedEof, false, Some(Disconnected)),
            (ErrorKind::TimedOut, false, Some(Disconnected)),
            (ErrorKind::Other, false, None),
        ] {
            check(io::Error::from(kind), connecting, expected);
        }
    }

    #[test]
    fn tls_says_so_itself() {
        let error = || rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        check(error(), true, Some(FailureKind::Tls));
        check(error(), false, Some(FailureKind::Tls));
        check(io::Error::new(io::ErrorKind::InvalidData, error()), true, None);
    }

    #[test]
    fn causes_look_inside_io_errors() {
        let inner = Failure::new(FailureKind::DnsFailed, "no name server");
        let outer = io::Error::other(io::Error::other(io::Error::other(inner)));
        let found = causes(&outer).find_map(|cause| cause.downcast_ref::<Failure>()).unwrap();
        assert_eq!(found.kind, FailureKind::DnsFailed);
    }
}
