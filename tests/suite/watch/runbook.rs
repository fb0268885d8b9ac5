//! The pages for whoever is on call leave nothing out: each alert has its page, each warning its line; and what they
//! name is there.

use std::{collections::BTreeSet, fs, path::Path};

use harness::places::checkout;
use outbox_console::admin::metrics::{METRICS, Metric};

/// All source files below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// The text of each `warn!` in a source file: the last literal before the call ends.
fn warnings(source: &str) -> Vec<String> {
    let calls = source.split("warn!(").skip(1);
    let text = |call: &str| {
        let is_last = |at: &usize| call[at + 1..].trim_start().starts_with(')');
        let end = call.match_indices('"').map(|(at, _)| at).find(is_last)?;
        let begin = call[..end].rfind(['"', '{'])?;
        let text = call[begin + 1..end].replace("\\\n", "");
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    calls.filter_map(text).filter(|text| !text.ends_with('}')).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_warning_of_the_relay_has_its_line() {
    let page = read("docs/log-warnings.md");
    let mut files = Vec::new();
    for folder in ["amqp", "bin", "console", "core", "kafka", "replication", "service"] {
        sources(&checkout().join("relay").join(folder).join("src"), &mut files);
    }
    let told: BTreeSet<String> = files.iter().flat_map(|file| warnings(file)).collect();
    assert!(told.len() > 20, "the warnings are found: {told:?}");
    let missing: Vec<&String> = told.iter().filter(|text| !page.contains(&format!("`{text}`"))).collect();
    assert!(missing.is_empty(), "docs/log-warnings.md says nothing of: {missing:#?}");
}

/// The headings of an alert's page, in this order.
const HEADINGS: [&str; 7] = ["Meaning", "Impact", "Urgency", "Diagnosis", "Mitigation", "Do not", "Over when"];

/// An alert's page is read at night: it has no more lines than this.
const LINES: usize = 60;

#[test]
fn every_alert_has_its_page_and_a_line_where_one_begins() {
    let rules = read("ops/alerts.yml");
    let alerts: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let begin = read("docs/alerts.md");
    for alert in &alerts {
        let page = read(&format!("docs/alerts/{alert}.md"));
        assert!(page.starts_with(&format!("# {alert}: ")), "docs/alerts/{alert}.md is about another alert");
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, HEADINGS, "docs/alerts/{alert}.md");
        assert!(page.lines().count() <= LINES, "docs/alerts/{alert}.md has more than {LINES} lines");
        assert!(begin.contains(&format!("| [{alert}](alerts/{alert}.md) | ")), "docs/alerts.md does not list {alert}");
        // What readers replace stands in each line in the same form, so that one call of sed finds them all.
        let link = format!("runbook_url: https://outbox.invalid/docs/alerts/{alert}.md\n");
        assert!(rules.contains(&link), "ops/alerts.yml: {alert} names no page");
    }
    for entry in fs::read_dir(checkout().join("docs/alerts")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(alerts.contains(name), "docs/alerts/{name}.md is about no alert of ops/alerts.yml");
    }
}

#[test]
fn every_metric_that_alerts_and_their_pages_name_exists() {
    let shown: BTreeSet<String> = METRICS.iter().map(Metric::series).collect();
    let mut files: Vec<String> =
        ["ops/alerts.yml", "ops/alerts_test.yml", "ops/grafana.json", "docs/alerts.md", "docs/log-warnings.md"]
            .map(str::to_owned)
            .into();
    for folder in ["docs/alerts", "docs/run"] {
        let entries = fs::read_dir(checkout().join(folder)).unwrap().map(Result::unwrap);
        files.extend(entries.map(|entry| format!("{folder}/{}", entry.file_name().to_str().unwrap())));
    }
    for file in files {
        let text = read(&file);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names = text.split(|c| !is_part(c)).filter(|word| word.starts_with("outbox_"));
        for name in names.filter(|name| !NO_METRICS.contains(name)) {
            let series = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(
                shown.contains(name) || series.is_some_and(|series| shown.contains(series)),
                "{file} names {name}, which /metrics does not show"
            );
        }
    }
}

/// Names in these files that begin alike.
const NO_METRICS: [&str; 2] = ["outbox_relay", "outbox_undumped_changes"];
