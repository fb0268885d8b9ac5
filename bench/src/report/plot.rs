//! The plot: throughput, latency, where the CPU time goes, and the table's size under retention. What was not measured
//! is left out.

use std::error::Error;

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{
    Report,
    figure::{number, thousands},
};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// In pixels: about the width of a README's column, a row, and what a panel needs besides its rows.
const WIDTH: u32 = 880;
const ROW: u32 = 27;
const FRAME: u32 = 84;
const HEAD: u32 = 62;
const FOOT: u32 = 44;
const CURVES: u32 = 170;
const LEGEND: u32 = 46;
/// Room for the names of rows.
const NAMES: u32 = 220;
const FONT: &str = "sans-serif";
const SMALL: u32 = 12;

const OUTBOX: RGBColor = RGBColor(0x09, 0x69, 0xda);
const OTHERS: RGBColor = RGBColor(0xaf, 0xb8, 0xc1);
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const MUTED: RGBColor = RGBColor(0x65, 0x6d, 0x76);

/// The loads that panels show: small messages are the hardest, for everything is paid an event.
const LIVE: &str = "live, quorum, 200 B, 100000 keys";
const BACKLOG: &str = "backlog, quorum, 200 B, 100000 keys";

/// Parts of an event's CPU time, in the order of its way: measure, name and colour.
const PARTS: [(&str, &str, RGBColor); 6] = [
    ("emit CPU", "PostgreSQL: emit", RGBColor(0x4f, 0x3f, 0xa8)),
    ("walsender CPU", "decode", RGBColor(0x7d, 0x6f, 0xd1)),
    ("relay's session CPU", "settle", RGBColor(0xb3, 0xa8, 0xec)),
    ("other PostgreSQL CPU", "other", RGBColor(0xdc, 0xd6, 0xf7)),
    ("relay CPU", "relay", OUTBOX),
    ("broker CPU", "RabbitMQ", RGBColor(0xe8, 0x83, 0x3a)),
];

/// Draws what there are figures for, as an SVG on its own white ground.
pub(super) fn svg(report: &Report) -> String {
    let mut svg = String::new();
    draw(report, &mut svg).expect("text can be written");
    svg
}

fn draw(report: &Report, svg: &mut String) -> Drawn {
    let (rates, latencies, costs, sizes) = (rates(report), latencies(report), costs(report), sizes(report));
    let of_rows = |rows: usize| if rows == 0 { 0 } else { FRAME + ROW * u32::try_from(rows).unwrap_or(0) };
    let of_costs = if costs.is_empty() { 0 } else { of_rows(costs.len()) + LEGEND };
    let of_curves = if sizes.is_empty() { 0 } else { FRAME + CURVES };
    let heights = [HEAD, of_rows(rates.len()), of_rows(latencies.len()), of_costs, of_curves, FOOT];
    let root = SVGBackend::with_string(svg, (WIDTH, heights.iter().sum())).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    let mut areas = Vec::new();
    for height in heights {
        let (area, below) = rest.split_vertically(height);
        areas.push(area);
        rest = below;
    }
    let [head, throughput, latency, cost, size, foot] = &areas[..] else { unreachable!("six areas") };
    let cores = report.machine.fact("cores");
    let on = if cores.is_empty() { String::new() } else { format!(" on {cores} cores") };
    let heading = format!("Transactional outbox, from PostgreSQL to RabbitMQ{on}");
    head.draw_text(&heading, &(FONT, 20).into_font().color(&INK), (20, 12))?;
    let what = "200 B events, durable quorum queue, persistent, confirmed, verdicts written back; fsync on";
    head.draw_text(what, &(FONT, 13).into_font().color(&MUTED), (20, 40))?;
    if !rates.is_empty() {
        draw_rates(throughput, &rates)?;
    }
    if !latencies.is_empty() {
        draw_latencies(latency, &latencies)?;
    }
    if !costs.is_empty() {
        draw_costs(cost, &costs)?;
    }
    if !sizes.is_empty() {
        draw_sizes(size, &sizes)?;
    }
    let fact = |name| report.machine.fact(name);
    let note = format!("{} {}.", report.trust(), fact("date"));
    foot.draw_text(&note, &(FONT, SMALL).into_font().color(&MUTED), (20, 4))?;
    let servers = format!("PostgreSQL {}, RabbitMQ {}, {}.", fact("PostgreSQL"), fact("RabbitMQ"), fact("CPU"));
    foot.draw_text(&servers, &(FONT, SMALL).into_font().color(&MUTED), (20, 20))?;
    root.present()?;
    Ok(())
}

/// Name, colour, and median, least and most of the runs in events a second.
type Rate = (&'static str, RGBColor, [f64; 3]);

fn rates(report: &Report) -> Vec<Rate> {
    let rows = [
        ("RabbitMQ alone, plain socket", OTHERS, report.figure("ceiling", "quorum, 200 B", "rate")),
        ("outbox, backlog", OUTBOX, report.figure("throughput", BACKLOG, "rate")),
        ("outbox, live load", OUTBOX, report.figure("throughput", LIVE, "rate")),
    ];
    let rows = rows.into_iter().filter_map(|(name, colour, figure)| {
        let (least, most) = figure?.spread();
        Some((name, colour, [figure?.median(), least, most]))
    });
    rows.collect()
}

fn draw_rates(area: &Area<'_>, rows: &[Rate]) -> Drawn {
    let most = rows.iter().map(|row| row.2[2]).fold(0.0, f64::max);
    let mut chart = panel(area, "Throughput, events a second, to a quorum queue")
        .build_cartesian_2d(0.0..most * 1.12, 0.0..middle(0, rows.len()) + 0.5)?;
    let mesh = &mut chart.configure_mesh();
    mesh.label_style((FONT, SMALL)).disable_mesh().x_label_formatter(&axis).disable_y_axis().draw()?;
    for (place, (name, colour, [median, least, highest])) in rows.iter().enumerate() {
        let y = middle(place, rows.len());
        chart.draw_series([bar(y, 0.0, *median, *colour)])?;
        chart.draw_series([PathElement::new([(*least, y), (*highest, y)], MUTED.stroke_width(2))])?;
        let value = beside((*highest, y), HPos::Left, &number(*median));
        chart.draw_series([beside((0.0, y), HPos::Right, name), value])?;
    }
    Ok(())
}

/// Name, p50 and p99 in milliseconds.
type Latency = (&'static str, f64, f64);

fn latencies(report: &Report) -> Vec<Latency> {
    let rows = [
        ("outbox, 100/s", "outbox, 100/s"),
        ("outbox, 1,000/s", "outbox, 1000/s"),
        ("outbox, half of its maximum", "outbox, half of maximum"),
        ("RabbitMQ alone, the same", "broker alone, half of maximum"),
    ];
    let median = |case, measure| report.figure("latency", case, measure).map(|figure| figure.median());
    let rows = rows.into_iter().filter_map(|(name, case)| Some((name, median(case, "p50")?, median(case, "p99")?)));
    rows.filter(|(_, p50, p99)| *p50 > 0.0 && p99.is_finite()).collect()
}

fn draw_latencies(area: &Area<'_>, rows: &[Latency]) -> Drawn {
    let least = rows.iter().map(|row| row.1).fold(f64::INFINITY, f64::min).log10().floor();
    let most = rows.iter().map(|row| row.2).fold(0.0, f64::max).log10().ceil().max(least + 1.0);
    let range = (10_f64.powf(least)..10_f64.powf(most + 0.3)).log_scale();
    let mut chart = panel(area, "Latency from commit to consumer, ms, logarithmic: p50 (ring) to p99 (dot)")
        .build_cartesian_2d(range, 0.0..middle(0, rows.len()) + 0.5)?;
    let mesh = &mut chart.configure_mesh();
    mesh.label_style((FONT, SMALL)).disable_y_mesh().x_label_formatter(&axis).disable_y_axis().draw()?;
    for (place, (name, p50, p99)) in rows.iter().enumerate() {
        let y = middle(place, rows.len());
        let colour = if name.starts_with("outbox") { OUTBOX } else { MUTED };
        chart.draw_series([PathElement::new([(*p50, y), (*p99, y)], colour.stroke_width(3))])?;
        let ring = Circle::new((*p50, y), 5, colour.stroke_width(2));
        chart.draw_series([
            Circle::new((*p50, y), 5, WHITE.filled()),
            ring,
            Circle::new((*p99, y), 5, colour.filled()),
        ])?;
        let value = beside((*p99, y), HPos::Left, &format!("{} … {}", number(*p50), number(*p99)));
        chart.draw_series([beside((10_f64.powf(least), y), HPos::Right, name), value])?;
    }
    Ok(())
}

/// Name, and each of [`PARTS`] in microseconds an event.
type Cost = (&'static str, [f64; 6]);

fn costs(report: &Report) -> Vec<Cost> {
    let parts =
        |case| PARTS.map(|part| report.figure("throughput", case, part.0).map_or(0.0, |it| it.median().max(0.0)));
    let rows = [("live load", parts(LIVE)), ("backlog", parts(BACKLOG))].into_iter();
    rows.filter(|(_, parts)| parts.iter().sum::<f64>() > 0.0).collect()
}

fn draw_costs(area: &Area<'_>, rows: &[Cost]) -> Drawn {
    let most = rows.iter().map(|row| row.1.iter().sum::<f64>()).fold(0.0, f64::max);
    let mut chart = panel(area, "Where the CPU time goes, µs an event, user and system")
        .build_cartesian_2d(0.0..most * 1.4, 0.0..middle(0, rows.len()) + 0.5)?;
    let mesh = &mut chart.configure_mesh();
    mesh.label_style((FONT, SMALL)).disable_mesh().x_label_formatter(&axis).disable_y_axis().draw()?;
    for (part, (_, name, colour)) in PARTS.into_iter().enumerate() {
        let bars = rows.iter().enumerate().map(|(place, (_, parts))| {
            let upto = |count: usize| parts.iter().take(count).sum::<f64>();
            bar(middle(place, rows.len()), upto(part), upto(part + 1), colour)
        });
        let series = chart.draw_series(bars)?;
        series.label(name).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 11, y + 6)], colour.filled()));
    }
    for (place, (name, parts)) in rows.iter().enumerate() {
        let (y, whole) = (middle(place, rows.len()), parts.iter().sum::<f64>());
        chart.draw_series([beside((0.0, y), HPos::Right, name), beside((whole, y), HPos::Left, &number(whole))])?;
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::MiddleRight).label_font((FONT, SMALL)).draw()?;
    Ok(())
}

/// Name, colour, and seconds with MB.
type Size = (&'static str, RGBColor, Vec<(f64, f64)>);

fn sizes(report: &Report) -> Vec<Size> {
    let curves = [("all kept", OTHERS, "outbox, all kept"), ("deleted when old", OUTBOX, "outbox, old events deleted")];
    let curves = curves.into_iter().filter_map(|(name, colour, case)| {
        let runs = |measure| report.figure("retention", case, measure).map(|figure| figure.runs.iter().copied());
        Some((name, colour, runs("time of each size")?.zip(runs("size over time")?).collect()))
    });
    curves.filter(|(_, _, points): &Size| points.len() > 1).collect()
}

fn draw_sizes(area: &Area<'_>, curves: &[Size]) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.2);
    let lasted = points().map(|point| point.0).fold(1.0, f64::max);
    let most = points().map(|point| point.1).fold(1.0, f64::max);
    let title = "Size of the table, MB with its indexes, over seconds of emitting and sending; a tenth is kept";
    let mut chart = panel(area, title).build_cartesian_2d(0.0..lasted, 0.0..most * 1.05)?;
    let mesh = &mut chart.configure_mesh();
    mesh.label_style((FONT, SMALL)).disable_x_mesh().light_line_style(TRANSPARENT).x_labels(8).y_labels(5);
    mesh.x_label_formatter(&axis).y_label_formatter(&axis).draw()?;
    for (name, colour, points) in curves {
        let colour = *colour;
        let series = chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        series.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).label_font((FONT, SMALL)).draw()?;
    Ok(())
}

fn panel<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, (FONT, 15).into_font().color(&INK)).margin(10).margin_right(20);
    chart.x_label_area_size(26).y_label_area_size(NAMES);
    chart
}

/// A figure of an axis.
fn axis(value: &f64) -> String {
    thousands(&value.to_string())
}

/// The middle of a row on an axis that counts rows from the bottom, where places are counted from the top.
fn middle(place: usize, rows: usize) -> f64 {
    f64::from(u32::try_from(rows - place).unwrap_or(0)) - 0.5
}

fn bar(middle: f64, from: f64, to: f64, colour: RGBColor) -> Rectangle<(f64, f64)> {
    Rectangle::new([(from, middle - 0.32), (to, middle + 0.32)], colour.filled())
}

/// Letters that begin, or end, beside a point.
fn beside(point: (f64, f64), side: HPos, text: &str) -> Text<'static, (f64, f64), String> {
    let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    Text::new(format!("\u{a0}\u{a0}{text}\u{a0}\u{a0}"), point, style) // SVG keeps no other space at the ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut report = Report::default();
        assert!(!svg(&report).contains("Throughput"));
        report.add("throughput", BACKLOG, "rate", "/s", 38_500.0);
        let svg = svg(&report);
        assert!(svg.contains("outbox, backlog") && svg.contains("38,500"), "{svg}");
        assert!(!svg.contains("live load") && !svg.contains("Latency"), "{svg}");
    }

    #[test]
    fn a_latency_of_nothing_does_not_break_the_logarithm() {
        let mut report = Report::default();
        for (measure, ms) in [("p50", 0.0), ("p99", 3.0)] {
            report.add("latency", "outbox, 100/s", measure, "ms", ms);
        }
        assert!(!svg(&report).contains("NaN"));
    }
}
