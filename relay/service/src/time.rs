//! Lengths of time and points in time, as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use jiff::Timestamp;
use jiff::{
    Span, SpanRelativeTo, SpanRound, Unit, civil,
    fmt::{friendly::SpanParser, temporal::Pieces},
    tz::Offset,
};

/// The units of [`parse`], in words.
pub const UNITS: &str = "ms, s, m, h, d or w";

/// Longest time that is read or shown: 10,000 days.
const LONGEST: Duration = Duration::from_hours(24 * 10_000);

/// Parses a length of time such as `200ms`, `10s`, `1h 30m` or `4w`, in whole milliseconds and of at most 10,000 days.
/// A number without a unit is `None`, except 0; so are months and years, whose length is not certain.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let span = SpanParser::new().parse_span(text).ok()?;
    let time = Duration::try_from(span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?).ok()?;
    // The parser would also take `08:30:00`, which most people write for a time of day.
    let is_plain = !text.contains(':') && time.subsec_nanos().is_multiple_of(1_000_000);
    (is_plain && time <= LONGEST).then_some(time)
}

/// Returns the length of time to the millisecond, as [`parse`] reads it: `1h 30m`.
pub fn exact(time: Duration) -> String {
    show(time, Unit::Millisecond)
}

/// Returns about how long a time is, in one or two units: `0.2s`, `45s`, `3m 20s`, `2h 5m`, `6d 3h`.
pub fn age(time: Duration) -> String {
    match time.as_secs() {
        _ if time < Duration::from_millis(9950) => format!("{:.1}s", time.as_secs_f64()),
        ..3600 => show(time, Unit::Second),
        3600..86_400 => show(time, Unit::Minute),
        _ => show(time, Unit::Hour),
    }
}

fn show(time: Duration, smallest: Unit) -> String {
    let rounding = SpanRound::new().largest(Unit::Day).smallest(smallest).days_are_24_hours();
    let span = Span::try_from(time.min(LONGEST)).and_then(|span| span.round(rounding));
    span.unwrap_or_default().to_friendly() // the error is that of longer times
}

/// Converts seconds, as SQL has them. A negative length counts as 0.
pub fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Parses a time of ISO 8601, such as `2026-01-31`, `2026-01-31T08:00Z` or `2026-01-31 08:00:30.5+01:00`; UTC unless it
/// says otherwise.
pub fn moment(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok().filter(|pieces| pieces.time_zone_annotation().is_none())?;
    let time = pieces.date().to_datetime(pieces.time().unwrap_or_default());
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    offset.to_timestamp(time).ok().filter(|_| time.year() > 0)
}

/// Formats a time as RFC 3339 in UTC with milliseconds: `2026-01-31T08:00:00.000Z`. A time before 1970 is shown as
/// 1970-01-01.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // A Timestamp cannot be as late as certificates that never expire: 9999-12-31T23:59:59Z.
    format!("{:.3}Z", civil::date(1970, 1, 1).at(0, 0, 0, 0).saturating_add(since))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_of_time_is_numbers_with_units() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("200ms", 200),
            ("90s", 90_000),
            ("5m", 300_000),
            ("5 min", 300_000),
            ("1.5h", 5_400_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("30d", 2_592_000_000),
            ("4w", 2_419_200_000),
            ("10000d", 864_000_000_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_certain_length_of_time_is_refused() {
        for bad in ["", "10", "s", "1h30", "30m 1h", "10S", "7D", "yesterday", "5 parsecs", "08:30:00", "P1D"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        for bad in ["1mo", "1M", "1y", "-1s", "1h ago", "10001d", "18446744073709551615h", "0.5ms", "5us", "5ns"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_setting_is_shown_to_the_millisecond() {
        for (ms, shown) in [(0, "0s"), (200, "200ms"), (1500, "1s 500ms"), (60_000, "1m"), (2_592_000_000, "30d")] {
            assert_eq!(exact(Duration::from_millis(ms)), shown);
        }
    }

    #[test]
    fn an_age_has_the_two_units_that_matter() {
        for (length, shown) in [
            (-3.0, "0.0s"),
            (0.23, "0.2s"),
            (9.96, "10s"),
            (59.4, "59s"),
            (59.6, "1m"),
            (200.0, "3m 20s"),
            (3660.0, "1h 1m"),
            (86_399.0, "1d"),
            (529_200.0, "6d 3h"),
            (1e30, "10000d"),
        ] {
            assert_eq!(age(seconds(length)), shown);
        }
    }

    #[test]
    fn a_moment_has_its_date_and_time() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_772_323_199_999, "2026-02-28T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn a_moment_is_written_as_iso_has_it_and_in_no_other_way() {
        for (text, utc) in [
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("20260131", "2026-01-31T00:00:00Z"),
            ("2026-01-31T08", "2026-01-31T08:00:00Z"),
            ("2026-01-31T08:00Z", "2026-01-31T08:00:00Z"),
            ("2026-01-31t08:00:59z", "2026-01-31T08:00:59Z"),
            ("2026-01-31 08:00:59.123456+01", "2026-01-31T07:00:59.123456Z"),
            ("2026-01-31T08:00:59.1-0330", "2026-01-31T11:30:59.1Z"),
            ("2026-01-31 08:00+01:00", "2026-01-31T07:00:00Z"),
        ] {
            assert_eq!(moment(text).map(|time| time.to_string()).as_deref(), Some(utc), "{text:?}");
        }
        for bad in [
            "",
            "11/12/2026",
            "11-12-2026",
            "12.11.2026",
            "Nov 12 2026",
            "2026-11",
            "2026-1-2",
            "2026-02-30",
            "-000001-01-01",
            "yesterday",
            "now",
            "infinity",
            "08:00",
            "2026-01-31T",
            "2026-01-31T8:00",
            "2026-01-31T08:00 CET",
            "2026-01-31T08:00[Europe/Paris]",
            "2026-01-31T08:00.5",
            "2026-01-31T08:00:00.",
            "2026-01-31T08:00+1",
            "2026-01-31T08:00Z BC",
            " 2026-01-31",
        ] {
            assert_eq!(moment(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_exactly_reads_back_as_the_same(ms in 0_u64..=864_000_000_000) {
            let time = Duration::from_millis(ms);
            prop_assert_eq!(parse(&exact(time)), Some(time));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text: String) {
            let _ = (parse(&text), moment(&text));
        }
    }
}
