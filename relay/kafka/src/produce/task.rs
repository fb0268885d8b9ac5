//! The task that owns a producer: it passes records, answers and times to [`Cluster`], and does what that asks for.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::BytesMut;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinSet,
    time::sleep_until,
};

use super::{
    broker::{self, Heard},
    cluster::Cluster,
    confirm::Confirm,
};
use crate::{
    config::ProduceConfig,
    connect::{
        channel::frame,
        control::{Control, Metadata},
        error::KafkaError,
    },
    record::{batch::ProducerId, message::Outgoing},
    wire::{
        codec::Reader,
        requests::{Produce, Request},
    },
};

/// Most requests that wait in front of a socket; more are never in flight.
const REQUESTS: usize = 8;

/// Records on their way to the task, with the number of refusals that the caller knew.
pub(crate) type Handed<M> = (Vec<M>, u64);

/// Confirms on their way to the caller, with the number of refusals so far.
pub(crate) type Confirmed = (Vec<Confirm>, u64);

/// An open connection, or one that is being opened.
struct Link {
    generation: u64,
    requests: Sender<BytesMut>,
}

pub(crate) struct Task<M> {
    config: ProduceConfig,
    cluster: Cluster<M>,
    links: BTreeMap<i32, Link>,
    generation: u64,
    tasks: JoinSet<()>,
    /// Why a broker's connection has ended last, as the end of a sentence.
    trouble: String,
}

impl<M: Outgoing> Task<M> {
    pub(crate) fn new(config: ProduceConfig, producer: ProducerId) -> Self {
        let cluster = Cluster::new(producer, config.compression, config.keeps_order);
        Self { config, cluster, links: BTreeMap::new(), generation: 0, tasks: JoinSet::new(), trouble: String::new() }
    }

    /// Works until the caller is gone, or the producer has to end.
    pub(crate) async fn run(
        mut self,
        control: Control,
        mut handed: Receiver<Handed<M>>,
        confirmed: Sender<Confirmed>,
    ) -> Result<(), KafkaError> {
        let (hears, mut heard) = channel::<(i32, u64, Heard)>(REQUESTS);
        let (asks, questions) = channel(1);
        let (answers, mut answered) = channel(1);
        self.tasks.spawn(answer(control, questions, answers));
        loop {
            let now = Instant::now();
            self.act(now, &hears, &asks)?;
            let silent = self.cluster.silent_since().map(|since| since + self.config.confirm_timeout);
            if silent.is_some_and(|at| at <= now) {
                return Err(KafkaError::Silent(self.config.confirm_timeout, std::mem::take(&mut self.trouble)));
            }
            let wake_at = silent.into_iter().chain([self.cluster.wake_at(now)]).min().unwrap_or(now);
            let has_confirms = !self.cluster.out.ready.is_empty();
            tokio::select! {
                biased;
                permit = confirmed.reserve(), if has_confirms => {
                    let Ok(permit) = permit else { return Ok(()) };
                    permit.send((std::mem::take(&mut self.cluster.out.ready), self.cluster.out.refusals));
                }
                Some((id, generation, said)) = heard.recv() => self.heard(id, generation, said)?,
                Some(metadata) = answered.recv() => self.cluster.learn(metadata?, Instant::now())?,
                batch = handed.recv() => {
                    let Some((messages, known)) = batch else { return Ok(()) };
                    self.cluster.publish(messages, known, Instant::now());
                    while let Ok((messages, known)) = handed.try_recv() {
                        self.cluster.publish(messages, known, Instant::now());
                    }
                }
                () = sleep_until(wake_at.into()) => {}
            }
        }
    }

    /// Asks, connects and sends what is due.
    fn act(
        &mut self,
        now: Instant,
        hears: &Sender<(i32, u64, Heard)>,
        asks: &Sender<Vec<String>>,
    ) -> Result<(), KafkaError> {
        if let Some(topics) = self.cluster.asks(now) {
            let _ = asks.try_send(topics);
        }
        for (id, host) in self.cluster.connects(now) {
            self.generation += 1;
            let (requests, receiver) = channel(REQUESTS);
            self.links.insert(id, Link { generation: self.generation, requests });
            self.tasks.spawn(broker::run(self.config.clone(), id, self.generation, host, receiver, hears.clone()));
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let limit_ms = i32::try_from((self.config.confirm_timeout / 2).as_millis()).unwrap_or(i32::MAX);
        for (id, leaving) in self.cluster.leaves(now, i64::try_from(now_ms).unwrap_or(i64::MAX)) {
            let Some(link) = self.links.get(&id) else { continue };
            let number = leaving.number;
            let request = frame(&self.cluster.request(leaving, limit_ms), number, &self.config.client_id)?;
            // There is room: no more requests are in flight. A connection that has ended says so itself.
            let _ = link.requests.try_send(request);
        }
        while self.tasks.try_join_next().is_some() {}
        Ok(())
    }

    fn heard(&mut self, id: i32, generation: u64, said: Heard) -> Result<(), KafkaError> {
        if self.links.get(&id).is_none_or(|link| link.generation != generation) {
            return Ok(());
        }
        match said {
            Heard::Open => self.cluster.connected(id),
            Heard::Answer(bytes) => {
                let mut answer = Reader(bytes);
                let number = answer.i32()?;
                let answers = Produce::answer(&mut answer)?;
                self.cluster.answered(id, number, answers, Instant::now())?;
            }
            Heard::Ended(error) => {
                if !error.is_transient() && !matches!(error, KafkaError::HungUp(_)) {
                    return Err(error);
                }
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                self.trouble = format!("; broker {id}: {error}{cause}");
                self.links.remove(&id);
                self.cluster.disconnected(id, Instant::now());
            }
        }
        Ok(())
    }
}

/// Answers questions about the cluster, one after the other.
async fn answer(
    mut control: Control,
    mut questions: Receiver<Vec<String>>,
    answers: Sender<Result<Metadata, KafkaError>>,
) {
    while let Some(topics) = questions.recv().await {
        let metadata = control.metadata(&topics).await;
        if answers.send(metadata).await.is_err() {
            return;
        }
    }
}
