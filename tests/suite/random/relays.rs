//! Relays as a supervisor runs them: one that ends is started again, unless a fault wants it away.

use std::{
    sync::Mutex as Lock,
    time::{Duration, Instant},
};

use harness::{Relay, RelayBuilder, Usage};
use tokio::sync::Mutex;

/// As often a supervisor looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The least time between two starts: a relay whose broker is away ends at once, for as long as that lasts.
const PAUSE: Duration = Duration::from_millis(500);

/// Ended by SIGKILL, as the guardian reports it.
const KILLED: i32 = 137;

pub(super) struct Relays {
    builder: RelayBuilder,
    seats: Vec<Mutex<Seat>>,
    book: Lock<Book>,
}

#[derive(Default)]
struct Seat {
    relay: Option<Relay>,
    wanted: bool,
    started: Option<Instant>,
}

/// What is kept of relays that have ended.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) exits: Vec<i32>,
    pub(super) starts: usize,
    pub(super) peak_memory: u64,
    pub(super) log: Vec<String>,
}

impl Relays {
    /// `count` of them; [`tend`](Self::tend) starts them.
    pub(super) fn new(builder: RelayBuilder, count: usize) -> Self {
        let seats = (0..count).map(|_| Mutex::new(Seat { wanted: true, ..Seat::default() })).collect();
        Self { builder, seats, book: Lock::default() }
    }

    /// Starts whichever is wanted and does not run. Never ends.
    pub(super) async fn tend(&self) {
        loop {
            for number in 0..self.seats.len() {
                let mut seat = self.seats[number].lock().await;
                if let Some(relay) = &seat.relay {
                    self.weigh(relay);
                    if relay.try_exit().is_some() {
                        self.enter(number, seat.relay.take());
                    }
                }
                let rested = seat.started.is_none_or(|started| started.elapsed() >= PAUSE);
                if seat.wanted && seat.relay.is_none() && rested {
                    seat.relay = Some(self.builder.spawn());
                    seat.started = Some(Instant::now());
                    self.book().starts += 1;
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Kills one, which stays away until it is [wanted](Self::want).
    pub(super) async fn kill(&self, number: usize) {
        let mut seat = self.seats[number].lock().await;
        seat.wanted = false;
        if let Some(relay) = &seat.relay {
            self.weigh(relay);
            relay.kill().await;
        }
        self.enter(number, seat.relay.take());
    }

    /// Asks one to end; it stays away until it is [wanted](Self::want).
    pub(super) async fn terminate(&self, number: usize) {
        let mut seat = self.seats[number].lock().await;
        seat.wanted = false;
        if let Some(relay) = &seat.relay {
            relay.terminate();
        }
    }

    /// Wants one again.
    pub(super) async fn want(&self, number: usize) {
        self.seats[number].lock().await.wanted = true;
    }

    /// Freezes one.
    pub(super) async fn pause(&self, number: usize) {
        self.seats[number].lock().await.relay.iter().for_each(Relay::pause);
    }

    /// Undoes [`pause`](Self::pause).
    pub(super) async fn resume(&self, number: usize) {
        self.seats[number].lock().await.relay.iter().for_each(Relay::resume);
    }

    pub(super) fn count(&self) -> usize {
        self.seats.len()
    }

    /// The end: all are asked to end, and waited for.
    pub(super) async fn stop(self) -> Book {
        for number in 0..self.count() {
            self.terminate(number).await;
            let mut seat = self.seats[number].lock().await;
            if let Some(relay) = &seat.relay {
                self.weigh(relay);
                relay.exited().await;
            }
            self.enter(number, seat.relay.take());
        }
        self.book.into_inner().expect("no panic while locked")
    }

    /// The last lines that the relays have logged.
    pub(super) async fn log(&self) -> Vec<String> {
        let mut lines = self.book().log.clone();
        for (number, seat) in self.seats.iter().enumerate() {
            if let Some(relay) = &seat.lock().await.relay {
                lines.extend(relay.log_lines().into_iter().map(|line| format!("relay {number}: {line}")));
            }
        }
        lines
    }

    fn weigh(&self, relay: &Relay) {
        let peak = Usage::of(relay.pid()).map_or(0, |usage| usage.peak_rss_bytes);
        let mut book = self.book();
        book.peak_memory = book.peak_memory.max(peak);
    }

    fn enter(&self, number: usize, relay: Option<Relay>) {
        let Some(relay) = relay else { return };
        let lines = relay.log_lines();
        let code = relay.try_exit().and_then(|status| status.code()).unwrap_or(KILLED);
        let mut book = self.book();
        book.exits.push(code);
        book.log.extend(lines.into_iter().map(|line| format!("relay {number}: {line}")));
        book.log.push(format!("relay {number} ended with exit code {code}"));
    }

    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while locked")
    }
}
