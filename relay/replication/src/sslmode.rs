//! Whether and how a connection is encrypted: libpq's `sslmode`
//! (<https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION>).

use client_socket::{Identity, Roots, TlsOptions, Verification};

use crate::invalid::InvalidConnInfo;

/// The protection that a connection string asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// None.
    Disable,
    /// Encrypt if the server can.
    Prefer,
    /// Encrypt.
    Require,
    /// Encrypt, and check that a trusted authority has signed the server's certificate.
    VerifyCa,
    /// Encrypt, and check also that the certificate is for this host.
    VerifyFull,
}

/// The TLS options of a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsPolicy {
    pub(crate) mode: SslMode,
    /// The settings of an encrypted connection.
    pub(crate) tls: TlsOptions,
}

impl TlsPolicy {
    /// Takes the options in the order in which they were written; a later option overrides an earlier one.
    pub(crate) fn from_options(options: Vec<(String, String)>) -> Result<Self, InvalidConnInfo> {
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
                _ => return Err(InvalidConnInfo::SslMode),
            }
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => return Err(InvalidConnInfo::HalfIdentity),
        };
        let public = roots == Some(Roots::System);
        let mode = mode.unwrap_or(if public { SslMode::VerifyFull } else { SslMode::Prefer });
        // Anyone can get a certificate from some public authority, so a certificate without a checked name proves
        // nothing.
        if (mode == SslMode::VerifyCa && roots.is_none()) || (public && mode != SslMode::VerifyFull) {
            return Err(InvalidConnInfo::WeakVerification);
        }
        let verification = match (mode, &roots) {
            (SslMode::VerifyFull, _) => Verification::Full,
            // As in libpq, `require` with a root certificate means `verify-ca`.
            (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => Verification::Chain,
            _ => Verification::None,
        };
        // PostgreSQL 17 asks for this name if TLS comes first.
        let alpn = Some("postgresql");
        Ok(Self { mode, tls: TlsOptions { verification, roots: roots.unwrap_or_default(), identity, alpn } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(options: &[(&str, &str)]) -> Result<TlsPolicy, InvalidConnInfo> {
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
            assert_eq!((policy.mode, policy.tls.verification), (mode, verification), "{options:?}");
        }
    }

    #[test]
    fn a_verification_that_verifies_nothing_is_refused() {
        for options in [
            &[("sslmode", "verify-ca")][..],
            &[("sslmode", "verify-ca"), ("sslrootcert", "system")],
            &[("sslmode", "require"), ("sslrootcert", "system")],
        ] {
            assert!(matches!(policy(options), Err(InvalidConnInfo::WeakVerification)), "{options:?}");
        }
    }

    #[test]
    fn a_mode_that_does_not_exist_and_half_an_identity_are_refused() {
        assert!(matches!(policy(&[("sslmode", "allow")]), Err(InvalidConnInfo::SslMode)));
        assert!(matches!(policy(&[("sslcert", "/me.pem")]), Err(InvalidConnInfo::HalfIdentity)));
    }
}
