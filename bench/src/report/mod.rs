//! The figures: collected run by run, saved as JSON and read back.

mod figure;
mod machine;
mod plot;
pub(crate) mod present;
mod table;
mod targets;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(crate) use self::{
    figure::{Figure, number},
    machine::{Machine, load},
    table::Table,
};

/// All figures so far, and where they come from.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Where it was measured.
    pub(crate) machine: Machine,
    /// How often each figure was measured at most.
    pub(crate) runs: usize,
    /// Whether this was only a look at whether the benchmark works.
    pub(crate) quick: bool,
    figures: Vec<Figure>,
}

impl Report {
    /// How far figures are to be trusted.
    fn trust(&self) -> String {
        match (self.quick, self.runs) {
            (true, _) => "A quick look whether the benchmark works: the figures mean nothing.".to_owned(),
            (_, 1) => "One run.".to_owned(),
            (_, runs) => format!("Medians of {runs} runs; in brackets the least and the most."),
        }
    }

    /// One without figures.
    pub(crate) fn new(machine: Machine, runs: usize, quick: bool) -> Self {
        Self { machine, runs, quick, figures: Vec::new() }
    }

    /// Adds the value of one more run.
    pub(crate) fn add(&mut self, section: &str, case: &str, measure: &str, unit: &str, value: f64) {
        let names = (section, case, measure);
        let is_it = |figure: &&mut Figure| (&*figure.section, &*figure.case, &*figure.measure) == names;
        if let Some(figure) = self.figures.iter_mut().find(is_it) {
            figure.runs.push(value);
        } else {
            let [section, case, measure, unit] = [section, case, measure, unit].map(str::to_owned);
            self.figures.push(Figure { section, case, measure, unit, runs: vec![value] });
        }
    }

    /// The figure, if it was measured.
    pub(crate) fn figure(&self, section: &str, case: &str, measure: &str) -> Option<&Figure> {
        let names = (section, case, measure);
        self.figures.iter().find(|figure| (&*figure.section, &*figure.case, &*figure.measure) == names)
    }

    /// The value of the last run, if there was one.
    pub(crate) fn latest(&self, section: &str, case: &str, measure: &str) -> Option<f64> {
        self.figure(section, case, measure)?.runs.last().copied()
    }

    /// All of a section.
    pub(crate) fn section(&self, section: &str) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.section == section)
    }

    /// Names of the sections that have figures, in the order of measuring.
    pub(crate) fn sections(&self) -> Vec<&str> {
        let mut sections: Vec<&str> = self.figures.iter().map(|figure| figure.section.as_str()).collect();
        sections.dedup();
        sections
    }

    /// Writes all of it as JSON.
    pub(crate) fn save(&self, file: &Path) {
        let figures: Vec<Value> = self.figures.iter().map(Figure::to_json).collect();
        let report = json!({
            "machine": self.machine.to_json(), "runs": self.runs, "quick": self.quick,
            "figures": figures,
        });
        write(file, &format!("{report:#}\n"));
    }

    /// Reads what [`save`](Self::save) wrote.
    pub(crate) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let at = |name| json.get(name).unwrap_or(&Value::Null);
        let figures = at("figures").as_array().and_then(|all| all.iter().map(Figure::from_json).collect());
        Self {
            machine: Machine::from_json(at("machine")),
            runs: at("runs").as_u64().and_then(|runs| runs.try_into().ok()).unwrap_or(0),
            quick: at("quick").as_bool().unwrap_or(false),
            figures: figures.unwrap_or_else(|| panic!("{}: has no figures, or some that are none", file.display())),
        }
    }
}

/// Writes a file of the report's.
fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

/// `target/bench`.
pub(crate) fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = PathBuf::from(target).join("bench");
    std::fs::create_dir_all(&folder).expect("target/ is writable");
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_figure_are_kept_together() {
        let mut report = Report::default();
        for (case, rate) in [("a", 1.0), ("b", 5.0), ("a", 3.0)] {
            report.add("throughput", case, "rate", "/s", rate);
        }
        assert_eq!(report.figure("throughput", "a", "rate").unwrap().runs, [1.0, 3.0]);
        assert!(report.figure("throughput", "c", "rate").is_none());
        assert_eq!(report.section("throughput").count(), 2);
        assert_eq!(report.sections(), ["throughput"]);
    }

    #[test]
    fn a_report_survives_being_saved() {
        let file = std::env::temp_dir().join(format!("outbox-bench-{}.json", std::process::id()));
        let mut report = Report::new(Machine::default(), 3, true);
        report.add("idle", "10 s", "relay CPU", "µs", 300.0);
        report.save(&file);
        let read = Report::read(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!((read.runs, read.quick, read.sections()), (3, true, vec!["idle"]));
    }
}
