//! As much of SVG as bars need.

use std::fmt::Write;

/// Of the drawing, in its own units: about the width of a README's column in pixels.
pub(super) const WIDTH: f64 = 880.0;

/// Left and right of everything.
pub(super) const MARGIN: f64 = 28.0;

/// Where bars begin; row labels end before it.
pub(super) const LEFT: f64 = 232.0;

/// Where the longest bars end; values stand behind it.
pub(super) const RIGHT: f64 = 750.0;

/// From one row to the next, and the height of its bar.
pub(super) const ROW: f64 = 27.0;
pub(super) const BAR: f64 = 17.0;

/// Colours of letters.
pub(super) const INK: &str = "#1f2328";
pub(super) const MUTED: &str = "#656d76";

/// Font size of rows.
pub(super) const TEXT: f64 = 12.5;

/// Font size of axes and of the note at the foot.
pub(super) const SMALL: f64 = 11.0;

/// A drawing in the making.
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new() -> Self {
        Self(String::new())
    }

    /// The title of the whole.
    pub(super) fn heading(&mut self, y: f64, text: &str) {
        self.write(MARGIN, y, &format!("font-size='19' font-weight='600' fill='{INK}'"), text);
    }

    /// The title of a panel with a rule above it, and what its figures are.
    pub(super) fn panel(&mut self, top: f64, title: &str, of: &str) {
        self.line((MARGIN, top), (WIDTH - MARGIN, top), "#d8dee4", 1.0);
        self.write(MARGIN, top + 24.0, &format!("font-size='14.5' font-weight='600' fill='{INK}'"), title);
        let right = format!("font-size='{SMALL}' text-anchor='end' fill='{MUTED}'");
        self.write(WIDTH - MARGIN, top + 24.0, &right, of);
    }

    /// The name of a row whose bar begins at `y`.
    pub(super) fn label(&mut self, y: f64, text: &str) {
        let style = format!("font-size='{TEXT}' text-anchor='end' fill='{INK}'");
        self.write(LEFT - 10.0, base(y), &style, text);
    }

    /// Letters that begin at a point.
    pub(super) fn text(&mut self, (x, y): (f64, f64), size: f64, colour: &str, text: &str) {
        self.write(x, y, &format!("font-size='{size}' fill='{colour}'"), text);
    }

    /// Letters on both sides of a point.
    pub(super) fn centred(&mut self, (x, y): (f64, f64), size: f64, colour: &str, text: &str) {
        self.write(x, y, &format!("font-size='{size}' text-anchor='middle' fill='{colour}'"), text);
    }

    /// A figure in the row that begins at `y`.
    pub(super) fn value(&mut self, x: f64, y: f64, text: &str) {
        self.write(x, base(y), &format!("font-size='{TEXT}' font-weight='600' fill='{INK}'"), text);
    }

    /// Small print.
    pub(super) fn note(&mut self, y: f64, text: &str) {
        self.text((MARGIN, y), SMALL, MUTED, text);
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), round: f64, colour: &str) {
        self.add(&format!(
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' rx='{round}' fill='{colour}'/>"
        ));
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
        self.add(&format!(
            "<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' stroke='{colour}' stroke-width='{width}'/>"
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str, stroke: &str) {
        self.add(&format!(
            "<circle cx='{x:.1}' cy='{y:.1}' r='{radius}' fill='{fill}' stroke='{stroke}' stroke-width='2'/>"
        ));
    }

    /// The document, on a ground of its own, so that it reads on a dark page as well.
    pub(super) fn end(self, width: f64, height: f64) -> String {
        let font = "-apple-system, BlinkMacSystemFont, Segoe UI, Helvetica, Arial, DejaVu Sans, sans-serif";
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' font-family='{font}'>\n\
             <rect x='0.5' y='0.5' width='{}' height='{}' rx='8' fill='#ffffff' stroke='#d0d7de'/>\n{}</svg>\n",
            width - 1.0,
            height - 1.0,
            self.0
        )
    }

    fn write(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.add(&format!("<text x='{x:.1}' y='{y:.1}' {style}>{text}</text>"));
    }

    fn add(&mut self, element: &str) {
        let _ = writeln!(self.0, "{element}"); // a String takes everything
    }
}

/// The line that letters stand on in the row whose bar begins at `y`.
fn base(y: f64) -> f64 {
    y + BAR / 2.0 + TEXT * 0.36
}

/// About how wide text is: a letter of a sans-serif font has 0.55 of its size, on average.
#[expect(clippy::cast_precision_loss, reason = "a few letters")]
pub(super) fn wide(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * 0.55 * size
}
