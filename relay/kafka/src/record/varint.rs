//! Kafka's integers of variable length: zigzag, seven bits a byte, the lowest first.

use bytes::BufMut;

/// Writes an integer.
pub(super) fn put_varint(out: &mut impl BufMut, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// Returns how many bytes the integer takes.
pub(super) fn varint_len(value: i64) -> usize {
    (64 - (zigzag(value) | 1).leading_zeros() as usize).div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_integer_takes_as_many_bytes_as_its_length_says(value in any::<i64>()) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            prop_assert!(out.iter().rev().skip(1).all(|byte| byte & 0x80 != 0) && out.last().is_some_and(|byte| byte & 0x80 == 0));
        }
    }

    #[test]
    fn small_integers_are_one_byte_and_minus_one_is_1() {
        let mut out = Vec::new();
        [0, -1, 1, 63, -64, 64].into_iter().for_each(|value| put_varint(&mut out, value));
        assert_eq!(out, [0, 1, 2, 126, 127, 0x80, 1]);
    }
}
