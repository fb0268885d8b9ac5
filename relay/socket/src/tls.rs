//! TLS from PEM files.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use tokio::{io::BufReader, net::TcpStream};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        client::WebPkiServerVerifier,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::{certificate::not_after, socket::Socket, verifier::LenientVerifier};

/// Encrypted bytes that are received ahead: two TLS records of at most 16 KiB.
const RECORD_BUFFER: usize = 32 * 1024;

const AUTHORITY_AS_SERVER: &str = "the server shows the certificate of an authority (CA:TRUE), as one that has signed \
                                   itself often is: give it one that an authority has signed, or one without CA:TRUE";

/// Who the peer must be, and who the client is. The default verifies everything with the machine's authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// What of the peer's certificate is checked.
    pub verification: Verification,
    /// The authorities that may vouch for the peer.
    pub roots: Roots,
    /// The client's own certificate, if the server wants one.
    pub identity: Option<Identity>,
    /// Protocol to ask for by ALPN (RFC 7301).
    pub alpn: Option<&'static str>,
}

/// What of the peer's certificate is checked. That the peer holds the certificate's key is proved in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// Nothing: anyone may answer.
    None,
    /// A trusted authority has signed it, for whatever name.
    Chain,
    /// A trusted authority has signed it, and it is for the name that was asked for.
    #[default]
    Full,
}

/// The authorities that may vouch for the peer's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// Every authority that the machine trusts.
    #[default]
    System,
    /// The authorities in a PEM file.
    File(PathBuf),
}

/// PEM files of a client's certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and the intermediate ones up to an authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Why TLS cannot even begin.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has the wrong content.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// The machine has no trusted authorities: name a file.
    #[error("this machine has no trusted certificate authorities{}", .why.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    NoAuthorities {
        /// The error of looking for them.
        why: Option<String>,
    },
    /// The files do not fit together, such as a certificate and another's key.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

impl TlsOptions {
    /// Encrypts a connection to the peer with this name, a DNS name or an address. The files are read each time, so
    /// that renewed certificates are used.
    ///
    /// # Errors
    ///
    /// A [`TlsError`] inside the I/O error; or the handshake failed.
    pub async fn connect(&self, stream: TcpStream, name: &str) -> io::Result<Socket> {
        let (config, client_expires) = self.client_config()?;
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the host's name is not valid"))?;
        let stream = BufReader::with_capacity(RECORD_BUFFER, stream);
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(explained)?;
        Ok(Socket::tls(stream, client_expires))
    }

    /// The configuration for rustls, and until when the client's own certificate is valid.
    fn client_config(&self) -> Result<(ClientConfig, Option<SystemTime>), TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let lenient = |roots| Arc::new(LenientVerifier::new(roots, &provider));
        let builder = match self.verification {
            Verification::Full => {
                let roots = Arc::new(self.roots.load()?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
                builder.with_webpki_verifier(verifier)
            }
            Verification::Chain => {
                builder.dangerous().with_custom_certificate_verifier(lenient(Some(self.roots.load()?)))
            }
            Verification::None => builder.dangerous().with_custom_certificate_verifier(lenient(None)),
        };
        let (mut config, expires) = match &self.identity {
            None => (builder.with_no_client_auth(), None),
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error))?;
                let chain = certificates(certificate)?;
                let expires = chain.first().and_then(|own| not_after(own));
                (builder.with_client_auth_cert(chain, key)?, expires)
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok((config, expires))
    }
}

impl Roots {
    fn load(&self) -> Result<RootCertStore, TlsError> {
        let mut store = RootCertStore::empty();
        match self {
            Self::File(path) => {
                for certificate in certificates(path)? {
                    store.add(certificate).map_err(|error| unusable(path, error))?;
                }
            }
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                store.add_parsable_certificates(found.certs);
                if store.is_empty() {
                    return Err(TlsError::NoAuthorities { why: found.errors.first().map(ToString::to_string) });
                }
            }
        }
        Ok(store)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().map_err(|error| unusable(path, error))?;
    if certificates.is_empty() { Err(unusable(path, "it holds no certificate")) } else { Ok(certificates) }
}

fn unusable(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), why: why.to_string() }
}

/// Says what to do about the certificate of an authority in place of the server's own; rustls shows a code there.
fn explained(error: io::Error) -> io::Error {
    use rustls::{CertificateError::Other, Error::InvalidCertificate, OtherError};
    let cause = match error.get_ref().and_then(|reason| reason.downcast_ref()) {
        Some(InvalidCertificate(Other(OtherError(cause)))) => cause.downcast_ref(),
        _ => None,
    };
    if matches!(cause, Some(webpki::Error::CaUsedAsEndEntity)) {
        io::Error::new(error.kind(), AUTHORITY_AS_SERVER)
    } else {
        error
    }
}

/// Whether the peer answered the handshake in another protocol than TLS.
pub fn speaks_no_tls(error: &io::Error) -> bool {
    let reason = error.get_ref().and_then(|reason| reason.downcast_ref());
    matches!(reason, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

/// Whether TLS itself failed: certificates, files or settings, which stay until somebody changes them. Otherwise the
/// connection below failed, as when a peer goes in the middle of a handshake.
pub fn refused_by_tls(error: &io::Error) -> bool {
    // Errors of the operating system, and the end of the stream, have other kinds.
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other)
}

/// Whether the error is one of TLS. After the handshake, too: in TLS 1.3 a server judges the client's certificate when
/// the client has ended its part (RFC 8446, section 4.4.2.4), so that its alert comes in place of its first answer.
pub fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|reason| reason.is::<rustls::Error>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let nowhere = || PathBuf::from("/nowhere/x.pem");
        let identity = Some(Identity { certificate: nowhere(), key: nowhere() });
        for options in [
            TlsOptions { roots: Roots::File(nowhere()), ..TlsOptions::default() },
            TlsOptions { verification: Verification::None, identity, ..TlsOptions::default() },
        ] {
            let error = options.client_config().unwrap_err().to_string();
            assert!(error.starts_with("cannot use /nowhere/x.pem: "), "{error}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let options = TlsOptions { roots: Roots::File(manifest.into()), ..TlsOptions::default() };
        let error = options.client_config().unwrap_err();
        assert!(matches!(error, TlsError::File { .. }) && error.to_string().ends_with("it holds no certificate"));
    }
}
