//! As much of DER (ITU-T X.690) as it takes to find something in a certificate. No bytes make it panic.

/// Tag of a `SEQUENCE`.
pub const SEQUENCE: u8 = 0x30;
/// Tag of an `INTEGER`.
pub const INTEGER: u8 = 0x02;
/// Tag of an `OBJECT IDENTIFIER`.
pub const OBJECT_IDENTIFIER: u8 = 0x06;

/// Takes one element off the front: its tag, its content, and what follows it. `None`: it is cut off, or is no DER.
pub fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Takes one element with this tag off the front: its content, and what follows it.
pub fn tagged(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_form_are_read_and_what_is_cut_off_is_not() {
        for (header, length) in
            [(&[0x7f][..], 127), (&[0x81, 0x80], 128), (&[0x82, 0x01, 0x00], 256), (&[0x84, 0, 0, 0, 3], 3)]
        {
            let der = [&[SEQUENCE], header, &vec![7; length], b"rest"].concat();
            assert_eq!(element(&der), Some((SEQUENCE, vec![7; length].as_slice(), &b"rest"[..])), "{header:x?}");
            assert_eq!(tagged(&der, INTEGER), None);
            for end in 0..=header.len() + length {
                assert_eq!(tagged(&der[..end], SEQUENCE), None, "{header:x?} cut off at {end}");
            }
        }
        for length in [0x80, 0x85, 0xff] {
            assert_eq!(element(&[SEQUENCE, length, 0, 0, 0, 0, 0, 0]), None, "{length:x}");
        }
    }
}
