//! CPU time of processes, user and system, to the microsecond.

use std::{fs, time::Duration};

/// CPU time that all threads of a process have used so far; zero if there is none of that id.
///
/// `/proc/<pid>/stat` counts in steps of 10 ms; the first field of `schedstat` is nanoseconds on a CPU (Linux,
/// Documentation/scheduler/sched-stats). Threads that have ended are missing: neither the relay nor the servers end any
/// under load.
pub(crate) fn used_by(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let on_cpu = |task: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(on_cpu).sum())
}

/// CPU time of a process's children that have ended, in steps of 10 ms: fields 16 and 17 of `/proc/<pid>/stat`
/// (proc(5)), in ticks of which Linux shows 100 a second on every platform of ours.
pub(crate) fn used_by_ended_children(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field, a name in brackets, may hold spaces.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: u64 = after_name.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Microseconds an event.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn us_per_event(used: Duration, events: u64) -> f64 {
    used.as_secs_f64() * 1e6 / events as f64
}
