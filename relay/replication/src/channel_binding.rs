//! The `tls-server-end-point` channel binding of RFC 5929: a hash of the server's certificate. With it, SCRAM notices a
//! middleman who has a certificate of his own, even where certificates are not verified.

use client_socket::{
    Socket,
    der::{OBJECT_IDENTIFIER, SEQUENCE, tagged},
};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

type Hash = fn(&[u8]) -> Vec<u8>;

const SHA224: Hash = |bytes| Sha224::digest(bytes).to_vec();
const SHA256: Hash = |bytes| Sha256::digest(bytes).to_vec();
const SHA384: Hash = |bytes| Sha384::digest(bytes).to_vec();
const SHA512: Hash = |bytes| Sha512::digest(bytes).to_vec();

/// DER encodings of the signature algorithms' object identifiers, without tag and length, and the hash that goes with
/// each. MD5 and SHA-1 count as SHA-256 (RFC 5929, section 4.1). Algorithms with no hash of their own, as Ed25519, have no binding.
const SIGNATURES: [(&[u8], Hash); 11] = [
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", SHA256), // md5WithRSAEncryption
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", SHA256), // sha1WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x01", SHA256),         // ecdsa-with-SHA1
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0e", SHA224), // sha224WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x01", SHA224),     // ecdsa-with-SHA224
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", SHA256), // sha256WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", SHA256),     // ecdsa-with-SHA256
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", SHA384), // sha384WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", SHA384),     // ecdsa-with-SHA384
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", SHA512), // sha512WithRSAEncryption
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", SHA512),     // ecdsa-with-SHA512
];

/// The signature algorithm whose parameters name the hash (RFC 4055, section 3.1); without them it is SHA-1.
const RSASSA_PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";

/// The hashes that those parameters can name.
const PSS_HASHES: [(&[u8], Hash); 5] = [
    (b"\x2b\x0e\x03\x02\x1a", SHA256),                 // SHA-1
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x04", SHA224), // SHA-224
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x01", SHA256), // SHA-256
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x02", SHA384), // SHA-384
    (b"\x60\x86\x48\x01\x65\x03\x04\x02\x03", SHA512), // SHA-512
];

/// The first parameter of RSASSA-PSS, the hash.
const HASH_PARAMETER: u8 = 0xa0;

/// What SCRAM can bind a login over this socket to; `None` where nothing is encrypted, and for a certificate whose signature
/// has no hash of its own.
pub fn channel_binding(socket: &Socket) -> Option<Vec<u8>> {
    tls_server_end_point(socket.peer_certificate()?)
}

fn tls_server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    signature_hash(certificate).map(|hash| hash(certificate))
}

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { algorithm, parameters }, … }` (RFC 5280, 4.1).
fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (certificate, _) = tagged(certificate, SEQUENCE)?;
    let (_to_be_signed, rest) = tagged(certificate, SEQUENCE)?;
    let (algorithm, _) = tagged(rest, SEQUENCE)?;
    let (oid, parameters) = tagged(algorithm, OBJECT_IDENTIFIER)?;
    if oid != RSASSA_PSS {
        return known(&SIGNATURES, oid);
    }
    let (parameters, _) = tagged(parameters, SEQUENCE)?;
    let Some((hash, _)) = tagged(parameters, HASH_PARAMETER) else { return Some(SHA256) };
    let (hash, _) = tagged(hash, SEQUENCE)?;
    let (oid, _) = tagged(hash, OBJECT_IDENTIFIER)?;
    known(&PSS_HASHES, oid)
}

fn known(hashes: &[(&[u8], Hash)], oid: &[u8]) -> Option<Hash> {
    hashes.iter().find(|(known, _)| *known == oid).map(|(_, hash)| *hash)
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
        for (oid, hash) in SIGNATURES {
            let certificate = certificate(oid, 700);
            assert_eq!(tls_server_end_point(&certificate).unwrap(), hash(&certificate), "{oid:x?}");
        }
    }

    #[test]
    fn an_algorithm_without_a_hash_has_no_binding() {
        assert_eq!(tls_server_end_point(&certificate(b"\x2b\x65\x70", 10)), None); // Ed25519
    }

    proptest! {
        #[test]
        fn no_certificate_makes_it_panic(
            to_be_signed in 0..300_usize, place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..300_usize,
        ) {
            let mut der = certificate(SIGNATURES[4].0, to_be_signed);
            let place = place.index(der.len());
            der[place] = byte;
            der.truncate(der.len().saturating_sub(cut));
            let _ = tls_server_end_point(&der);
        }
    }
}
