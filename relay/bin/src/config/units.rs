//! Times and sizes as people write them.

pub(super) use outbox_service::time::{UNITS as TIME_UNITS, exact as show_time, parse as parse_time};

/// Units of size in bytes, powers of 1024 only: `MB` means 1024² bytes to PostgreSQL and 1000² to most other programs.
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses `32MiB`, `1GiB`. A number without a unit is bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit || unit.is_empty() && *name == "B")?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The shortest exact form.
pub(super) fn show_size(bytes: u64) -> String {
    let (name, factor) = SIZE_UNITS.iter().find(|(_, factor)| bytes.is_multiple_of(*factor)).unwrap_or(&("", 1));
    format!("{}{name}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(show_size(4 << 30), "4GiB");
        assert_eq!(show_size(1), "1B");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_same(bytes: u64) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            let _ = parse_size(&text);
        }
    }
}
