//! The runbook, docs/operations.md, leaves nothing out; and the alerts name what there is.

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

#[test]
fn every_warning_of_the_relay_is_in_the_runbook() {
    let runbook = fs::read_to_string(checkout().join("docs/operations.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["amqp", "bin", "console", "core", "replication", "service"] {
        sources(&checkout().join("relay").join(folder).join("src"), &mut files);
    }
    let told: BTreeSet<String> = files.iter().flat_map(|file| warnings(file)).collect();
    assert!(told.len() > 20, "the warnings are found: {told:?}");
    let missing: Vec<&String> = told.iter().filter(|text| !runbook.contains(&format!("`{text}`"))).collect();
    assert!(missing.is_empty(), "docs/operations.md, section Runbook, says nothing of: {missing:#?}");
}

#[test]
fn every_alert_has_its_section_in_the_runbook_and_every_metric_it_names_exists() {
    let runbook = fs::read_to_string(checkout().join("docs/operations.md")).unwrap();
    let shown: BTreeSet<String> = METRICS.iter().map(Metric::series).collect();
    let alerts = fs::read_to_string(checkout().join("ops/alerts.yml")).unwrap();
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(runbook.contains(&format!("\n### {alert}\n")), "docs/operations.md has no section {alert}");
        let link = format!("runbook: docs/operations.md#{}\n", alert.to_lowercase());
        assert!(alerts.contains(&link), "ops/alerts.yml: {alert} names no section");
    }
    for file in ["ops/alerts.yml", "ops/alerts_test.yml", "ops/grafana.json", "docs/operations.md"] {
        let text = fs::read_to_string(checkout().join(file)).unwrap();
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

/// Names in docs/operations.md that begin alike.
const NO_METRICS: [&str; 3] = ["outbox_relay", "outbox_status", "outbox_undumped_changes"];
