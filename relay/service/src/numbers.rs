//! Numbers and sizes for people: in sentences, tables and pages.

/// The number with commas between thousands: `12,418`.
pub fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut shown = if number < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// The number with its noun, in the singular or plural: `1 event`, `12,418 events`.
pub fn count(number: i64, singular: &str) -> String {
    format!("{} {singular}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// A number of bytes, such as `8 MB`, in the units of PostgreSQL's `pg_size_pretty`: powers of 1024.
pub fn bytes(number: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (number.unsigned_abs(), 0);
    while size >= 10 * 1024 && unit + 1 < UNITS.len() {
        size = size.div_ceil(1024);
        unit += 1;
    }
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{size} {}", UNITS.get(unit).unwrap_or(&"bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let shown: Vec<String> = [0, 999, 1000, 12_418, -1_234_567].map(thousands).into();
        assert_eq!(shown, ["0", "999", "1,000", "12,418", "-1,234,567"]);
        assert_eq!([count(1, "event"), count(2000, "event")], ["1 event", "2,000 events"]);
    }

    #[test]
    fn bytes_have_the_unit_that_leaves_few_digits() {
        let shown: Vec<String> = [0, 10_239, 10_240, 8 << 20, 100 << 30, -20_480].map(bytes).into();
        assert_eq!(shown, ["0 bytes", "10239 bytes", "10 kB", "8192 kB", "100 GB", "-20 kB"]);
    }
}
