//! How large the table becomes while events come and go.

use super::{
    OTHERS, OUTBOX,
    svg::{LEFT, MUTED, RIGHT, SMALL, Svg},
};
use crate::{figure::number, report::Report};

/// The cases by their names in the plot. What is kept for ever is a straight line that nobody needs to see twice.
const CURVES: [(&str, &str, &str); 3] = [
    ("all kept", OTHERS, "outbox, all kept"),
    ("deleted when old", OUTBOX, "outbox, old events deleted"),
    ("dropped in blocks", "#bf8700", "a table in blocks, old blocks dropped"),
];

const HEIGHT: f64 = 150.0;

/// Draws it below `top`, returns where it ends.
pub(super) fn draw(svg: &mut Svg, report: &Report, top: f64) -> f64 {
    let curves: Vec<_> = CURVES
        .iter()
        .filter_map(|(name, colour, case)| {
            Some((name, colour, &report.figure("retention", case, "size over time")?.runs))
        })
        .filter(|(_, _, sizes)| sizes.len() > 1)
        .collect();
    if curves.is_empty() {
        return top;
    }
    svg.panel(
        top,
        "Size of the table",
        "MB with its indexes, while events are emitted and sent; a tenth of them is kept",
    );
    let most = curves.iter().flat_map(|(_, _, sizes)| sizes.iter().copied()).fold(1.0, f64::max);
    let (first, bottom) = (top + 44.0, top + 44.0 + HEIGHT);
    svg.line((LEFT, bottom), (RIGHT, bottom), "#d8dee4", 1.0);
    svg.text((LEFT - 60.0, first + 4.0), SMALL, MUTED, &number(most));
    svg.text((LEFT - 60.0, bottom + 4.0), SMALL, MUTED, "0");
    let mut label = f64::INFINITY; // each a line above the last
    for (name, colour, sizes) in curves.into_iter().rev() {
        #[expect(clippy::cast_precision_loss, reason = "a hundred points")]
        let x = |number: usize| LEFT + (RIGHT - LEFT) * (number + 1) as f64 / sizes.len() as f64;
        let y = |size: f64| bottom - HEIGHT * size / most;
        let mut from = (LEFT, bottom);
        for (number, size) in sizes.iter().enumerate() {
            let to = (x(number), y(*size));
            svg.line(from, to, colour, 2.0);
            from = to;
        }
        label = (from.1 + 4.0).min(label - 15.0);
        svg.text((RIGHT + 8.0, label), SMALL, MUTED, name);
    }
    bottom + 22.0
}
