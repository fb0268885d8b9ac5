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

/// Microseconds an event.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn us_per_event(used: Duration, events: u64) -> f64 {
    used.as_secs_f64() * 1e6 / events as f64
}
