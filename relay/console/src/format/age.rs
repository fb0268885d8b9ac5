//! Lengths of time for people, in the two largest units.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// Formats seconds as `0.2s`, `45s`, `3m 20s`, `2h 5m`, `6d 3h`. A negative length counts as 0.
pub(crate) fn age(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{:.1}s", seconds.max(0.0));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and saturating for what no clock shows"
    )]
    let whole = seconds.round() as u64;
    let (at, (name, size)) = UNITS.iter().enumerate().find(|(_, (_, size))| whole >= *size).unwrap_or((4, &("s", 1)));
    let first = format!("{}{name}", whole / size);
    match UNITS.get(at + 1) {
        Some((next, next_size)) if whole % size >= *next_size => format!("{first} {}{next}", whole % size / next_size),
        _ => first,
    }
}

/// Returns the seconds that `10s`, `5m`, `2h`, `7d` or `4w` mean; `None` for any other text.
pub(crate) fn parse_age(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*size).filter(|seconds| *seconds <= 10_000 * 86_400)
}

/// Parses an option that is a length of time, such as `10s`.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    parse_age(text)
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a time of 1 s or more with a unit, as in 10s, 5m, 2h, 7d or 4w".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_the_two_units_that_matter() {
        for (seconds, shown) in [
            (-3.0, "0.0s"),
            (0.23, "0.2s"),
            (9.96, "10s"),
            (59.4, "59s"),
            (200.0, "3m 20s"),
            (3600.0, "1h"),
            (3660.0, "1h 1m"),
            (529_200.0, "6d 3h"),
            (1e30, "30500568904943w"),
        ] {
            assert_eq!(age(seconds), shown);
        }
    }

    #[test]
    fn a_time_ago_is_a_number_with_a_unit() {
        assert_eq!([parse_age("90s"), parse_age("2h"), parse_age("7d")], [Some(90), Some(7200), Some(604_800)]);
        for bad in ["", "7", "d", "-1d", "1.5h", "1h30m", "7D", "yesterday", "99999999999999999999s", "10001d"] {
            assert_eq!(parse_age(bad), None, "{bad:?}");
        }
    }
}
