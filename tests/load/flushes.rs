//! What the flushes of Redis's append-only file cost: offers, and lateness.

use crate::figures::{Measure, Row};
use crate::lateness;
use crate::offers;
use crate::servers;
use crate::{Outcome, Scale};

const MODES: [(&str, &[&str]); 3] = [
    ("always", &["--appendonly", "yes", "--appendfsync", "always"]),
    ("everysec", &["--appendonly", "yes", "--appendfsync", "everysec"]),
    ("no file", &["--appendonly", "no"]),
];

/// The rounds of one mode.
#[derive(Default)]
struct Mode {
    per_second: Vec<f64>,
    alone_us: Vec<f64>,
    late_p50_ms: Vec<f64>,
    late_p99_ms: Vec<f64>,
}

pub fn run(scale: Scale) -> Outcome<Row> {
    let mut modes = MODES.map(|_| Mode::default());
    let mut faults = Vec::new();
    for _ in 0..scale.pick(3, 1) {
        for ((_, args), mode) in MODES.iter().zip(&mut modes) {
            let (offers, wrong) = offers::with_redis(scale, &servers::redis(args))?;
            faults.extend(wrong);
            mode.per_second.push(offers);
            let (alone, wrong) = offers::alone_with_redis(scale, &servers::redis(args))?;
            faults.extend(wrong);
            mode.alone_us.push(alone);
            let ([p50, p99], wrong) = lateness::with_redis(scale, args)?;
            faults.extend(wrong);
            mode.late_p50_ms.push(p50);
            mode.late_p99_ms.push(p99);
        }
    }
    let mut measures = Vec::new();
    for ((name, _), mode) in MODES.iter().zip(modes) {
        measures.extend([
            Measure::broker(format!("{name}: offers/s"), mode.per_second.into_iter()),
            Measure::broker(format!("{name}: one client, p50 us"), mode.alone_us.into_iter()),
            Measure::broker(format!("{name}: late p50 ms"), mode.late_p50_ms.into_iter()),
            Measure::broker(format!("{name}: late p99 ms"), mode.late_p99_ms.into_iter()),
        ]);
    }
    Ok(Row { measures, faults, ..Row::default() })
}
