//! Whom we believe: TLS with ring, and roots of trust on every machine.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

use crate::DownloaderError;

/// The TLS side of every connection: the system's roots of trust, or Mozilla's where the system has
/// none (as in a bare container), and those of `extra_ca` besides.
///
/// Left to itself, reqwest refuses to be built on a machine without certificates.
pub(crate) fn client_config(http2: bool, extra_ca: Option<&Path>) -> Result<ClientConfig, DownloaderError> {
    let mut roots = system_roots();
    if roots.is_empty() {
        tracing::info!("the system has no certificate authorities; Mozilla's list is used");
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    }
    if let Some(path) = extra_ca {
        add_file(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    if http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(config)
}

fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "reading the system's certificate authorities");
    }
    let mut roots = RootCertStore::empty();
    // Systems carry certificates no program can read; the rest is no worse for it.
    roots.add_parsable_certificates(found.certs);
    roots
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), DownloaderError> {
    let bad = |message: String| DownloaderError::BadCertificates { path: path.to_owned(), message };
    let text =
        std::fs::read(path).map_err(|source| DownloaderError::ReadCertificates { path: path.to_owned(), source })?;
    let certificates = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, pem::Error>>()
        .map_err(|error| bad(error.to_string()))?;
    if certificates.is_empty() {
        return Err(bad("it holds no PEM certificate".to_owned()));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(content: &str) -> Result<ClientConfig, DownloaderError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        client_config(true, Some(file.path()))
    }

    #[test]
    fn protocols_are_offered_as_configured() {
        let offered = |http2| client_config(http2, None).unwrap().alpn_protocols;
        assert_eq!(offered(true), [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert_eq!(offered(false), [b"http/1.1".to_vec()]);
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let missing = client_config(true, Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert!(matches!(missing, DownloaderError::ReadCertificates { .. }));
        assert!(missing.to_string().contains("/nowhere/ca.pem"), "{missing}");
        assert!(with_file(include_str!("../tests/data/ca.pem")).is_ok());
        for content in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(with_file(content), Err(DownloaderError::BadCertificates { .. })), "{content:?}");
        }
    }

    /// What a machine without certificates of its own falls back to.
    #[test]
    fn mozillas_list_can_be_read() {
        let mut roots = RootCertStore::empty();
        let (added, ignored) =
            roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
        assert!(added > 100, "{added}");
        assert_eq!(ignored, 0);
    }
}
