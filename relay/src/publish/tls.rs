//! TLS to the broker.

use std::{io, path::Path, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use super::url::TlsFiles;

/// Settings for the handshake, read from the files.
pub(super) fn connector(files: &TlsFiles) -> io::Result<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let config = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, error))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(io::Error::other)?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that the server's certificate must be for.
pub(super) fn server_name(files: &TlsFiles, host: &str) -> io::Result<ServerName<'static>> {
    let name = files.server_name.as_deref().unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(io::Error::other)
}

/// Whether the peer has answered with something that is not TLS.
pub(super) fn speaks_none(error: &io::Error) -> bool {
    let reason = error.get_ref().and_then(|reason| reason.downcast_ref());
    matches!(reason, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

fn roots(ca: Option<&Path>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| in_file(path, error))?;
            }
        }
        None => {
            let native = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(native.certs);
            if added == 0 {
                let why = native.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(io::Error::other(format!("this machine has no trusted certificate authorities{why}")));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| in_file(path, error))?.collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(in_file(path, "it holds no certificate")),
        certificates => certificates.map_err(|error| in_file(path, error)),
    }
}

fn in_file(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}
