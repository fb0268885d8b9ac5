//! Whole numbers, sizes and times, each within a range.

use std::{marker::PhantomData, time::Duration};

use super::{Kind, expected};
use crate::config::units::{TIME_UNITS, parse_size, parse_time, show_size, show_time};

/// Generates a kind of numbers from how a text is read, and from words for a range.
macro_rules! number {
    ($(#[doc = $doc:literal] $name:ident, $parse:expr, $placeholder:literal, $allowed:expr;)+) => {
        $(
            #[doc = $doc]
            pub(crate) struct $name<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

            impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Kind for $name<T, MIN, MAX> {
                type Value = T;

                fn parse(text: &str) -> Result<T, String> {
                    let number: Option<u64> = $parse(text).filter(|number| (MIN..=MAX).contains(number));
                    number.and_then(|number| number.try_into().ok()).ok_or_else(expected::<Self>)
                }

                fn allowed() -> String {
                    $allowed(MIN, MAX)
                }

                fn placeholder() -> &'static str {
                    $placeholder
                }
            }
        )+
    };
}

number! {
    /// Whole numbers. Digits only: `from_str` alone would accept a plus sign.
    Count, |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten(), "N",
        |min, max| format!("a whole number from {min} to {max}");
    /// Bytes.
    Size, parse_size, "SIZE",
        |min, max| format!("a size from {} to {} (B, KiB, MiB or GiB)", show_size(min), show_size(max));
}

/// Lengths of time, within a range in milliseconds.
pub(crate) struct Time<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Kind for Time<MIN, MAX> {
    type Value = Duration;

    fn parse(text: &str) -> Result<Duration, String> {
        let range = Duration::from_millis(MIN)..=Duration::from_millis(MAX);
        parse_time(text).filter(|time| range.contains(time)).ok_or_else(expected::<Self>)
    }

    fn allowed() -> String {
        let [min, max] = [MIN, MAX].map(|ms| show_time(Duration::from_millis(ms)));
        format!("a time from {min} to {max} ({TIME_UNITS})")
    }

    fn placeholder() -> &'static str {
        "TIME"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_digits_within_its_range() {
        let read = Count::<usize, 1, 1000>::parse;
        assert_eq!((read("1"), read("1000")), (Ok(1), Ok(1000)));
        for bad in ["", "0", "1001", "-1", "+1", "1.5", "1_000", " 1", "ten", "99999999999999999999999"] {
            assert_eq!(read(bad), Err("expected a whole number from 1 to 1000".to_owned()), "{bad:?}");
        }
    }
}
