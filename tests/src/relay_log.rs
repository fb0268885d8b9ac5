//! The lines a relay has logged.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

/// Collects both output streams of a relay, line by line.
#[derive(Debug)]
pub(crate) struct RelayLog {
    lines: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl RelayLog {
    /// Reads both pipes until they end, on threads of their own: they end with the relay, not with a test's runtime.
    pub(crate) fn read(pipes: impl IntoIterator<Item = OwnedFd>) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let readers = pipes.into_iter().map(|pipe| {
            let lines = Arc::clone(&lines);
            std::thread::spawn(move || {
                for line in BufReader::new(File::from(pipe)).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    lines.lock().expect("no panic while locked").push(line);
                }
            })
        });
        let readers = readers.collect();
        Self { lines, readers }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic while locked").clone()
    }

    /// Waits for the end of both pipes: nothing more is logged by a process that has ended.
    pub(crate) fn finish(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}
