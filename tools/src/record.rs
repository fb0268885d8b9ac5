//! `outbox-record FILE.svg STEPS PROGRAM…`: records what a program prints in some of its steps, such as 2456, as a
//! moving picture of a terminal, which any browser shows without a script. `make picture` makes docs/images/demo.svg
//! with it.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio},
};

/// What the picture shows at a time.
const ROWS: usize = 18;
const COLUMNS: usize = 90;
/// In pixels; DejaVu Sans Mono and its like are 0.6 times as wide as high.
const FONT: f64 = 14.0;
const ROW: f64 = 19.0;
const MARGIN: f64 = 14.0;
/// How long what came last stands before more comes, in seconds.
const PAUSE: f64 = 2.0;
/// How long the first screen stands, which is full, and the last, in seconds.
const REST: f64 = 8.0;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(steps), Some(program)) = (args.next(), args.next(), args.next()) else {
        eprintln!("outbox-record FILE.svg STEPS PROGRAM [ARGUMENT…]");
        return ExitCode::from(2);
    };
    // Colour without a terminal: https://bixense.com/clicolors
    let mut child = Command::new(&program)
        .args(args)
        .env("CLICOLOR_FORCE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut lines: Vec<String> = Vec::new();
    let mut is_chosen = false;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let mut line = line.expect("lines of text");
        println!("{line}");
        if let Some(heading) = line.strip_prefix("\x1b[1m") {
            // The number of a step, which is left out with the steps before it.
            let title = heading.trim_start_matches(|first: char| steps.contains(first) || first == ' ');
            is_chosen = title != heading;
            if is_chosen && !lines.is_empty() {
                lines.push(String::new());
            }
            line = format!("\x1b[1m{title}");
        }
        if is_chosen && !line.is_empty() {
            lines.push(line);
        }
    }
    let status = child.wait().expect("it was started");
    if !status.success() || lines.len() < ROWS {
        eprintln!("{program}: {status}; {file} is as it was");
        return ExitCode::FAILURE;
    }
    std::fs::write(&file, picture(&lines)).unwrap_or_else(|error| panic!("{file}: {error}"));
    ExitCode::SUCCESS
}

/// All lines below each other; the picture begins full, and moves up by what comes next.
fn picture(lines: &[String]) -> String {
    let (width, height) = (f64_of(COLUMNS) * FONT * 0.6 + 2.0 * MARGIN, f64_of(ROWS) * ROW + 2.0 * MARGIN);
    let up = |shown: usize| (f64_of(ROWS) - f64_of(shown)) * ROW;
    let is_empty = |index: usize| lines.get(index).is_some_and(String::is_empty);
    let holds = |index: usize| lines.get(index).is_some_and(|line| line.contains('✓'));
    // A heading comes with the first line below it, and what holds with the line above.
    let is_begin = |index: usize| is_empty(index) || !holds(index) && !is_empty(index - 1) && !is_empty(index - 2);
    let begins = (ROWS + 1..lines.len()).filter(|index| is_begin(*index));
    let shown: Vec<usize> = [ROWS].into_iter().chain(begins).chain([lines.len()]).collect();
    let whole = 2.0 * REST + PAUSE * f64_of(shown.len().saturating_sub(2));
    let mut steps = String::new();
    for (index, shown) in shown.iter().enumerate() {
        let seconds = if index == 0 { 0.0 } else { REST + PAUSE * f64_of(index - 1) };
        let _ = writeln!(steps, "{:.2}% {{ transform: translateY({}px) }}", 100.0 * seconds / whole, up(*shown));
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let baseline = MARGIN + (f64_of(index) + 0.75) * ROW;
        let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"{baseline}\" xml:space=\"preserve\">{}</text>", spans(line));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
        width=\"{width}\" height=\"{height}\">
<style>
text {{ font: {FONT}px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d8dee9 }}
.bold {{ font-weight: bold; fill: #fff }}
.dim {{ fill: #8892a6 }}
.green {{ fill: #7ec16e }}
.all {{ animation: up {whole}s step-end infinite }}
@media (prefers-reduced-motion) {{ .all {{ animation: none }} }}
@keyframes up {{
{steps}}}
</style>
<clipPath id=\"screen\"><rect x=\"0\" y=\"{MARGIN}\" width=\"{width}\" height=\"{screen}\"/></clipPath>
<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1b2130\"/>
<g clip-path=\"url(#screen)\"><g class=\"all\">
{text}</g></g>
</svg>
",
        screen = height - 2.0 * MARGIN,
    )
}

/// A line with ECMA-48's renditions as spans. The time at its end is left out, since a debug build's says nothing of a
/// release.
fn spans(line: &str) -> String {
    let mut out = String::new();
    for (index, part) in line.split("\x1b[").enumerate() {
        let (rendition, text) = if index == 0 { ("0", part) } else { part.split_once('m').unwrap_or(("0", part)) };
        let class = match rendition {
            "1" if text.starts_with(' ') => break,
            "1" => "bold",
            "2" => "dim",
            "32" => "green",
            _ => "",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if class.is_empty() || text.is_empty() {
            out.push_str(&text);
        } else {
            let _ = write!(out, "<tspan class=\"{class}\">{text}</tspan>");
        }
    }
    out
}

#[allow(clippy::cast_precision_loss, reason = "rows and columns of a terminal")]
fn f64_of(count: usize) -> f64 {
    count as f64
}
