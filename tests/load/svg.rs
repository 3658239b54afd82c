//! Pictures as text: the few shapes that the plots are made of.
//!
//! Knows nothing of what is drawn. Keeps: text is text and not outlines; a white ground, so that
//! it reads on dark pages, too.

use std::fmt::Write as _;

pub const INK: &str = "#24292f";
pub const FAINT: &str = "#6e7781";
pub const GRID: &str = "#d8dee4";

pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        let body = String::new();
        Svg { width, height, body }
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Nothing fails when a String is written to.
        let _ = writeln!(self.body, "{shape}");
    }

    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, color: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"2\" fill=\"{color}\"/>"
        ));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke=\"{color}\" stroke-width=\"{width}\"/>"
        ));
    }

    pub fn path(&mut self, points: &[(f64, f64)], color: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\" \
             stroke-linejoin=\"round\"/>",
            points.join(" ")
        ));
    }

    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, size: u8, color: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if size > 14 { "600" } else { "400" };
        self.add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
             font-weight=\"{weight}\" fill=\"{color}\">{}</text>",
            at.0,
            at.1,
            escaped(text)
        ));
    }

    /// A square of the color and what it stands for; where the next may begin.
    pub fn key(&mut self, at: (f64, f64), color: &str, text: &str) -> f64 {
        self.rect(at.0, at.1 - 10.0, 11.0, 11.0, color);
        self.text((at.0 + 17.0, at.1), Anchor::Start, 13, INK, text);
        at.0 + 17.0 + text.chars().count() as f64 * 7.0 + 24.0
    }

    pub fn document(self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"-apple-system, 'Segoe UI', \
             Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
