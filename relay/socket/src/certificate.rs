//! Until when a certificate is good (RFC 5280, 4.1).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::der::{INTEGER, SEQUENCE, element, tagged};

/// The version, which may be missing.
const VERSION: u8 = 0xa0;
/// `YYMMDDHHMMSSZ`, of the years 1950 to 2049.
const UTC_TIME: u8 = 0x17;
/// `YYYYMMDDHHMMSSZ`.
const GENERALIZED_TIME: u8 = 0x18;

/// Until when the certificates of an encrypted connection are good. `None`: there is none, or its end cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// The server's.
    pub server: Option<SystemTime>,
    /// The client's own, if it has one to show.
    pub client: Option<SystemTime>,
}

/// The end of a certificate's validity: `Certificate ::= SEQUENCE { SEQUENCE { version [0], serialNumber, signature, issuer, validity
/// SEQUENCE { notBefore, notAfter }, … }, … }`.
pub(crate) fn not_after(der: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = tagged(der, SEQUENCE)?;
    let (to_be_signed, _) = tagged(certificate, SEQUENCE)?;
    let rest = tagged(to_be_signed, VERSION).map_or(to_be_signed, |(_, rest)| rest);
    let (_serial_number, rest) = tagged(rest, INTEGER)?;
    let (_signature, rest) = tagged(rest, SEQUENCE)?;
    let (_issuer, rest) = tagged(rest, SEQUENCE)?;
    let (validity, _) = tagged(rest, SEQUENCE)?;
    let (_, _not_before, rest) = element(validity)?;
    let (tag, time, _) = element(rest)?;
    match tag {
        UTC_TIME => {
            let (year, rest) = digits(time, 2)?;
            seconds(if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => digits(time, 4).and_then(|(year, rest)| seconds(year, rest)),
        _ => None,
    }
}

/// The moment that a year and `MMDDHHMMSSZ` mean.
fn seconds(year: u64, rest: &[u8]) -> Option<SystemTime> {
    let (month, rest) = digits(rest, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(rest, 2)?;
    let (second, rest) = digits(rest, 2)?;
    if rest != b"Z" || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    let days = days_before(year, month)?.checked_add(day - 1)?;
    let seconds = days.checked_mul(86_400)?.checked_add(hour * 3600 + minute * 60 + second)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days from 1970 to the first of the month, in the Gregorian calendar; `None` before 1970.
fn days_before(year: u64, month: u64) -> Option<u64> {
    const BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_days = |years: u64| years / 4 - years / 100 + years / 400;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years = year.checked_sub(1970)?;
    let before = BEFORE_MONTH.get(usize::try_from(month - 1).ok()?)?;
    Some(years * 365 + leap_days(year - 1) - leap_days(1969) + before + u64::from(is_leap && month > 2))
}

fn digits(text: &[u8], count: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = text.split_at_checked(count)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// A certificate's outline, good until `time`.
    fn certificate(version: bool, tag: u8, time: &str) -> Vec<u8> {
        let validity = [der(UTC_TIME, b"200101000000Z"), der(tag, time.as_bytes())].concat();
        let version = if version { der(VERSION, &der(INTEGER, &[2])) } else { Vec::new() };
        let parts = [version, der(INTEGER, &[1]), der(SEQUENCE, &[]), der(SEQUENCE, &[]), der(SEQUENCE, &validity)];
        der(SEQUENCE, &der(SEQUENCE, &parts.concat()))
    }

    fn unix(certificate: &[u8]) -> Option<u64> {
        not_after(certificate).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(unix(&certificate(true, UTC_TIME, "260228235959Z")), Some(1_772_323_199));
        assert_eq!(unix(&certificate(false, GENERALIZED_TIME, "20500301000000Z")), Some(2_529_705_600));
        assert_eq!(unix(&certificate(true, GENERALIZED_TIME, "20000229120000Z")), Some(951_825_600));
        assert_eq!(unix(&certificate(true, GENERALIZED_TIME, "99991231235959Z")), Some(253_402_300_799));
    }

    #[test]
    fn what_is_no_time_is_not_guessed() {
        for time in ["", "260228235959", "261328235959Z", "26022823595xZ", "260228235959+0100"] {
            assert_eq!(unix(&certificate(true, UTC_TIME, time)), None, "{time}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = certificate(true, UTC_TIME, "260228235959Z");
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
