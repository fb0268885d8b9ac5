//! Whether and how a connection is encrypted: libpq's `sslmode`
//! (<https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION>).

use std::{io, path::PathBuf, sync::Arc};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{invalid_url::InvalidUrl, verifier::LenientVerifier};

/// How much protection is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SslMode {
    /// None.
    Disable,
    /// Encrypt if the server can.
    #[default]
    Prefer,
    /// Encrypt.
    Require,
    /// Encrypt, to a server that a trusted authority vouches for.
    VerifyCa,
    /// Encrypt, to the very host that was asked for.
    VerifyFull,
}

/// Whose word is taken for a server's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Every authority that this machine trusts.
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// The TLS options of a connection string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsPolicy {
    pub(super) mode: SslMode,
    roots: Option<Roots>,
    /// PEM files of the client's certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl TlsPolicy {
    /// Takes the options in the order in which they were written; a later one wins.
    pub(super) fn from_options(options: Vec<(String, String)>) -> Result<Self, InvalidUrl> {
        let (mut mode, mut roots, mut certificate, mut key) = (None, None, None, None);
        for (name, value) in options {
            match (name.as_str(), value.as_str()) {
                ("sslmode", "disable") => mode = Some(SslMode::Disable),
                ("sslmode", "prefer") => mode = Some(SslMode::Prefer),
                ("sslmode", "require") => mode = Some(SslMode::Require),
                ("sslmode", "verify-ca") => mode = Some(SslMode::VerifyCa),
                ("sslmode", "verify-full") => mode = Some(SslMode::VerifyFull),
                ("sslrootcert", "system") => roots = Some(Roots::System),
                ("sslrootcert", file) => roots = Some(Roots::File(file.into())),
                ("sslcert", file) => certificate = Some(file.into()),
                ("sslkey", file) => key = Some(file.into()),
                _ => return Err(InvalidUrl::SslMode),
            }
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(InvalidUrl::HalfIdentity),
        };
        let mode = mode.unwrap_or(if roots == Some(Roots::System) { SslMode::VerifyFull } else { SslMode::Prefer });
        // Anyone can get a certificate from some public authority: without the name it proves nothing.
        let public = roots == Some(Roots::System);
        if (mode == SslMode::VerifyCa && roots.is_none()) || (public && mode != SslMode::VerifyFull) {
            return Err(InvalidUrl::WeakVerification);
        }
        Ok(Self { mode, roots, identity })
    }

    /// Reads the certificates. Done for every connection, so that renewed ones are taken up.
    pub(super) fn client_config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let builder = match self.verification() {
            Verification::Full => {
                let roots = Arc::new(load_roots(self.roots.as_ref())?);
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(invalid)?;
                builder.with_webpki_verifier(verifier)
            }
            Verification::Chain => {
                let roots = load_roots(self.roots.as_ref())?;
                lenient(builder, LenientVerifier::new(Some(roots), &provider))
            }
            Verification::None => lenient(builder, LenientVerifier::new(None, &provider)),
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
                builder.with_client_auth_cert(load_certificates(certificate)?, key).map_err(invalid)?
            }
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()]; // PostgreSQL 17 asks for it where TLS comes first
        Ok(config)
    }

    fn verification(&self) -> Verification {
        match (self.mode, &self.roots) {
            (SslMode::VerifyFull, _) => Verification::Full,
            // libpq: `require` with a root certificate is `verify-ca`.
            (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => Verification::Chain,
            _ => Verification::None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verification {
    None,
    Chain,
    Full,
}

type Builder<State> = tokio_rustls::rustls::ConfigBuilder<ClientConfig, State>;

fn lenient(
    builder: Builder<tokio_rustls::rustls::WantsVerifier>,
    verifier: LenientVerifier,
) -> Builder<tokio_rustls::rustls::client::WantsClientCert> {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
}

fn load_roots(roots: Option<&Roots>) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(Roots::File(file)) => {
            for certificate in load_certificates(file)? {
                store.add(certificate).map_err(invalid)?;
            }
        }
        Some(Roots::System) | None => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let message = "this machine has no trusted certificate authorities: name one with sslrootcert";
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        }
    }
    Ok(store)
}

fn load_certificates(file: &PathBuf) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().map_err(|error| unreadable(file, error))?;
    if certificates.is_empty() { Err(unreadable(file, "it holds no certificate")) } else { Ok(certificates) }
}

fn unreadable(file: &std::path::Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("cannot use {}: {why}", file.display()))
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(options: &[(&str, &str)]) -> Result<TlsPolicy, InvalidUrl> {
        TlsPolicy::from_options(options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn verification_means_what_it_means_to_libpq() {
        use Verification::{Chain, Full, None};
        for (options, mode, verification) in [
            (vec![], SslMode::Prefer, None),
            (vec![("sslmode", "disable")], SslMode::Disable, None),
            (vec![("sslmode", "require")], SslMode::Require, None),
            (vec![("sslmode", "require"), ("sslrootcert", "/ca.pem")], SslMode::Require, Chain),
            (vec![("sslrootcert", "/ca.pem"), ("sslmode", "verify-ca")], SslMode::VerifyCa, Chain),
            (vec![("sslmode", "verify-full")], SslMode::VerifyFull, Full),
            (vec![("sslrootcert", "system")], SslMode::VerifyFull, Full),
            (vec![("sslmode", "require"), ("sslmode", "verify-full")], SslMode::VerifyFull, Full),
        ] {
            let policy = policy(&options).unwrap();
            assert_eq!((policy.mode, policy.verification()), (mode, verification), "{options:?}");
        }
    }

    #[test]
    fn a_verification_that_verifies_nothing_is_refused() {
        for options in [
            &[("sslmode", "verify-ca")][..],
            &[("sslmode", "verify-ca"), ("sslrootcert", "system")],
            &[("sslmode", "require"), ("sslrootcert", "system")],
        ] {
            assert!(matches!(policy(options), Err(InvalidUrl::WeakVerification)), "{options:?}");
        }
    }

    #[test]
    fn a_mode_that_does_not_exist_and_half_an_identity_are_refused() {
        assert!(matches!(policy(&[("sslmode", "allow")]), Err(InvalidUrl::SslMode)));
        assert!(matches!(policy(&[("sslcert", "/me.pem")]), Err(InvalidUrl::HalfIdentity)));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = policy(&[("sslmode", "verify-full"), ("sslrootcert", "/nowhere/ca.pem")]).unwrap().client_config();
        assert!(error.unwrap_err().to_string().contains("/nowhere/ca.pem"));
    }
}
