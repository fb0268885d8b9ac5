//! Shuts out earlier producers with the same name, by a transaction without records.
//!
//! The cluster counts a name's epoch up, but the leader of a partition knows only what was written there: it goes on
//! taking batches of the old epoch. The end of a transaction is a marker that the cluster itself writes into each of
//! its partitions. So what lies before the marker is all that the old epochs have written, and consumers see no marker.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    connect::{channel::Channel, control::Control, error::KafkaError, open::check},
    record::batch::ProducerId,
    wire::{
        codes::{self, Meaning},
        requests::{AddPartitionsToTxn, EndTxn},
    },
};

/// The pause before the cluster is asked again while it ends an earlier transaction.
const PAUSE: Duration = Duration::from_millis(10);
/// How long it is asked.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// Lets the cluster write a marker into these partitions. Returns the topics without one, since the user may not write
/// there or they do not exist. It does not wait for the markers, which may not come: Kafka drops that of a partition
/// that has no leader at that moment (KAFKA-20734). `limit` is how long an earlier transaction is waited for.
///
/// # Errors
///
/// Another producer has taken the name, the user may not use it, or an earlier transaction does not end.
pub(crate) async fn fence(
    control: &mut Control,
    name: &str,
    producer: ProducerId,
    mut topics: Vec<(String, Vec<i32>)>,
    limit: Duration,
) -> Result<BTreeSet<String>, KafkaError> {
    let (mut open, mut refused, began) = (false, BTreeSet::new(), Instant::now());
    let mut channel: Option<Channel> = None;
    while !topics.is_empty() {
        let asked = match &mut channel {
            Some(channel) => channel,
            none => none.insert(control.coordinator(name).await?),
        };
        let codes = if open {
            vec![(String::new(), asked.ask(&EndTxn { name, producer }).await?)]
        } else {
            asked.ask(&AddPartitionsToTxn { name, producer, topics: &topics }).await?
        };
        let limit = if open { LIMIT } else { limit };
        let mut wait = None;
        let before = refused.len();
        for (topic, code) in codes {
            match Meaning::of(code) {
                _ if code == codes::OPERATION_NOT_ATTEMPTED => {}
                Meaning::Taken => {}
                Meaning::Refused | Meaning::NoTopic if !open => {
                    refused.insert(topic);
                }
                Meaning::Replaced => return Err(KafkaError::LostIdentity(codes::name(code))),
                _ if codes::is_transient(code) && began.elapsed() < limit => wait = Some(code),
                _ => check("fence", code, None)?,
            }
        }
        if let Some(code) = wait {
            if code != codes::CONCURRENT_TRANSACTIONS {
                channel = None; // another broker may keep the name by now
            }
            tokio::time::sleep(PAUSE).await;
        } else if refused.len() > before {
            topics.retain(|(topic, _)| !refused.contains(topic)); // of the others none was added
        } else if open {
            break;
        } else {
            open = true;
        }
    }
    Ok(refused)
}
