//! What `/proc` knows about processes (`man 5 proc`).

use std::time::Duration;

use rustix::process::Pid;

/// Memory and CPU time of a running process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The most memory it ever held in RAM, in bytes (`VmHWM`).
    pub peak_rss_bytes: u64,
    /// CPU time of all its threads, user and system, in steps of 10 ms.
    pub cpu: Duration,
}

impl Usage {
    /// Reads it; `None` if there is no such process any more.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let peak_kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Fields 14 and 15, utime and stime; field 3 is the first after the name, which may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let ticks = ticks()? + ticks()?;
        Some(Self {
            peak_rss_bytes: peak_kib?.parse::<u64>().ok()? * 1024,
            cpu: Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()),
        })
    }
}

/// Processes whose parent is `pid`.
pub(crate) fn children_of(pid: u32) -> Vec<Pid> {
    let parent = pid.to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // "pid (name) state ppid …"; the name may hold spaces and parentheses
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split(' ').nth(2)) == Some(&parent)
        })
        .filter_map(Pid::from_raw)
        .collect()
}
