//! Why a downloader could not be made. Once made, it has no errors, only outcomes.

use std::io;
use std::path::PathBuf;

/// Why a [`crate::Downloader`] could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloaderError {
    /// The configuration holds values that cannot be.
    #[error(transparent)]
    Config(#[from] model::ConfigError),
    /// The user agent holds a character no header may hold.
    #[error("the user agent {0:?} holds characters that an HTTP header cannot")]
    UserAgent(String),
    /// `downloader.extra_ca` could not be read.
    #[error("reading the certificates of downloader.extra_ca, {}: {source}", path.display())]
    ReadCertificates {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `downloader.extra_ca` was read, and is not a list of certificates.
    #[error("downloader.extra_ca, {}: {message}", path.display())]
    BadCertificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The HTTP client could not be set up.
    #[error("setting up the HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}
