//! Two kinds of charts: bars of two sides with what is aimed at, and how values are spread.
//!
//! Knows no row and no file. Keeps: each bar has its figure as text, each axis its unit.

use crate::figures::Curve;
use crate::report::{grouped, ratio};
use crate::svg::{Anchor, FAINT, GRID, INK, Svg};

const BROKER: &str = "#0969da";
const OTHER: &str = "#d4a72c";
const AIM: &str = "#cf222e";
const WIDTH: f64 = 860.0;
const LEFT: f64 = 225.0;
const RIGHT: f64 = 130.0;
/// Title and keys.
const TOP: f64 = 84.0;

#[derive(Clone, Copy)]
pub enum Spacing {
    /// From 0 to what is needed.
    Linear,
    /// From here to the power of ten that is needed.
    Log(f64),
}

pub struct Entry {
    pub label: &'static str,
    pub broker: f64,
    pub other: Option<f64>,
    pub aim: Option<f64>,
}

/// Horizontal bars: for each entry that of the broker, and below it that of the other side.
pub struct Bars {
    pub title: &'static str,
    pub spacing: Spacing,
    pub unit: &'static str,
    pub other: &'static str,
    pub entries: Vec<Entry>,
}

const BAR: f64 = 17.0;
const GAP: f64 = 18.0;

impl Bars {
    pub fn svg(&self) -> String {
        let bars = |entry: &Entry| if entry.other.is_some() { 2.0 } else { 1.0 };
        let tall: f64 = self.entries.iter().map(|e| bars(e) * (BAR + 2.0) + GAP).sum();
        let bottom = TOP + tall;
        let mut svg = Svg::new(WIDTH, bottom + 34.0);
        svg.text((20.0, 32.0), Anchor::Start, 17, INK, self.title);
        let mut x = svg.key((20.0, 58.0), BROKER, "Delay Broker");
        if self.entries.iter().any(|entry| entry.other.is_some()) {
            x = svg.key((x, 58.0), OTHER, self.other);
        }
        svg.line((x + 2.0, 46.0), (x + 2.0, 61.0), AIM, 2.0);
        svg.text((x + 10.0, 58.0), Anchor::Start, 13, INK, "aim");

        let axis = self.axis();
        for tick in axis.ticks() {
            let at = axis.at(tick);
            svg.line((at, TOP - 8.0), (at, bottom - 6.0), GRID, 1.0);
            let text = format!("{}{}", plain(tick), self.unit);
            svg.text((at, bottom + 12.0), Anchor::Middle, 12, FAINT, &text);
        }
        let mut y = TOP;
        for entry in &self.entries {
            let middle = y + bars(entry) * (BAR + 2.0) / 2.0 + 4.0;
            svg.text((LEFT - 12.0, middle), Anchor::End, 13, INK, entry.label);
            let start = y;
            for (value, color) in [(Some(entry.broker), BROKER), (entry.other, OTHER)] {
                let Some(value) = value else { continue };
                let end = axis.at(value).max(LEFT + 2.0);
                svg.rect(LEFT, y, end - LEFT, BAR, color);
                let mut text = format!("{}{}", grouped(value), self.unit);
                if let (BROKER, Some(other)) = (color, entry.other) {
                    text += &format!("  ({})", times(entry.broker / other));
                }
                // Beside the line of the aim, if that is where it would stand.
                let aim = entry.aim.map(|aim| axis.at(aim)).filter(|aim| *aim >= end - 4.0);
                let near = aim.filter(|aim| *aim < end + 110.0).map_or(end, |aim| aim.max(end));
                svg.text((near + 7.0, y + 13.0), Anchor::Start, 12, INK, &text);
                y += BAR + 2.0;
            }
            if let Some(aim) = entry.aim {
                let at = axis.at(aim);
                svg.line((at, start - 4.0), (at, y + 2.0), AIM, 2.0);
            }
            y += GAP;
        }
        svg.document()
    }

    fn axis(&self) -> Axis {
        let most = self
            .entries
            .iter()
            .flat_map(|entry| [Some(entry.broker), entry.other, entry.aim])
            .flatten()
            .fold(0.0, f64::max);
        Axis { spacing: self.spacing, most, from: LEFT, to: WIDTH - RIGHT }
    }
}

fn times(times: f64) -> String {
    if times < 0.1 {
        format!("1/{}", grouped((1.0 / times).round()))
    } else {
        format!("{} x", ratio(times))
    }
}

/// Of an axis: no zeros at the end.
fn plain(tick: f64) -> String {
    if tick < 1.0 { format!("{tick}") } else { grouped(tick) }
}

/// Where a value stands, in pixels.
struct Axis {
    spacing: Spacing,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let part = match self.spacing {
            Spacing::Linear => value / self.most.max(f64::MIN_POSITIVE),
            Spacing::Log(low) => (value.max(low) / low).log10() / self.decades(low),
        };
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => {
                let rough = (self.most / 5.0).max(f64::MIN_POSITIVE);
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
                let step = step.into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(self.most);
                let ticks = (0..).map(|number| f64::from(number) * step);
                ticks.take_while(|tick| *tick <= self.most).collect()
            }
            Spacing::Log(low) => {
                let decades = 0..=self.decades(low) as i32;
                decades.map(|decade| low * 10_f64.powi(decade)).collect()
            }
        }
    }

    fn decades(&self, low: f64) -> f64 {
        (self.most / low).log10().ceil().max(1.0)
    }
}

pub struct Panel<'a> {
    pub label: &'a str,
    pub curve: &'a Curve,
    /// Below the curves: of the broker, and of the other side.
    pub figures: [String; 2],
}

/// Panels side by side: milliseconds to the right, the part of messages upwards.
pub struct Curves<'a> {
    pub title: &'a str,
    pub other: &'a str,
    pub panels: Vec<Panel<'a>>,
}

const PANEL_HEIGHT: f64 = 240.0;
const MARGIN: f64 = 56.0;
const LATE: Spacing = Spacing::Log(0.1);

impl Curves<'_> {
    pub fn svg(&self) -> String {
        let bottom = TOP + 22.0 + PANEL_HEIGHT;
        let mut svg = Svg::new(WIDTH, bottom + 76.0);
        svg.text((20.0, 32.0), Anchor::Start, 17, INK, self.title);
        let x = svg.key((20.0, 58.0), BROKER, "Delay Broker");
        if self.panels.iter().any(|panel| panel.curve.other.iter().any(Option::is_some)) {
            svg.key((x, 58.0), OTHER, self.other);
        }
        let each = WIDTH / self.panels.len() as f64;
        let sides = self.panels.iter().map(|panel| panel.curve);
        let values = sides.flat_map(|curve| curve.broker.iter().chain(&curve.other).flatten());
        let most = values.copied().fold(0.0, f64::max);
        for (number, panel) in self.panels.iter().enumerate() {
            let axis = Axis {
                spacing: LATE,
                most,
                from: number as f64 * each + MARGIN,
                to: (number as f64 + 1.0) * each - 42.0,
            };
            panel.draw(&mut svg, &axis, bottom);
        }
        svg.document()
    }
}

impl Panel<'_> {
    fn draw(&self, svg: &mut Svg, axis: &Axis, bottom: f64) {
        let up = |part: f64| bottom - part * PANEL_HEIGHT;
        svg.text((axis.from, TOP + 8.0), Anchor::Start, 13, INK, self.label);
        for tick in axis.ticks() {
            let at = axis.at(tick);
            svg.line((at, up(1.0)), (at, bottom), GRID, 1.0);
            let text = format!("{} ms", plain(tick));
            svg.text((at, bottom + 18.0), Anchor::Middle, 12, FAINT, &text);
        }
        for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
            svg.line((axis.from, up(part)), (axis.to, up(part)), GRID, 1.0);
            let text = format!("{:.0} %", part * 100.0);
            svg.text((axis.from - 8.0, up(part) + 4.0), Anchor::End, 12, FAINT, &text);
        }
        let sides = [(&self.curve.broker, BROKER), (&self.curve.other, OTHER)];
        for (number, (values, color)) in sides.into_iter().enumerate() {
            let known = |(part, value): (&f64, &Option<f64>)| Some((*part, (*value)?));
            let points: Vec<(f64, f64)> =
                self.curve.parts.iter().zip(values).filter_map(known).collect();
            if points.is_empty() {
                continue;
            }
            let line: Vec<(f64, f64)> =
                points.iter().map(|(part, ms)| (axis.at(*ms), up(*part))).collect();
            svg.path(&line, color);
            let text = self.figures.get(number).map_or("", String::as_str);
            let y = bottom + 42.0 + number as f64 * 18.0;
            svg.rect(axis.from, y - 9.0, 10.0, 10.0, color);
            svg.text((axis.from + 16.0, y), Anchor::Start, 12, INK, text);
        }
    }
}
