//! Free TCP ports on the loopback interface.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::atomic::{AtomicU16, Ordering},
};

/// Below Linux's range of ephemeral ports (32768 to 60999): a client that knocks on a stopped server's port could
/// otherwise be given that very port as its own, and connect to itself.
const PORTS: Range<u16> = 20_000..32_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port nobody listens on. Consecutive calls give different ports; processes start at different places, so that two
/// test runs side by side seldom meet.
pub fn free() -> u16 {
    let span = PORTS.end - PORTS.start;
    let _ = NEXT.compare_exchange(0, fastrand::u16(1..span), Ordering::Relaxed, Ordering::Relaxed);
    (0..span)
        .map(|_| PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % span)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("no free port between 20000 and 32000")
}
