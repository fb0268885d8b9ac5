//! The capacity that docs/for-dbas.md reckons: the WAL of an event is what its script measures, and the example follows
//! from the figures above it.

use std::{io::Write, process::Stdio};

use harness::Postgres;

use super::{read, sql_under};

const PAGE: &str = "docs/for-dbas.md";
const RATES: [f64; 3] = [100.0, 1_000.0, 10_000.0];
const A_DAY: f64 = 86_400.0;
const GB: f64 = 1e9;
const MB: f64 = 1e6;

/// A row of the example: how it begins, and what it says at a rate.
type Reckoned<'a> = (&'a str, &'a dyn Fn(f64) -> Vec<f64>);

/// How far a measurement may be from what the page says: PostgreSQL's versions differ by a few bytes a record.
const TOLERANCE: f64 = 0.12;

/// The cells of the table that begins with such a row, row by row.
fn table(begins_with: &str) -> Vec<Vec<String>> {
    let text = read(PAGE);
    let rows = text.lines().skip_while(|line| !line.starts_with(begins_with)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The numbers of a cell, without separators: one, or the two of `10 to 22 GB`.
fn numbers(cell: &str) -> Vec<String> {
    cell.split_whitespace().map(|word| word.replace(',', "")).filter(|word| word.parse::<f64>().is_ok()).collect()
}

/// Whether the number is this value, rounded to as many places as it has.
fn is_rounded(number: &str, value: f64) -> bool {
    let places = number.split_once('.').map_or(0, |(_, places)| places.len());
    let is_exact = format!("{value:.places$}") == number;
    // From a hundred on, a number may be rounded to three digits.
    is_exact || value >= 100.0 && (number.parse::<f64>().unwrap() / value - 1.0).abs() < 0.005
}

/// Bytes of WAL an event, step by step and in all: without page images, with those after a checkpoint before each step,
/// and with those of a server that has data checksums.
fn wal() -> [Vec<f64>; 3] {
    let rows = table("| WAL of an event");
    [1, 2, 3].map(|at| rows.iter().map(|row| numbers(&row[at])[0].parse().unwrap()).collect())
}

#[tokio::test]
async fn the_wal_of_an_event_is_what_the_page_says() {
    let postgres = Postgres::private().start().await;
    let db = postgres.database().await;
    let blocks = sql_under(PAGE, "## WAL, archive, standbys");
    let script = blocks.iter().find(|block| block.contains("wal.measured")).expect("a script");
    let [without, with, with_checksums] = wal();
    let has_checksums = db.query_one("SHOW data_checksums", &[]).await.unwrap().get::<_, String>(0) == "on";
    let with = if has_checksums { with_checksums } else { with };
    let with_checkpoints = script.replace("INSERT INTO marks", "CHECKPOINT; INSERT INTO marks");
    for (script, told) in [(script, without), (&with_checkpoints, with)] {
        let mut psql = postgres.program("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", db.url()]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = psql.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).unwrap();
        let measured: Vec<f64> = output.lines().filter_map(|row| row.rsplit('|').next()?.parse().ok()).collect();
        assert_eq!(measured.len() + 1, told.len(), "{output}"); // The last row of the page is their sum.
        let (sum, told) = (measured.iter().sum::<f64>(), told[told.len() - 1]);
        assert!((sum / told - 1.0).abs() < TOLERANCE, "{measured:?} is {sum}, and the page says {told}");
    }
}

#[test]
fn the_example_of_capacity_follows_from_the_figures_of_an_event() {
    let columns = wal();
    for steps in &columns {
        let sum: f64 = steps[..steps.len() - 1].iter().sum();
        assert!((sum / steps[steps.len() - 1] - 1.0).abs() < 0.01, "{steps:?}");
    }
    let (least, most) = (*columns[0].last().unwrap(), *columns[2].last().unwrap());
    let text = read(PAGE);
    let costs = text.split_once("\n## What it costs\n").expect("a section").1;
    let cost = |what: &str| -> f64 {
        let line =
            costs.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap_or_else(|| panic!("{what}"));
        numbers(line.split('|').nth(2).unwrap())[0].parse().unwrap()
    };
    let row = cost("the table and its indexes");
    let postgres =
        ["`emit()`", "decoding", "a verdict", "deleting", "VACUUM"].iter().map(|what| cost(what)).sum::<f64>();
    let of_a_core = |micros: f64, rate: f64| micros * rate * 1e-6 * 100.0;
    let reckoned: [Reckoned<'_>; 8] = [
        ("table and indexes, for each day kept", &|rate| vec![row * rate * A_DAY / GB]),
        ("table and indexes, a week kept", &|rate| vec![row * rate * A_DAY * 7.0 / GB]),
        ("WAL a day, to archive", &|rate| vec![least * rate * A_DAY / GB, most * rate * A_DAY / GB]),
        ("WAL a second, to each standby", &|rate| vec![least * rate / MB, most * rate / MB]),
        ("rows that wait after an hour without a broker", &|rate| vec![row * rate * 3_600.0 / GB]),
        ("CPU of PostgreSQL", &|rate| vec![of_a_core(postgres, rate)]),
        ("CPU of the relay", &|rate| vec![of_a_core(cost("the relay"), rate)]),
        ("CPU of RabbitMQ", &|rate| vec![of_a_core(cost("RabbitMQ"), rate)]),
    ];
    let rows = table("| events a second");
    for (name, reckon) in reckoned {
        let cells = rows.iter().find(|row| row[0].starts_with(name)).unwrap_or_else(|| panic!("no row {name:?}"));
        for (rate, cell) in RATES.iter().zip(&cells[1..]) {
            let (numbers, values) = (numbers(cell), reckon(*rate));
            assert_eq!(numbers.len(), values.len(), "{name}: {cell}");
            for (number, value) in numbers.iter().zip(values) {
                assert!(is_rounded(number, value), "{name} at {rate}/s: the page has {number}, and it is {value}");
            }
        }
    }
}
