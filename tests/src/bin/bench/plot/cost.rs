//! Where the CPU time of an event goes.

use super::{
    BACKLOG, LIVE, OUTBOX,
    svg::{BAR, INK, LEFT, MUTED, RIGHT, ROW, SMALL, Svg, wide},
};
use crate::{figure::number, report::Report};

/// Measures in the order of the way of an event, with their names in the plot and the colours of bar and letters.
const PARTS: [(&str, &str, &str, &str); 6] = [
    ("emit CPU", "PostgreSQL: emit", "#4f3fa8", "#ffffff"),
    ("walsender CPU", "decode", "#7d6fd1", "#ffffff"),
    ("relay's session CPU", "settle", "#b3a8ec", INK),
    ("other PostgreSQL CPU", "other", "#dcd6f7", INK),
    ("relay CPU", "relay", OUTBOX, "#ffffff"),
    ("broker CPU", "RabbitMQ", "#e8833a", "#ffffff"),
];

/// Draws it below `top`, returns where it ends.
pub(super) fn draw(svg: &mut Svg, report: &Report, top: f64) -> f64 {
    let parts =
        |case| PARTS.map(|part| report.figure("throughput", case, part.0).map_or(0.0, |it| it.median().max(0.0)));
    let rows: Vec<_> = [("live load", parts(LIVE)), ("backlog", parts(BACKLOG))]
        .into_iter()
        .filter(|(_, parts)| parts.iter().sum::<f64>() > 0.0)
        .collect();
    let most = rows.iter().map(|(_, parts)| parts.iter().sum()).fold(0.0, f64::max);
    if rows.is_empty() {
        return top;
    }
    svg.panel(top, "Where the CPU time goes", "µs an event, user and system");

    let mut y = top + 40.0;
    for (name, parts) in &rows {
        svg.label(y + 2.0, name);
        let mut x = LEFT;
        for (part, (_, _, colour, letters)) in parts.iter().zip(PARTS) {
            let width = (RIGHT - LEFT) * part / most;
            svg.rectangle((x, y), (width, BAR + 4.0), 0.0, colour);
            let text = number(*part);
            if width > wide(&text, SMALL) + 4.0 {
                svg.centred((x + width / 2.0, y + 14.5), SMALL, letters, &text);
            }
            x += width;
        }
        svg.value(x + 8.0, y + 2.0, &number(parts.iter().sum()));
        y += ROW + 4.0;
    }
    legend(svg, y + 12.0);
    y + 30.0
}

fn legend(svg: &mut Svg, y: f64) {
    let mut x = LEFT;
    for (_, name, colour, _) in PARTS {
        svg.rectangle((x, y - 10.0), (11.0, 11.0), 2.0, colour);
        svg.text((x + 16.0, y), SMALL, MUTED, name);
        x += 36.0 + wide(name, SMALL);
    }
}
