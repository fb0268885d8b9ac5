//! From several hosts to the first that lets the client in.

use std::time::Duration;

use client_socket::Host;
use tokio::{task::JoinSet, time::sleep};

use super::{channel::Channel, error::KafkaError, open::open};
use crate::config::ProduceConfig;

/// How long a host is asked alone, before the next one is asked as well. A host that is frozen takes the whole time of
/// an attempt, and everything waits meanwhile. RFC 8305 has 250 ms for a connection alone; this one ends with a login.
const HEAD_START: Duration = Duration::from_millis(500);

/// Asks the hosts in turn, and connects to the first that lets the client in.
///
/// # Errors
///
/// The hosts in their order, each with its error.
pub(crate) async fn open_first(
    config: &ProduceConfig,
    hosts: Vec<Host>,
) -> Result<(Channel, Host), Vec<(Host, KafkaError)>> {
    let (mut hosts, mut attempts, mut failures) = (hosts.into_iter().enumerate(), JoinSet::new(), Vec::new());
    loop {
        if let Some((place, host)) = hosts.next() {
            let config = config.clone();
            attempts.spawn(async move { (place, open(&config, &host).await, host) });
        }
        tokio::select! {
            attempt = attempts.join_next() => match attempt {
                Some(Ok((_, Ok(channel), host))) => return Ok((channel, host)),
                Some(Ok((place, Err(error), host))) => failures.push((place, host, error)),
                Some(Err(_)) => {} // it has panicked, which ends the process
                None => {
                    failures.sort_by_key(|(place, ..)| *place);
                    return Err(failures.into_iter().map(|(_, host, error)| (host, error)).collect());
                }
            },
            () = sleep(HEAD_START), if hosts.len() > 0 => {}
        }
    }
}
