//! Connections to the leaders of what is read, to all at once: topics of others must not wait for one that is frozen.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Duration,
};

use client_socket::Host;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    config::ProduceConfig,
    connect::{channel::Channel, error::KafkaError, open::open},
};

/// Attempts to connect to leaders, which go on while others are read: one that lets clients in slowly is reached later.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    attempts: JoinSet<(i32, Host, Result<Channel, KafkaError>)>,
    running: BTreeSet<i32>,
}

/// The leaders that were reached, and the others, each with the reason.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) channels: Vec<(i32, Channel)>,
    pub(super) unreachable: BTreeMap<i32, String>,
}

impl Leaders {
    /// Connects to these leaders, and waits for at most `limit`; not for one whose attempt has gone on since earlier.
    pub(super) async fn reach(
        &mut self,
        config: &ProduceConfig,
        wanted: BTreeMap<i32, Host>,
        limit: Duration,
    ) -> Reached {
        let mut reached = Reached::default();
        while let Some(Ok((leader, _, opened))) = self.attempts.try_join_next() {
            self.running.remove(&leader);
            reached.channels.extend(opened.ok().map(|channel| (leader, channel)));
        }
        let mut new = BTreeSet::new();
        for (leader, host) in wanted {
            if self.running.contains(&leader) {
                reached.unreachable.insert(leader, format!("{host} has not answered yet"));
            } else if !reached.channels.iter().any(|(known, _)| *known == leader) {
                reached.unreachable.insert(leader, format!("{host} does not answer"));
                self.running.insert(leader);
                new.insert(leader);
                let config = config.clone();
                self.attempts.spawn(async move { (leader, host.clone(), open(&config, &host).await) });
            }
        }
        let until = Instant::now() + limit;
        while !new.is_empty()
            && let Ok(Some(Ok((leader, host, opened)))) = timeout_at(until, self.attempts.join_next()).await
        {
            self.running.remove(&leader);
            new.remove(&leader);
            match opened {
                Ok(channel) => {
                    reached.unreachable.remove(&leader);
                    reached.channels.push((leader, channel));
                }
                Err(error) => {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    reached.unreachable.insert(leader, format!("{host}: {error}{cause}"));
                }
            }
        }
        reached
    }
}
