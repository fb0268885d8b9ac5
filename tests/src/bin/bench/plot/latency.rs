//! Commit to consumer, on a logarithmic axis: four powers of ten lie between the outbox and a poller.

use super::{
    OTHERS, Of,
    svg::{BAR, INK, LEFT, MUTED, RIGHT, ROW, SMALL, Svg},
};
use crate::{figure::number, report::Report};

/// The cases by their names in the plot.
const ROWS: [(&str, Of, &str); 6] = [
    ("outbox, 100/s", Of::Outbox, "outbox, 100/s"),
    ("outbox, 1,000/s", Of::Outbox, "outbox, 1000/s"),
    ("outbox, half of its maximum", Of::Outbox, "outbox, half of maximum"),
    ("pg-transactional-outbox, 100/s", Of::Others, "pg-transactional-outbox, 100/s"),
    ("poller every 50 ms, 100/s", Of::Others, "poller every 50 ms, 100/s"),
    ("poller every 1 s, 100/s", Of::Others, "poller every 1 s, 100/s"),
];

/// Draws it below `top`, returns where it ends.
pub(super) fn draw(svg: &mut Svg, report: &Report, top: f64) -> f64 {
    let median = |case, measure| report.figure("latency", case, measure).map(|figure| figure.median());
    let rows: Vec<_> = (ROWS.iter())
        .filter_map(|&(name, of, case)| Some((name, of, median(case, "p50")?, median(case, "p99")?)))
        .filter(|&(_, _, p50, p99)| p50 > 0.0 && p99.is_finite())
        .collect();
    if rows.is_empty() {
        return top;
    }
    svg.panel(top, "Latency from commit to consumer", "p50 (ring) to p99 (dot), ms, logarithmic");

    let least = rows.iter().map(|row| row.2.log10()).fold(f64::INFINITY, f64::min).floor();
    let most = rows.iter().map(|row| row.3.log10()).fold(least + 1.0, f64::max).ceil();
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms.log10() - least) / (most - least);
    let first = top + 40.0;
    let bottom = rows.iter().fold(first, |y, _| y + ROW);
    let mut power = least;
    while power <= most {
        let ms = 10_f64.powf(power);
        svg.line((x(ms), first - 4.0), (x(ms), bottom - 4.0), "#eaeef2", 1.0);
        svg.centred((x(ms), bottom + 11.0), SMALL, MUTED, &axis(ms));
        power += 1.0;
    }
    let mut y = first;
    for (name, of, p50, p99) in rows {
        let colour = if of.colour() == OTHERS { MUTED } else { of.colour() };
        let middle = y + BAR / 2.0;
        svg.label(y, name);
        svg.line((x(p50), middle), (x(p99), middle), colour, 3.0);
        svg.dot((x(p50), middle), 5.0, "#ffffff", colour);
        svg.dot((x(p99), middle), 5.0, colour, colour);
        svg.text((RIGHT + 14.0, middle + 4.5), 12.5, INK, &format!("{} … {}", number(p50), number(p99)));
        y += ROW;
    }
    bottom + 26.0
}

/// `0.1 ms`, `1 s`.
fn axis(ms: f64) -> String {
    if ms < 999.0 { format!("{} ms", round(ms)) } else { format!("{} s", round(ms / 1000.0)) }
}

/// A power of ten without what floating point adds to it.
fn round(power: f64) -> f64 {
    (power * 1000.0).round() / 1000.0
}
