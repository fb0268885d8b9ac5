//! Shows the figures: tables and targets to standard output, a plot and Markdown beside the JSON.

use std::path::Path;

use super::{
    Report, plot,
    table::{self, Table},
    targets, write,
};

/// The tables of one section.
pub(crate) fn section(report: &Report, section: &str) {
    println!("\n{section}\n");
    for table in table::of_section(report, section) {
        println!("{}", table.markdown());
    }
}

/// Everything, and the two files, which have the JSON's name with other endings.
pub(crate) fn all(report: &Report, json: &Path) {
    println!("\n{}\n{}", report.machine.markdown(), report.trust());
    for name in report.sections() {
        section(report, name);
    }
    println!("\ntargets\n\n{}", targets::table(report).markdown());
    let (markdown, svg) = (json.with_extension("md"), json.with_extension("svg"));
    write(&markdown, &as_markdown(report));
    write(&svg, &plot::svg(report));
    println!("figures:  {}\nMarkdown: {}\nplot:     {}", json.display(), markdown.display(), svg.display());
}

/// Targets first, then every section, then the machine: to be pasted where it is wanted.
fn as_markdown(report: &Report) -> String {
    let mut text = format!("{}\n\n### Targets\n\n{}", report.trust(), targets::table(report).markdown());
    for section in report.sections() {
        let tables: Vec<String> = table::of_section(report, section).iter().map(Table::markdown).collect();
        text += &format!("\n### {section}\n\n{}", tables.join("\n"));
    }
    text + &format!("\n### Machine\n\n{}", report.machine.markdown())
}
