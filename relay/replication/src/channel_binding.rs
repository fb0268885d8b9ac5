//! The `tls-server-end-point` channel binding of RFC 5929: a hash of the server's certificate. With it, SCRAM notices a
//! middleman who has a certificate of his own, even where certificates are not verified.

use client_socket::Socket;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::{
    Certificate,
    der::{
        Any, Decode, Tag, TagNumber, Tagged,
        oid::{
            ObjectIdentifier,
            db::rfc5912::{
                ECDSA_WITH_SHA_224, ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, ID_RSASSA_PSS,
                ID_SHA_1, ID_SHA_224, ID_SHA_256, ID_SHA_384, ID_SHA_512, MD_5_WITH_RSA_ENCRYPTION,
                SHA_1_WITH_RSA_ENCRYPTION, SHA_224_WITH_RSA_ENCRYPTION, SHA_256_WITH_RSA_ENCRYPTION,
                SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
            },
        },
    },
    spki::AlgorithmIdentifierOwned,
};

type Hash = fn(&[u8]) -> Vec<u8>;

const SHA224: Hash = |bytes| Sha224::digest(bytes).to_vec();
const SHA256: Hash = |bytes| Sha256::digest(bytes).to_vec();
const SHA384: Hash = |bytes| Sha384::digest(bytes).to_vec();
const SHA512: Hash = |bytes| Sha512::digest(bytes).to_vec();

/// The database of identifiers lacks this one.
const ECDSA_WITH_SHA_1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.1");

/// The hash that goes with each signature algorithm, and with each hash that RSASSA-PSS may name. MD5 and SHA-1 count
/// as SHA-256 (RFC 5929, section 4.1). Algorithms without a hash of their own, such as Ed25519, have no binding.
const HASHES: [(ObjectIdentifier, Hash); 16] = [
    (MD_5_WITH_RSA_ENCRYPTION, SHA256),
    (SHA_1_WITH_RSA_ENCRYPTION, SHA256),
    (ECDSA_WITH_SHA_1, SHA256),
    (ID_SHA_1, SHA256),
    (SHA_224_WITH_RSA_ENCRYPTION, SHA224),
    (ECDSA_WITH_SHA_224, SHA224),
    (ID_SHA_224, SHA224),
    (SHA_256_WITH_RSA_ENCRYPTION, SHA256),
    (ECDSA_WITH_SHA_256, SHA256),
    (ID_SHA_256, SHA256),
    (SHA_384_WITH_RSA_ENCRYPTION, SHA384),
    (ECDSA_WITH_SHA_384, SHA384),
    (ID_SHA_384, SHA384),
    (SHA_512_WITH_RSA_ENCRYPTION, SHA512),
    (ECDSA_WITH_SHA_512, SHA512),
    (ID_SHA_512, SHA512),
];

/// The first parameter of RSASSA-PSS: the hash. Without it the hash is SHA-1 (RFC 4055, section 3.1).
const PSS_HASH: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };

/// What SCRAM can bind a login over this socket to; `None` where nothing is encrypted, and for a certificate whose
/// signature has no hash of its own.
pub fn channel_binding(socket: &Socket) -> Option<Vec<u8>> {
    tls_server_end_point(socket.peer_certificate()?)
}

fn tls_server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let signature = Certificate::from_der(certificate).ok()?.signature_algorithm().clone();
    let hash = if signature.oid == ID_RSASSA_PSS { pss_hash(&signature)? } else { signature.oid };
    HASHES.iter().find(|(oid, _)| *oid == hash).map(|(_, hash)| hash(certificate))
}

fn pss_hash(signature: &AlgorithmIdentifierOwned) -> Option<ObjectIdentifier> {
    let parameters: Vec<Any> = signature.parameters.as_ref()?.decode_as().ok()?;
    match parameters.first().filter(|parameter| parameter.tag() == PSS_HASH) {
        Some(hash) => AlgorithmIdentifierOwned::from_der(hash.value()).ok().map(|hash| hash.oid),
        None => Some(ID_SHA_1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let length = if length < 0x80 { vec![length] } else { vec![0x81, length] };
        [&[tag][..], &length, content].concat()
    }

    fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
        der(0x30, &parts.concat())
    }

    fn algorithm(oid: ObjectIdentifier, parameters: &[Vec<u8>]) -> Vec<u8> {
        sequence(&[der(0x06, oid.as_bytes()), parameters.concat()])
    }

    /// A certificate without names, signed by this algorithm.
    fn certificate(signed_by: Vec<u8>) -> Vec<u8> {
        let time = der(0x17, b"260228235959Z");
        let (serial_number, validity, none) = (der(0x02, &[1]), sequence(&[time.clone(), time]), sequence(&[]));
        let key = sequence(&[signed_by.clone(), der(0x03, &[0])]);
        let to_be_signed = sequence(&[serial_number, signed_by.clone(), none.clone(), validity, none, key]);
        sequence(&[to_be_signed, signed_by, der(0x03, &[0])])
    }

    #[test]
    fn the_hash_is_the_one_of_the_certificates_signature() {
        for (oid, hash) in HASHES {
            let certificate = certificate(algorithm(oid, &[]));
            assert_eq!(tls_server_end_point(&certificate).unwrap(), hash(&certificate), "{oid}");
        }
    }

    #[test]
    fn the_parameters_of_rsassa_pss_name_the_hash_and_without_them_it_is_sha_1() {
        for (oid, hash) in HASHES {
            let parameters = [der(0xa0, &algorithm(oid, &[])), der(0xa2, &der(0x02, &[32]))];
            let certificate = certificate(algorithm(ID_RSASSA_PSS, &[sequence(&parameters)]));
            assert_eq!(tls_server_end_point(&certificate).unwrap(), hash(&certificate), "{oid}");
        }
        let default = certificate(algorithm(ID_RSASSA_PSS, &[sequence(&[])]));
        assert_eq!(tls_server_end_point(&default).unwrap(), SHA256(&default));
        assert_eq!(tls_server_end_point(&certificate(algorithm(ID_RSASSA_PSS, &[]))), None, "no parameters at all");
    }

    #[test]
    fn an_algorithm_without_a_hash_has_no_binding() {
        let ed25519 = ObjectIdentifier::new_unwrap("1.3.101.112");
        assert_eq!(tls_server_end_point(&certificate(algorithm(ed25519, &[]))), None);
    }

    proptest! {
        #[test]
        fn no_certificate_makes_it_panic(
            place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in 0..100_usize, pss: bool,
        ) {
            let parameters = [sequence(&[der(0xa0, &algorithm(ID_SHA_256, &[]))])];
            let pss_or_ecdsa = if pss { (ID_RSASSA_PSS, &parameters[..]) } else { (ECDSA_WITH_SHA_256, &[][..]) };
            let mut der = certificate(algorithm(pss_or_ecdsa.0, pss_or_ecdsa.1));
            let place = place.index(der.len());
            der[place] = byte;
            der.truncate(der.len().saturating_sub(cut));
            let _ = tls_server_end_point(&der);
        }
    }
}
