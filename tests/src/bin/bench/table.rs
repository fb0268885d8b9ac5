//! Tables: figures with cases in rows and measures in columns, as text and as Markdown.

use crate::{
    figure::Figure,
    report::{Report, in_order_of_appearance},
};

/// Up to so many measures fit on a line with the spread of each; of more, only the first is told with its spread (the others
/// are in the JSON).
const MEASURES_WITH_SPREAD: usize = 4;

/// What stands for a figure that is missing.
const NONE: &str = "–";

/// Rows under heads. Words are aligned left, numbers right.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    /// Columns of words; those behind them are numbers.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Every row has as many cells as there are heads.
    pub(crate) fn new(heads: &[&str], words: usize, rows: impl Iterator<Item = Vec<String>>) -> Self {
        Self { heads: heads.iter().map(|&head| head.to_owned()).collect(), words, rows: rows.collect() }
    }

    /// Columns that line up; heads are broken into lines between words.
    pub(crate) fn text(&self) -> String {
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let widths: Vec<usize> = (self.heads.iter().enumerate())
            .map(|(column, head)| {
                head.split(' ').chain(cells(column).map(String::as_str)).map(width).max().unwrap_or(0)
            })
            .collect();
        let heads: Vec<Vec<String>> =
            self.heads.iter().zip(&widths).map(|(head, &width)| broken(head, width)).collect();
        let height = heads.iter().map(Vec::len).max().unwrap_or(0);
        // Heads stand on the line below them: what is missing is missing at the top.
        let head = |line: usize| {
            heads
                .iter()
                .map(|head| (line + head.len()).checked_sub(height).and_then(|line| head.get(line)))
                .map(|part| part.cloned().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let rule: Vec<String> = widths.iter().map(|&width| "─".repeat(width)).collect();
        let head: Vec<_> = (0..height).map(head).collect();
        let lines = head.iter().chain([&rule]).chain(&self.rows).map(|row| self.aligned(row, &widths));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    }

    /// As Markdown renders it.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let sides = (0..self.heads.len()).map(|column| if column < self.words { "---|" } else { "---:|" });
        let rule: String = sides.collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rule}\n{rows}", line(&self.heads))
    }

    fn aligned(&self, row: &[String], widths: &[usize]) -> String {
        let cell = |(column, (cell, &wide)): (usize, (&String, &usize))| {
            let space = " ".repeat(wide.saturating_sub(width(cell)));
            if column < self.words { format!("{cell}{space}") } else { format!("{space}{cell}") }
        };
        let line = row.iter().zip(widths).enumerate().map(cell).collect::<Vec<_>>().join("  ");
        format!("  {}", line.trim_end())
    }
}

/// The tables of a section: one, unless it has cases that were measured in quite other ways than the first ones.
pub(crate) fn of_section(report: &Report, section: &str) -> Vec<Table> {
    let mut groups: Vec<Group> = Vec::new();
    for case in in_order_of_appearance(report.section(section).map(|figure| figure.case.as_str())) {
        let figures: Vec<&Figure> = report.section(section).filter(|figure| figure.case == case).collect();
        match groups.iter_mut().find(|group| group.takes(&figures)) {
            Some(group) => group.add(case, figures),
            None => groups.push(Group { measures: measures(&figures), rows: vec![(case, figures)] }),
        }
    }
    groups.iter().map(Group::table).collect()
}

/// Cases that share measures.
struct Group<'a> {
    /// With their units.
    measures: Vec<(&'a str, &'a str)>,
    rows: Vec<(&'a str, Vec<&'a Figure>)>,
}

impl<'a> Group<'a> {
    /// Whether most of what was measured has a column here, or every column has a figure.
    fn takes(&self, figures: &[&Figure]) -> bool {
        let known = measures(figures).iter().filter(|measure| self.measures.contains(measure)).count();
        2 * known > figures.len() || known == self.measures.len()
    }

    fn add(&mut self, case: &'a str, figures: Vec<&'a Figure>) {
        let mut column = 0; // a new measure stands behind the one it was measured after
        for measure in measures(&figures) {
            column = self.measures.iter().position(|known| *known == measure).unwrap_or_else(|| {
                self.measures.insert(column, measure);
                column
            }) + 1;
        }
        self.rows.push((case, figures));
    }

    fn table(&self) -> Table {
        let all_with_spread = self.measures.len() <= MEASURES_WITH_SPREAD;
        let row = |(case, figures): &(&str, Vec<&Figure>)| {
            let cell = |(column, measure): (usize, &(&str, &str))| {
                let figure = figures.iter().find(|figure| figure.measure == measure.0);
                let with_spread = all_with_spread || column == 0;
                let told = |figure: &&Figure| {
                    if with_spread { figure.with_spread() } else { crate::figure::number(figure.median()) }
                };
                figure.map_or_else(|| NONE.to_owned(), told)
            };
            std::iter::once((*case).to_owned()).chain(self.measures.iter().enumerate().map(cell)).collect()
        };
        let heads = self.measures.iter().map(|(measure, unit)| format!("{measure} {unit}"));
        Table {
            words: 1,
            heads: std::iter::once(String::new()).chain(heads).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

fn measures<'a>(figures: &[&'a Figure]) -> Vec<(&'a str, &'a str)> {
    figures.iter().map(|figure| (figure.measure.as_str(), figure.unit.as_str())).collect()
}

/// Lines of whole words, none wider than `width` unless a word is.
fn broken(text: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= wide => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Columns on a terminal: one for each character, as long as nobody names a case in Chinese.
fn width(text: &str) -> usize {
    text.chars().count()
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
        report.add("latency", "poller", "p50", "ms", 500.0);
        let text: String = of_section(&report, "latency").iter().map(Table::text).collect();
        let expected = "
                           p50 ms            p99 ms
  ─────────────  ────────────────  ────────────────
  outbox, 100/s  5.00 (4.00–6.00)  50.0 (40.0–60.0)
  poller                      500                 –
";
        assert_eq!(text, expected.trim_start_matches('\n'));
    }

    #[test]
    fn cases_measured_in_other_ways_have_a_table_of_their_own() {
        let mut report = Report::default();
        for (case, measure) in
            [("many", "rate"), ("many", "WAL"), ("hot", "hot key rate"), ("hot", "other keys rate"), ("one", "rate")]
        {
            report.add("throughput", case, measure, "/s", 1.0);
        }
        let cases: Vec<Vec<String>> = of_section(&report, "throughput")
            .iter()
            .map(|table| table.rows.iter().map(|row| row[0].clone()).collect())
            .collect();
        assert_eq!(cases, [vec!["many", "one"], vec!["hot"]]);
    }

    #[test]
    fn a_new_measure_stands_behind_the_one_it_was_measured_after() {
        let mut report = Report::default();
        for (case, measure) in
            [("backlog", "rate"), ("backlog", "WAL"), ("live", "rate"), ("live", "emit"), ("live", "WAL")]
        {
            report.add("throughput", case, measure, "µs", 1.0);
        }
        assert_eq!(of_section(&report, "throughput")[0].heads, ["", "rate µs", "emit µs", "WAL µs"]);
    }

    #[test]
    fn heads_are_broken_between_words() {
        assert_eq!(broken("relay's session CPU µs", 8), ["relay's", "session", "CPU µs"]);
    }

    #[test]
    fn markdown_has_one_line_a_row() {
        let table = Table::new(&["way", "CPU"], 1, [vec!["emit()".to_owned(), "12.3".to_owned()]].into_iter());
        assert_eq!(table.markdown(), "| way | CPU |\n|---|---:|\n| emit() | 12.3 |\n");
    }
}
