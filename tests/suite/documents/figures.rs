//! The figures of the documents: what is said of speed and cost stands in docs/benchmark.md, or follows from what
//! stands there.

use super::read;

/// Where documents tell what was measured: from the heading, or the words, to the next heading.
const TELL: [(&str, &str); 4] = [
    ("README.md", "`make bench` measures speed"),
    ("docs/for-dbas.md", "## What it costs"),
    ("docs/run/sizing.md", "# Sizing"),
    ("docs/emitting.md", "## In the transaction that changes the data"),
];

const A_DAY: f64 = 86_400.0;
const PERCENT: f64 = 100.0;

/// What is reckoned from figures of the benchmark: (figure, unit), from which figures, and how.
type Derived = ((&'static str, &'static str), &'static [(&'static str, &'static str)], fn(&[f64]) -> f64);

const DERIVED: [Derived; 8] = [
    (("406", "B"), &[("4056", "MB")], |of| of[0] * 1e6 / 10e6), // a row, of ten million that are kept
    (("206", "B"), &[("4056", "MB")], |of| of[0] * 1e6 / 10e6 - 200.0), // a row without its body
    (("4.2", "µs"), &[("4.2", "×")], |of| of[0]),               // what a bare cell of the retention table says
    (("35", "GB"), &[("4056", "MB")], |of| of[0] * 1e6 / 10e6 * 1_000.0 * A_DAY / 1e9), // rows of 1,000 events a second
    (("1", "%"), &[("5.3", "µs")], |of| of_a_core(of)),         // the relay's part, under
    (("2", "%"), &[("11", "µs"), ("4.9", "µs"), ("5.0", "µs")], |of| of_a_core(of)), // PostgreSQL's
    (("5", "%"), &[("51", "µs")], |of| of_a_core(of)),          // RabbitMQ's, which may also be 48
    (("1.5", "GB"), &[("4056", "MB")], |of| of[0] * 1e6 / 10e6 * 3.6e6 / 1e9), // rows of an hour
];

/// What so many µs an event take of a core at 1,000 events a second, in percent.
fn of_a_core(micros: &[f64]) -> f64 {
    micros.iter().sum::<f64>() * 1e-6 * 1_000.0 * PERCENT
}

/// What is no measurement: conditions, and examples of a setting.
const GIVEN: [(&str, &str); 3] = [("200", "B"), ("10", "kB"), ("10", "MB")];

#[derive(Debug, PartialEq)]
struct Figure {
    /// As it is written, without separators.
    number: String,
    unit: String,
}

impl Figure {
    fn value(&self) -> f64 {
        self.number.parse().unwrap()
    }

    /// Whether `exact` is this figure when it is rounded to as many places.
    fn is(&self, exact: f64) -> bool {
        let places = self.number.split_once('.').map_or(0, |(_, places)| places.len());
        format!("{exact:.places$}") == self.number
    }
}

/// Numbers that have a unit, also the first ones of `4 to 7 µs` and of `15 + 9 + 5 µs`.
fn figures(text: &str) -> Vec<Figure> {
    let words = text.split(|c: char| c.is_whitespace() || "|()–".contains(c)).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.map(|word| word.trim_end_matches([',', ';', '.', ':'])).collect();
    let mut figures = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let rate = word.strip_suffix("/s");
        let number = rate.unwrap_or(word).replace(',', "");
        if number.starts_with(|c: char| c.is_ascii_digit()) && number.parse::<f64>().is_ok() {
            waiting.push(number);
        }
        let next = words.get(at + 1).copied().unwrap_or_default();
        let unit = match *word {
            "µs" | "ms" | "B" | "kB" | "MB" | "GB" | "×" | "%" => word,
            _ if rate.is_some() => "/s",
            "a" if next.starts_with("second") => "/s",
            "to" | "+" | "events" => continue, // a unit may follow
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => continue,
            _ => {
                waiting.clear();
                continue;
            }
        };
        figures.extend(waiting.drain(..).map(|number| Figure { number, unit: unit.to_owned() }));
    }
    figures
}

/// Numbers in a table's cells whose unit is in the column's head: rates, and ratios.
fn bare_cells(text: &str) -> Vec<Figure> {
    let cells = text.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('|'));
    let firsts = cells.filter_map(|cell| cell.split_whitespace().next()).map(|word| word.replace(',', ""));
    firsts
        .filter(|number| number.parse::<f64>().is_ok())
        .flat_map(|number| ["/s", "×"].map(|unit| Figure { number: number.clone(), unit: unit.to_owned() }))
        .collect()
}

#[test]
fn every_figure_of_speed_and_cost_stands_in_the_benchmarks_document_or_follows_from_it() {
    let mut measured = figures(&read("docs/benchmark.md"));
    measured.extend(bare_cells(&read("docs/benchmark.md")));
    // The WAL of an event, and of a day: capacity.rs compares these sections with a measurement.
    let for_dbas = read("docs/for-dbas.md");
    let is_wal = |section: &&str| section.starts_with("WAL, archive, standbys\n") || section.starts_with("Capacity\n");
    let wal: Vec<&str> = for_dbas.split("\n## ").filter(is_wal).collect();
    assert_eq!(wal.len(), 2, "docs/for-dbas.md has other headings");
    measured.extend(wal.into_iter().flat_map(figures));
    assert!(measured.len() > 150, "{measured:?}");
    let (mut count, mut unfounded) = (0, Vec::new());
    for (document, begin) in TELL {
        let text = read(document);
        let at = text.find(begin).unwrap_or_else(|| panic!("{document} has no {begin:?}"));
        let section = text[at..].split("\n## ").find(|section| !section.trim().is_empty()).unwrap();
        for figure in figures(section) {
            count += 1;
            let is_measured = measured.iter().any(|other| other.unit == figure.unit && figure.is(other.value()));
            let is_given = GIVEN.contains(&(&figure.number, &figure.unit));
            let is_derived = DERIVED.iter().any(|((number, unit), from, how)| {
                let values: Vec<f64> = from.iter().map(|(number, _)| number.parse().unwrap()).collect();
                let stands = |(number, unit): &(&str, &str)| {
                    measured.iter().any(|figure| figure.number == *number && figure.unit == *unit)
                };
                *number == figure.number && *unit == figure.unit && from.iter().all(stands) && figure.is(how(&values))
            });
            if !(is_measured || is_given || is_derived) {
                unfounded.push(format!("{document}: {} {}", figure.number, figure.unit));
            }
        }
    }
    assert!(unfounded.is_empty(), "not in docs/benchmark.md, and not derived from it: {unfounded:?}");
    assert!(count > 30, "{count} figures");
}

#[test]
fn a_figure_is_read_with_its_unit_however_it_is_written() {
    let text = "takes 4 to 7 µs, 15 + 9 + 5 µs of CPU; 29,400 events a second (0.69 ×) | 1,530/s | 24,400 beside PostgreSQL 15.";
    let read: Vec<String> = figures(text).into_iter().map(|figure| figure.number + " " + &figure.unit).collect();
    assert_eq!(read, ["4 µs", "7 µs", "15 µs", "9 µs", "5 µs", "29400 /s", "0.69 ×", "1530 /s"]);
    let figure = |number: &str| Figure { number: number.to_owned(), unit: "µs".to_owned() };
    assert!(figure("9").is(8.8) && figure("8.8").is(8.8) && !figure("8.7").is(8.8));
}
