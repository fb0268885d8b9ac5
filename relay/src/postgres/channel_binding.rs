//! The `tls-server-end-point` channel binding of RFC 5929: a hash of the server's certificate. With it, SCRAM notices a
//! middleman who has a certificate of his own, even where certificates are not verified.

use tokio_rustls::rustls::{
    crypto::{hash::HashAlgorithm, ring::ALL_CIPHER_SUITES},
    pki_types::CertificateDer,
};

/// DER encodings of the signature algorithms' object identifiers, without tag and length, and the hash that goes with
/// each. MD5 and SHA-1 count as SHA-256 (RFC 5929, section 4.1). Algorithms with no hash of their own, as Ed25519, have no binding.
const SIGNATURE_ALGORITHMS: [(&[u8], HashAlgorithm); 7] = [
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", HashAlgorithm::SHA256), // md5WithRSAEncryption
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", HashAlgorithm::SHA256), // sha1WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x01", HashAlgorithm::SHA256),         // ecdsa-with-SHA1
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", HashAlgorithm::SHA256), // sha256WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", HashAlgorithm::SHA256),     // ecdsa-with-SHA256
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", HashAlgorithm::SHA384), // sha384WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", HashAlgorithm::SHA384),     // ecdsa-with-SHA384
];

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// The binding for a certificate; `None` if its signature algorithm has none, or none that is known here.
pub(super) fn tls_server_end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let oid = signature_algorithm(certificate)?;
    let (_, algorithm) = SIGNATURE_ALGORITHMS.iter().find(|(known, _)| *known == oid)?;
    // The hashes of the TLS library's cipher suites: no other crypto library is needed for this.
    let suites = ALL_CIPHER_SUITES.iter().filter_map(|suite| suite.tls13());
    let hash = suites.map(|suite| suite.common.hash_provider).find(|hash| hash.algorithm() == *algorithm)?;
    Some(hash.hash(certificate).as_ref().to_vec())
}

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { algorithm, … }, … }` (RFC 5280, 4.1).
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_to_be_signed, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (oid, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    Some(oid)
}

/// Takes one DER element with the tag off the front: its content, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A certificate's outline: something to be signed, and an algorithm.
    fn certificate(oid: &[u8], to_be_signed: usize) -> Vec<u8> {
        let der = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[tag, 0x82], &length[..], content].concat()
        };
        let short = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
        let parts = [der(SEQUENCE, &vec![7; to_be_signed]), short(SEQUENCE, &short(OBJECT_IDENTIFIER, oid))];
        der(SEQUENCE, &parts.concat())
    }

    #[test]
    fn the_hash_is_the_one_of_the_certificates_signature() {
        for (oid, algorithm) in SIGNATURE_ALGORITHMS {
            let length = if algorithm == HashAlgorithm::SHA256 { 32 } else { 48 };
            let hash = tls_server_end_point(&certificate(oid, 700).into()).unwrap();
            assert_eq!(hash.len(), length, "{oid:x?}");
        }
    }

    #[test]
    fn an_algorithm_without_a_hash_has_no_binding() {
        assert_eq!(tls_server_end_point(&certificate(b"\x2b\x65\x70", 10).into()), None); // Ed25519
    }

    proptest! {
        #[test]
        fn no_certificate_makes_it_panic(
            to_be_signed in 0..300_usize, place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..300_usize,
        ) {
            let mut der = certificate(SIGNATURE_ALGORITHMS[4].0, to_be_signed);
            let place = place.index(der.len());
            der[place] = byte;
            der.truncate(der.len().saturating_sub(cut));
            let _ = tls_server_end_point(&der.into());
        }
    }
}
