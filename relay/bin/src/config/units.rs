//! Times and sizes as people write them.

use std::time::Duration;

/// Units of time in milliseconds, largest first, so that a value is shown in the largest unit that divides it.
const TIME_UNITS_MS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of size in bytes, powers of 1024 only: `MB` means 1024² bytes to PostgreSQL and 1000² to most other programs.
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses `200ms`, `10s`, `5m`, `1h`, `30d`. A number without a unit is rejected, except 0.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    parse(text, &TIME_UNITS_MS).map(Duration::from_millis)
}

/// The shortest exact form.
pub(super) fn show_time(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 { "0s".to_owned() } else { show(ms, &TIME_UNITS_MS) }
}

/// Parses `32MiB`, `1GiB`. A number without a unit is bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse(text, &SIZE_UNITS).or_else(|| parse(&format!("{text}B"), &SIZE_UNITS))
}

/// The shortest exact form.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS)
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(value: u64, units: &[(&str, u64)]) -> String {
    let (name, factor) = units.iter().find(|(_, factor)| value.is_multiple_of(*factor)).unwrap_or(&("", 1));
    format!("{}{name}", value / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("200ms", 200),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(parse_time(text), Some(Duration::from_millis(ms)), "{text:?}");
        }
        for bad in ["", "10", "s", "-1s", "1.5s", "10 s", "10S", "1w", "1m30s", "18446744073709551615h"] {
            assert_eq!(parse_time(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_size_is_bytes_or_has_a_binary_unit() {
        for (text, bytes) in
            [("0", 0), ("1024", 1024), ("7B", 7), ("1KiB", 1024), ("32MiB", 32 << 20), ("4GiB", 4 << 30)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text:?}");
        }
        for bad in ["", "B", "-1", "32MB", "32mib", "1.5GiB", "32 MiB", "18446744073709551615KiB"] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_largest_unit_that_fits_is_shown() {
        assert_eq!(show_time(Duration::from_secs(60)), "1m");
        assert_eq!(show_time(Duration::from_millis(1500)), "1500ms");
        assert_eq!(show_size(4 << 30), "4GiB");
        assert_eq!(show_size(1), "1B");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_same(ms in 0_u64..=u64::MAX / 2, bytes: u64) {
            prop_assert_eq!(parse_time(&show_time(Duration::from_millis(ms))), Some(Duration::from_millis(ms)));
            prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text: String) {
            let _ = (parse_time(&text), parse_size(&text));
        }
    }
}
