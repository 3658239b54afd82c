//! What a process costs the machine, as the kernel counts it, and signals to it.

use std::io;
use std::process::Command;

/// What /proc counts time in, on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time, of the user and of the kernel.
pub fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold spaces; user and system time are fields 14 and 15.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
    let ticks = ticks.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// Bytes. `field`: `VmRSS` is what it holds now, `VmHWM` the most that it ever did.
pub fn memory(pid: u32, field: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("no {field}")))
}

/// Sends a signal by name, such as `TERM` or `STOP`, to one process.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {pid}");
}

/// A process that does nothing until this is dropped.
pub struct Stopped(u32);

impl Stopped {
    pub fn new(pid: u32) -> Stopped {
        signal(pid, "STOP");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}
