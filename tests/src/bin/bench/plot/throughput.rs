//! Events a second: the broker alone, the outbox, and what others do.

use super::{
    LIVE, Of,
    svg::{BAR, LEFT, MUTED, RIGHT, ROW, Svg},
};
use crate::{
    figure::{Figure, number},
    report::Report,
};

/// Draws it below `top`, returns where it ends.
pub(super) fn draw(svg: &mut Svg, report: &Report, top: f64) -> f64 {
    let best = |begin: &str| {
        let figures = report.section("baselines").filter(|it| it.case.starts_with(begin) && it.measure == "rate");
        figures.max_by(|one, other| one.median().total_cmp(&other.median()))
    };
    let rows: Vec<(String, Of, &Figure)> = [
        ("RabbitMQ alone, plain socket", Of::Others, report.figure("ceiling", "quorum, 200 B", "rate")),
        // Of the same minutes as the others'.
        ("outbox, backlog", Of::Outbox, report.figure("baselines", "quorum, outbox", "rate")),
        ("outbox, live load", Of::Outbox, report.figure("throughput", LIVE, "rate")),
        ("batched poller at its best", Of::Others, best("quorum, poller, batches")),
        ("pg-transactional-outbox", Of::Others, best("quorum, pg-transactional-outbox")),
        ("one-at-a-time poller", Of::Others, best("quorum, poller, one")),
    ]
    .into_iter()
    .filter_map(|(name, of, figure)| Some((name.to_owned(), of, figure?)))
    .collect();
    if rows.is_empty() {
        return top;
    }

    svg.panel(top, "Throughput", "events a second, to a quorum queue");
    let most = rows.iter().map(|(_, _, figure)| figure.spread().1).fold(0.0, f64::max);
    let x = |rate: f64| LEFT + (RIGHT - LEFT) * rate / most;
    let mut y = top + 40.0;
    for (name, of, figure) in &rows {
        let (least, highest) = figure.spread();
        svg.label(y, name);
        svg.rectangle((LEFT, y), ((x(figure.median()) - LEFT).max(1.5), BAR), 2.0, of.colour());
        svg.line((x(least), y + BAR / 2.0), (x(highest), y + BAR / 2.0), MUTED, 1.5);
        svg.value(x(highest) + 8.0, y, &number(figure.median()));
        y += ROW;
    }
    y + 8.0
}
