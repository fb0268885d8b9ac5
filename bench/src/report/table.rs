//! Tables in Markdown, whose columns line up: figures with cases in rows and measures in columns.

use super::{Report, figure::number};

/// A table with up to this many measures shows the spread of each; a wider one only that of the first (the JSON has all
/// runs).
const MEASURES_WITH_SPREAD: usize = 4;

/// Rows under heads. The first column is words, the others are numbers.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Every row has as many cells as there are heads.
    pub(crate) fn new(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { heads: heads.iter().map(|&head| head.to_owned()).collect(), rows: rows.into_iter().collect() }
    }

    /// As Markdown.
    pub(crate) fn markdown(&self) -> String {
        let width = |column: usize| {
            let cells = std::iter::once(&self.heads).chain(&self.rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cell = |(column, (cell, &width)): (usize, (&String, &usize))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            };
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rules = widths.iter().enumerate();
        let rule =
            rules.map(|(column, width)| if column == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" });
        let lines: String = self.rows.iter().map(line).collect();
        format!("{}{}{lines}", line(&self.heads), line(&rule.collect()))
    }
}

/// The tables of a section: one, unless it has cases that share no measure with the first ones.
pub(crate) fn of_section(report: &Report, section: &str) -> Vec<Table> {
    let mut groups: Vec<Group> = Vec::new();
    for figure in report.section(section) {
        let (case, measure) = (figure.case.as_str(), (figure.measure.as_str(), figure.unit.as_str()));
        let place = groups.iter().position(|group| group.cases.contains(&case) || group.measures.contains(&measure));
        let place = place.unwrap_or(groups.len());
        if place == groups.len() {
            groups.push(Group::default());
        }
        if let Some(group) = groups.get_mut(place) {
            push_new(&mut group.cases, case);
            push_new(&mut group.measures, measure);
        }
    }
    groups.iter().map(|group| group.table(report, section)).collect()
}

/// Cases and their measures, with units, in the order in which they were measured.
#[derive(Default)]
struct Group<'a> {
    cases: Vec<&'a str>,
    measures: Vec<(&'a str, &'a str)>,
}

impl Group<'_> {
    fn table(&self, report: &Report, section: &str) -> Table {
        let cell = |case: &str, column: usize, measure: &str| match report.figure(section, case, measure) {
            None => "–".to_owned(),
            Some(figure) if column == 0 || self.measures.len() <= MEASURES_WITH_SPREAD => figure.with_spread(),
            Some(figure) => number(figure.median()),
        };
        let row = |&case: &&str| {
            let cells = self.measures.iter().enumerate().map(|(column, (measure, _))| cell(case, column, measure));
            std::iter::once(case.to_owned()).chain(cells).collect()
        };
        let heads = self.measures.iter().map(|(measure, unit)| format!("{measure} {unit}"));
        Table {
            heads: std::iter::once(String::new()).chain(heads).collect(),
            rows: self.cases.iter().map(row).collect(),
        }
    }
}

fn push_new<T: PartialEq>(known: &mut Vec<T>, item: T) {
    if !known.contains(&item) {
        known.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_rows_and_measures_columns_in_order_of_appearance() {
        let mut report = Report::default();
        for run in [4.0, 6.0] {
            report.add("latency", "outbox, 100/s", "p50", "ms", run);
            report.add("latency", "outbox, 100/s", "p99", "ms", run * 10.0);
        }
        report.add("latency", "broker alone", "p50", "ms", 500.0);
        let text: String = of_section(&report, "latency").iter().map(Table::markdown).collect();
        let expected = "
|               |           p50 ms |           p99 ms |
| ------------- | ---------------: | ---------------: |
| outbox, 100/s | 5.00 (4.00–6.00) | 50.0 (40.0–60.0) |
| broker alone  |              500 |                – |
";
        assert_eq!(text, expected.trim_start_matches('\n'));
    }

    #[test]
    fn cases_without_a_common_measure_have_tables_of_their_own() {
        let mut report = Report::default();
        for (case, measure) in
            [("many", "rate"), ("many", "WAL"), ("hot", "hot key rate"), ("hot", "other keys rate"), ("one", "rate")]
        {
            report.add("throughput", case, measure, "/s", 1.0);
        }
        let tables = of_section(&report, "throughput");
        let cases: Vec<Vec<&str>> =
            tables.iter().map(|table| table.rows.iter().map(|row| row[0].as_str()).collect()).collect();
        assert_eq!(cases, [vec!["many", "one"], vec!["hot"]]);
    }
}
