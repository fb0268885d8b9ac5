//! A number as PostgreSQL stores it (`src/backend/utils/adt/numeric.c`): digits to base 10,000, the first of which stands
//! for itself times 10,000 to the power of the weight, and how many decimal digits are printed behind the point.

/// A number in a jsonb value.
#[derive(Clone, Copy)]
pub(crate) struct Number<'a> {
    is_negative: bool,
    weight: i16,
    scale: u16,
    /// Two bytes each, in the server's order.
    digits: &'a [u8],
}

/// `DBL_MAX` in 17 decimal digits, from its first digit to base 10,000 on; and that digit's weight.
const LARGEST_DOUBLE: [u16; 5] = [1, 7976, 9313, 4862, 3157];
const WEIGHT_OF_LARGEST: i16 = 77;

impl<'a> Number<'a> {
    /// Takes a numeric without its varlena header; `None` if it is none.
    pub(super) fn new(numeric: &'a [u8]) -> Option<Self> {
        let (header, rest) = numeric.split_first_chunk()?;
        let header = u16::from_ne_bytes(*header);
        match header >> 14 {
            // Short: the sign, six bits of scale, seven of weight.
            0b10 => {
                let is_below_one = header & 0x0040 != 0;
                let weight = (header & 0x003f) as i16;
                let weight = if is_below_one { weight - 64 } else { weight };
                let scale = header >> 7 & 0x3f;
                Some(Self { is_negative: header & 0x2000 != 0, weight, scale, digits: rest })
            }
            // NaN or infinite, which JSON is not.
            0b11 => None,
            sign => {
                let (weight, digits) = rest.split_first_chunk()?;
                let weight = i16::from_ne_bytes(*weight);
                Some(Self { is_negative: sign == 0b01, weight, scale: header & 0x3fff, digits })
            }
        }
    }

    /// Bytes of its text.
    pub(super) fn printed_bytes(&self) -> usize {
        let fraction = if self.scale > 0 { 1 + usize::from(self.scale) } else { 0 };
        usize::from(self.is_negative) + self.integer_digits() + fraction
    }

    /// Whether a double can be as large.
    pub(crate) fn fits_double(&self) -> bool {
        self.weight < WEIGHT_OF_LARGEST || self.weight == WEIGHT_OF_LARGEST && self.digits().le(LARGEST_DOUBLE)
    }

    /// Digits before the point.
    fn integer_digits(&self) -> usize {
        match (usize::try_from(self.weight), self.digits().next()) {
            (Ok(weight), Some(first)) => 4 * weight + first.checked_ilog10().map_or(1, |power| power as usize + 1),
            _ => 1,
        }
    }

    fn digits(&self) -> impl Iterator<Item = u16> {
        self.digits.as_chunks().0.iter().map(|digit| u16::from_ne_bytes(*digit))
    }
}
