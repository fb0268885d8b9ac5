//! One figure, and how numbers are written for people.

use serde_json::{Value, json};

/// One quantity in one case, once for each run.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The benchmark's section, `throughput` for one.
    pub(crate) section: String,
    /// What varied: queue type, payload, number of keys, ….
    pub(crate) case: String,
    /// What was measured.
    pub(crate) measure: String,
    /// `/s`, `µs`, `ms`, `MB`, `B`, or `×` for a ratio.
    pub(crate) unit: String,
    /// In the order of the runs.
    pub(crate) runs: Vec<f64>,
}

impl Figure {
    /// The middle one, or the mean of the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.runs.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
    }

    /// Smallest and largest.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let least = self.runs.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }

    /// `26,700 (25,900–27,100)`; the median alone if there was one run.
    pub(crate) fn with_spread(&self) -> String {
        let median = number(self.median());
        if self.runs.len() < 2 {
            return median;
        }
        let (least, most) = self.spread();
        format!("{median} ({}–{})", number(least), number(most))
    }

    pub(crate) fn to_json(&self) -> Value {
        let (least, most) = self.spread();
        json!({
            "section": self.section, "case": self.case, "measure": self.measure, "unit": self.unit,
            "median": self.median(), "least": least, "most": most, "runs": self.runs,
        })
    }

    /// `None` if it is not one.
    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let word = |name| json.get(name).and_then(Value::as_str).map(str::to_owned);
        let runs = json.get("runs")?.as_array()?.iter().map(|run| run.as_f64().unwrap_or(f64::NAN)).collect();
        let (section, case, measure, unit) = (word("section")?, word("case")?, word("measure")?, word("unit")?);
        Some(Self { section, case, measure, unit, runs })
    }
}

/// Three digits that count, thousands set off: no benchmark on a shared machine is more exact than that.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".to_owned(),
        size if size >= 999.5 => {
            let step = 10_f64.powf(size.log10().floor() - 2.0);
            thousands(&format!("{:.0}", (value / step).round() * step))
        }
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `1000000` as `1,000,000`; what follows a decimal point stays.
pub(crate) fn thousands(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut set_off = String::new();
    for (index, digit) in number.char_indices() {
        let is_between = index > 0 && index < whole && !set_off.ends_with('-');
        if is_between && (whole - index).is_multiple_of(3) {
            set_off.push(',');
        }
        set_off.push(digit);
    }
    set_off
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(runs: &[f64]) -> Figure {
        let word = |text: &str| text.to_owned();
        Figure {
            section: word("throughput"),
            case: word("live"),
            measure: word("rate"),
            unit: word("/s"),
            runs: runs.into(),
        }
    }

    #[test]
    fn the_median_is_the_middle_run_or_between_the_two_in_the_middle() {
        for (runs, median) in [(&[3.0, 9.0, 1.0][..], 3.0), (&[4.0, 1.0, 2.0, 9.0], 3.0), (&[7.0], 7.0)] {
            assert!((figure(runs).median() - median).abs() < 1e-9, "{runs:?}");
        }
        assert!(figure(&[]).median().is_nan());
    }

    #[test]
    fn a_figure_is_shown_with_its_spread_if_it_has_one() {
        assert_eq!(figure(&[26_712.0, 25_938.0, 27_071.0]).with_spread(), "26,700 (25,900–27,100)");
        assert_eq!(figure(&[26_712.0]).with_spread(), "26,700");
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0.00"),
            (0.8349, "0.83"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (556.4, "556"),
            (999.7, "1,000"),
            (1_234.0, "1,230"),
            (48_951.0, "49,000"),
            (3_000_000.0, "3,000,000"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn thousands_are_set_off() {
        for (digits, text) in
            [("1", "1"), ("1000", "1,000"), ("100000", "100,000"), ("-100000", "-100,000"), ("1000.125", "1,000.125")]
        {
            assert_eq!(thousands(digits), text);
        }
    }

    #[test]
    fn a_figure_survives_being_saved() {
        let saved = Figure::from_json(&figure(&[1.5, 2.5]).to_json()).unwrap();
        assert_eq!((saved.case.as_str(), saved.runs), ("live", vec![1.5, 2.5]));
        assert!(Figure::from_json(&json!({ "case": "of nothing" })).is_none());
    }
}
