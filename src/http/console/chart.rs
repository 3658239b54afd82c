//! Bars over time, as SVG that style sheets colour. Pure.

/// One bar: where it stands, and what it is.
pub struct Bar {
    pub x: String,
    pub y: String,
    pub width: String,
    pub height: String,
    /// What it says to people that point at it, or cannot see it.
    pub title: String,
    pub link: String,
}

/// A line of the scale, and its number.
pub struct Tick {
    pub place: String,
    pub label: String,
}

pub struct Chart {
    pub bars: Vec<Bar>,
    pub rows: Vec<Tick>,
    pub columns: Vec<Tick>,
    /// The whole in words.
    pub title: String,
    /// Bars lead somewhere.
    pub linked: bool,
}

/// The ground, as the template draws it: 1,000 wide, 170 high, the bars from 60 on and 10 to 140.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 990.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 140.0;

/// A step: messages, title and link.
pub type Step = (i64, String, String);

impl Chart {
    /// `columns`: labels, evenly from the left end to the right one.
    pub fn new(title: String, steps: Vec<Step>, columns: &[&str]) -> Self {
        let most = steps.iter().map(|(count, ..)| *count).max().unwrap_or(0).max(1);
        let top = nice(most);
        let width = (RIGHT - LEFT) / steps.len().max(1) as f64;
        let linked = steps.iter().any(|(count, _, link)| *count > 0 && !link.is_empty());
        let bars = steps.into_iter().enumerate().map(|(place, (count, title, link))| {
            let height = match count {
                0 => 0.0,
                // Not even the smallest is invisible.
                count => ((BOTTOM - TOP) * count as f64 / top as f64).max(2.0),
            };
            let x = LEFT + width * place as f64;
            let [x, y, width, height] = [x + 1.0, BOTTOM - height, width - 2.0, height]
                .map(|number| format!("{number:.1}"));
            Bar { x, y, width, height, title, link }
        });
        let row = |part: i64| Tick {
            place: format!("{:.1}", BOTTOM - (BOTTOM - TOP) * part as f64 / 2.0),
            label: short(top * part / 2),
        };
        let last = columns.len().saturating_sub(1).max(1);
        let column = |(place, label): (usize, &&str)| Tick {
            place: format!("{:.1}", LEFT + (RIGHT - LEFT) * place as f64 / last as f64),
            label: (*label).to_owned(),
        };
        Self {
            bars: bars.collect(),
            rows: (0..=2).map(row).collect(),
            columns: columns.iter().enumerate().map(column).collect(),
            title,
            linked,
        }
    }
}

/// The next even number of one figure or two.
fn nice(most: i64) -> i64 {
    let mut unit = 1_i64;
    while most / unit >= 100 {
        unit = unit.saturating_mul(10);
    }
    let step = unit * 2;
    most.div_euclid(step).saturating_add(i64::from(most % step != 0)).saturating_mul(step)
}

fn short(number: i64) -> String {
    match number {
        0..10_000 => super::show::count(number),
        10_000..10_000_000 => format!("{} k", super::show::count(number / 1_000)),
        _ => format!("{} M", super::show::count(number / 1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        for (most, top) in [(1, 2), (2, 2), (9, 10), (99, 100), (341, 360), (2_812, 3_000)] {
            assert_eq!(nice(most), top, "{most}");
        }
        assert!(nice(i64::MAX) > 0);
        for (number, shown) in [(9_999, "9,999"), (20_000, "20 k"), (20_000_000, "20 M")] {
            assert_eq!(short(number), shown);
        }
    }

    #[test]
    fn bars() {
        let step = |count| (count, "title".to_owned(), "link".to_owned());
        let chart =
            Chart::new("all".into(), vec![step(0), step(1), step(1_000)], &["now", "later"]);
        let heights: Vec<&str> = chart.bars.iter().map(|bar| bar.height.as_str()).collect();
        assert_eq!(heights, ["0.0", "2.0", "130.0"]);
        let places: Vec<&str> = chart.columns.iter().map(|tick| tick.place.as_str()).collect();
        assert_eq!(places, ["60.0", "990.0"]);
        let labels: Vec<&str> = chart.rows.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["0", "500", "1,000"]);
        assert!(Chart::new(String::new(), Vec::new(), &[]).bars.is_empty());
    }
}
