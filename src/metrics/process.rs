//! The kernel's figures of this process, under the names that every Prometheus client uses.
//!
//! Reads `/proc` at each scrape. Figures that cannot be read are left out.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::list::{
    LOG_LOST, PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_MAX, PROCESS_MEMORY, PROCESS_START, Spec,
};
use super::text::{head, series};

/// Counted by the log writer of this process.
pub static LOG_LINES_LOST: AtomicU64 = AtomicU64::new(0);

pub(super) fn write(out: &mut String) {
    let mut gauge = |spec: &Spec, number: Option<f64>| {
        if let Some(number) = number {
            head(spec, out);
            series(spec, "", &[], number, out);
        }
    };
    let (cpu, started) = cpu_and_start().unzip();
    let lost = LOG_LINES_LOST.load(Ordering::Relaxed);
    gauge(&LOG_LOST, Some(lost as f64));
    gauge(&PROCESS_CPU, cpu);
    gauge(&PROCESS_START, started);
    gauge(&PROCESS_MEMORY, Some(resident_bytes() as f64));
    // Without the one that lists them.
    let open = fs::read_dir("/proc/self/fd").map(|all| all.count().saturating_sub(1));
    gauge(&PROCESS_FDS, open.ok().map(|open| open as f64));
    let most = getrlimit(Resource::Nofile).current;
    gauge(&PROCESS_FDS_MAX, most.map(|most| most as f64));
}

/// Memory of this process.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * page_size() as u64
}

/// Seconds of processors used, and when the process started, Unix time.
fn cpu_and_start() -> Option<(f64, f64)> {
    /// Reckoned once: a step of the clock must not look like a restart.
    static START: OnceLock<f64> = OnceLock::new();
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name in brackets, and may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let ticks = clock_ticks_per_second() as f64;
    let cpu = (field(14)? + field(15)?) / ticks;
    let since_boot = field(22)? / ticks;
    let now = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let start = || now(ClockId::Realtime) - now(ClockId::Boottime) + since_boot;
    Some((cpu, *START.get_or_init(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn plausible() {
        let (cpu, started) = cpu_and_start().unwrap();
        assert!((0.0..3_600.0).contains(&cpu), "{cpu}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - started;
        assert!((-2.0..3_600.0).contains(&age), "{age}");
        assert!(resident_bytes() > 100_000);
    }
}
