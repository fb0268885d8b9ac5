//! Until when a certificate is valid.

use std::time::SystemTime;

use x509_cert::{Certificate, der::Decode};

/// Until when the certificates of an encrypted connection are valid. `None`: there is no certificate, or it cannot be
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// The server's certificate.
    pub server: Option<SystemTime>,
    /// The client's own certificate, if it has one.
    pub client: Option<SystemTime>,
}

/// The end of the validity of a certificate in DER; `None` if it cannot be read.
pub(crate) fn not_after(der: &[u8]) -> Option<SystemTime> {
    let certificate = Certificate::from_der(der).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_system_time())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// An unsigned certificate without names, valid until `time`.
    fn certificate(tag: u8, time: &str) -> Vec<u8> {
        let sequence = |parts: &[Vec<u8>]| der(0x30, &parts.concat());
        let validity = sequence(&[der(UTC_TIME, b"200101000000Z"), der(tag, time.as_bytes())]);
        let (serial_number, none) = (der(0x02, &[1]), sequence(&[]));
        let (ed25519, no_bits) = (sequence(&[der(0x06, b"\x2b\x65\x70")]), der(0x03, &[0]));
        let key = sequence(&[ed25519.clone(), no_bits.clone()]);
        let to_be_signed = sequence(&[serial_number, ed25519.clone(), none.clone(), validity, none, key]);
        sequence(&[to_be_signed, ed25519, no_bits])
    }

    fn unix(certificate: &[u8]) -> Option<u64> {
        not_after(certificate).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(unix(&certificate(UTC_TIME, "260228235959Z")), Some(1_772_323_199));
        assert_eq!(unix(&certificate(GENERALIZED_TIME, "20500301000000Z")), Some(2_529_705_600));
        assert_eq!(unix(&certificate(GENERALIZED_TIME, "20000229120000Z")), Some(951_825_600));
        assert_eq!(unix(&certificate(GENERALIZED_TIME, "99991231235959Z")), Some(253_402_300_799));
    }

    #[test]
    fn what_is_no_time_is_not_guessed() {
        for time in ["", "260228235959", "261328235959Z", "26022823595xZ", "260228235959+0100"] {
            assert_eq!(unix(&certificate(UTC_TIME, time)), None, "{time}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = certificate(UTC_TIME, "260228235959Z");
        for at in 0..whole.len() {
            let _ = not_after(whole.get(..at).unwrap());
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = not_after(&changed);
            }
        }
    }
}
