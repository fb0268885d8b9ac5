//! Points in time as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time as RFC 3339 in UTC with milliseconds: `2026-01-31T08:00:00.000Z`. A time before 1970 is shown as
/// 1970-01-01.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The algorithm is Howard Hinnant's civil_from_days, <https://howardhinnant.github.io/date_algorithms.html>, with
    // years that begin in March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second, millis) = (second / 3600, second / 60 % 60, second % 60, since.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Whether the text is a time of ISO 8601, such as `2026-01-31`, `2026-01-31T08:00Z` or `2026-01-31 08:00:30.5+01:00`.
/// Other forms are rejected because the month of `11/12/2026` would depend on the role's `DateStyle`; the server checks
/// that the day exists.
pub(crate) fn is_moment(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let is_date = matches!(date.split('-').collect::<Vec<_>>()[..], [year, month, day]
        if is_number(year, 4) && is_number(month, 2) && is_number(day, 2));
    is_date && time.is_none_or(is_time)
}

fn is_time(text: &str) -> bool {
    let (clock, zone) = text.split_at(text.find(['Z', 'z', '+', '-']).unwrap_or(text.len()));
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let is_clock = (2..=3).contains(&parts.len()) && parts.iter().all(|part| is_number(part, 2));
    let is_fraction = |digits: &str| parts.len() == 3 && (1..=6).any(|length| is_number(digits, length));
    is_clock && fraction.is_none_or(is_fraction) && (zone.is_empty() || is_zone(zone))
}

/// Whether the text is a time zone: `Z`, `+01`, `+0100` or `+01:00`.
fn is_zone(text: &str) -> bool {
    let Some(hours) = text.strip_prefix(['+', '-']) else { return text.eq_ignore_ascii_case("Z") };
    let with_minutes = |(hours, minutes)| is_number(hours, 2) && is_number(minutes, 2);
    is_number(hours, 2) || is_number(hours, 4) || hours.split_once(':').is_some_and(with_minutes)
}

fn is_number(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_has_its_date_and_time() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_772_323_199_999, "2026-02-28T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn a_moment_is_written_as_iso_has_it_and_in_no_other_way() {
        for good in [
            "2026-01-31",
            "2026-01-31T08:00",
            "2026-01-31T08:00Z",
            "2026-01-31t08:00:59z",
            "2026-01-31 08:00:59.123456+01",
            "2026-01-31T08:00:59.1-0330",
            "2026-01-31 08:00+01:00",
        ] {
            assert!(is_moment(good), "{good:?}");
        }
        for bad in [
            "",
            "11/12/2026",
            "11-12-2026",
            "12.11.2026",
            "20261112",
            "Nov 12 2026",
            "2026-11",
            "2026-1-2",
            "yesterday",
            "now",
            "infinity",
            "08:00",
            "2026-01-31T",
            "2026-01-31T08",
            "2026-01-31T8:00",
            "2026-01-31T08:00 CET",
            "2026-01-31T08:00.5",
            "2026-01-31T08:00:00.",
            "2026-01-31T08:00+1",
            "2026-01-31T08:00Z BC",
            " 2026-01-31",
        ] {
            assert!(!is_moment(bad), "{bad:?}");
        }
    }
}
