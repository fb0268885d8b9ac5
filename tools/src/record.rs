//! `outbox-record FILE.svg PROGRAM…`: records what a program prints as a moving picture of a terminal, which any
//! browser shows without a script. `make picture` makes docs/images/demo.svg with it.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// What the picture shows at a time.
const ROWS: usize = 30;
const COLUMNS: usize = 104;
/// In pixels; DejaVu Sans Mono and its like are 0.6 times as wide as high.
const FONT: f64 = 14.0;
const ROW: f64 = 19.0;
const MARGIN: f64 = 14.0;
/// The longest pause before a line, so that starting servers do not bore.
const LONGEST: Duration = Duration::from_millis(1200);
/// The shortest time between two lines, so that lines that came at once can be told apart.
const SHORTEST: Duration = Duration::from_millis(160);
/// How long the last screen stands before the picture begins again.
const REST: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(program)) = (args.next(), args.next()) else {
        eprintln!("outbox-record FILE.svg PROGRAM [ARGUMENT…]");
        return ExitCode::from(2);
    };
    // Colour without a terminal: https://bixense.com/clicolors
    let mut child = Command::new(&program)
        .args(args)
        .env("CLICOLOR_FORCE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let (mut lines, mut now, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let line = line.expect("lines of text");
        println!("{line}");
        now += last.elapsed().clamp(SHORTEST, LONGEST);
        last = Instant::now();
        lines.push((now, line));
    }
    let status = child.wait().expect("it was started");
    if !status.success() {
        eprintln!("{program}: {status}; {file} is as it was");
        return ExitCode::FAILURE;
    }
    std::fs::write(&file, picture(&lines)).unwrap_or_else(|error| panic!("{file}: {error}"));
    ExitCode::SUCCESS
}

/// All lines below each other; the picture moves up by one as each comes.
fn picture(lines: &[(Duration, String)]) -> String {
    let (width, height) = (f64_of(COLUMNS) * FONT * 0.6 + 2.0 * MARGIN, f64_of(ROWS) * ROW + 2.0 * MARGIN);
    let whole = lines.last().map_or(REST, |(time, _)| *time + REST);
    let up = |shown: usize| (f64_of(ROWS) - f64_of(shown)) * ROW;
    let mut steps = format!("0% {{ transform: translateY({}px) }}\n", up(0));
    for (index, (time, _)) in lines.iter().enumerate() {
        let percent = 100.0 * time.as_secs_f64() / whole.as_secs_f64();
        let _ = writeln!(steps, "{percent:.2}% {{ transform: translateY({}px) }}", up(index + 1));
    }
    let mut text = String::new();
    for (index, (_, line)) in lines.iter().enumerate().filter(|(_, (_, line))| !line.is_empty()) {
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
.all {{ transform: translateY({end}px); animation: up {seconds}s step-end infinite }}
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
        end = up(lines.len()),
        seconds = whole.as_secs_f64().round(),
        screen = height - 2.0 * MARGIN,
    )
}

/// A line with ECMA-48's renditions as spans.
fn spans(line: &str) -> String {
    let mut out = String::new();
    for (index, part) in line.split("\x1b[").enumerate() {
        let (rendition, text) = if index == 0 { ("0", part) } else { part.split_once('m').unwrap_or(("0", part)) };
        let class = match rendition {
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
