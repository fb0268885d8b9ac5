//! Writes batches that a test has made byte for byte, and returns what Kafka answers.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use harness::{Kafka, KafkaClient, Listener, SOON, eventually};
use kafka_protocol::{
    indexmap::IndexMap,
    messages::{
        AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest, ProduceRequest,
        TopicName, TransactionalId,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
    records::{Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType},
};

/// The last version with the names of topics; errors name records.
const PRODUCE: i16 = 9;

/// A producer id with its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// Of a producer without an id.
pub(super) const NOBODY: Identity = Identity { id: -1, epoch: -1 };

impl Identity {
    pub(super) fn next_epoch(self) -> Self {
        Self { epoch: self.epoch + 1, ..self }
    }
}

/// What Kafka says about one batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: i16,
    /// The offset of the batch's first record, -1 if it was refused.
    pub(super) offset: i64,
    /// The records that are to blame, by their place in the batch.
    pub(super) culprits: Vec<i32>,
}

impl Answer {
    pub(super) fn written(offset: i64) -> Self {
        Self { code: 0, offset, culprits: Vec::new() }
    }

    pub(super) fn refused(code: i16) -> Self {
        Self { code, offset: -1, culprits: Vec::new() }
    }
}

/// A record with this value: its key is `key`, it has no header, its time is now.
pub(super) fn record(value: impl Into<Bytes>) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NOBODY.id,
        producer_epoch: NOBODY.epoch,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: 0,
        timestamp: now(),
        key: Some("key".into()),
        value: Some(value.into()),
        headers: IndexMap::new(),
    }
}

/// ms since 1970.
pub(super) fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The bytes of a batch. `first` is the number of its first record, -1 of a producer without an id.
pub(super) fn batch(by: Identity, first: i32, mut records: Vec<Record>) -> Bytes {
    for (place, record) in (0..).zip(&mut records) {
        (record.producer_id, record.producer_epoch) = (by.id, by.epoch);
        (record.offset, record.sequence) = (place, first + i32::try_from(place).unwrap());
    }
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
    bytes.freeze()
}

/// One connection. Batches are acknowledged by all replicas in sync.
pub(super) struct Producer(pub(super) KafkaClient);

impl Producer {
    /// To the leader of a topic's only partition.
    pub(super) async fn to_leader(kafka: &Kafka, topic: &str) -> Self {
        let leader = kafka.leader(topic, 0).await;
        Self(KafkaClient::connect(kafka.node(leader).port(Listener::Plain)).await)
    }

    /// An id of its own, as a producer gets it that names itself or not; or the code of the refusal.
    pub(super) async fn identity(&mut self, transactional_id: Option<&str>) -> Result<Identity, i16> {
        let name = transactional_id.map(|name| StrBytes::from_string(name.to_owned()));
        if let Some(name) = transactional_id {
            self.coordinator(name).await; // it is this node, and makes its log when it is asked for the first time
        }
        let request = InitProducerIdRequest::default()
            .with_transactional_id(name.map(TransactionalId))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        eventually("there is an answer", SOON, async || {
            let answer = self.0.request(4, &request).await;
            match answer.error_code {
                0 => Ok(Ok(Identity { id: answer.producer_id.0, epoch: answer.producer_epoch })),
                14..=16 | 51 => Err(answer.error_code), // it is loading its log
                code => Ok(Err(code)),
            }
        })
        .await
    }

    /// The code of the answer to who asks for the coordinator of a transactional id, once there is one.
    pub(super) async fn coordinator(&mut self, transactional_id: &str) -> i16 {
        let name = StrBytes::from_string(transactional_id.to_owned());
        let request = FindCoordinatorRequest::default().with_key_type(1).with_coordinator_keys(vec![name]);
        eventually("there is a coordinator", SOON, async || {
            match self.0.request(4, &request).await.coordinators[0].error_code {
                14..=16 => Err("not yet"),
                code => Ok(code),
            }
        })
        .await
    }

    /// Begins a transaction in these partitions, and takes it back.
    pub(super) async fn empty_transaction(&mut self, name: &str, by: Identity, topic: &str, partitions: &[i32]) {
        let name = TransactionalId(StrBytes::from_string(name.to_owned()));
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_partitions(partitions.to_vec());
        let begin = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(name.clone())
            .with_v3_and_below_producer_id(by.id.into())
            .with_v3_and_below_producer_epoch(by.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let answer = self.0.request(0, &begin).await;
        let codes = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
        let codes: Vec<i16> = codes.map(|partition| partition.partition_error_code).collect();
        assert_eq!(codes, vec![0; partitions.len()]);
        let end = EndTxnRequest::default()
            .with_transactional_id(name)
            .with_producer_id(by.id.into())
            .with_producer_epoch(by.epoch)
            .with_committed(false);
        assert_eq!(self.0.request(0, &end).await.error_code, 0);
    }

    /// Writes to partition 0.
    pub(super) async fn produce(&mut self, topic: &str, batch: Bytes) -> Answer {
        self.produce_to(topic, 0, batch).await
    }

    pub(super) async fn produce_to(&mut self, topic: &str, partition: i32, batch: Bytes) -> Answer {
        self.send(topic, partition, -1, batch).await;
        self.answer().await
    }

    /// Sends a batch, and does not wait for the answer. `acks` is -1 (all), or 1 (the leader).
    pub(super) async fn send(&mut self, topic: &str, partition: i32, acks: i16, batch: Bytes) {
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
        let data = TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![data]);
        self.0.send(PRODUCE, &request).await;
    }

    /// The answer to the batch that waits longest for it.
    pub(super) async fn answer(&mut self) -> Answer {
        let response = self.0.receive::<ProduceRequest>(PRODUCE).await;
        let answer = &response.responses[0].partition_responses[0];
        let culprits = answer.record_errors.iter().map(|error| error.batch_index).collect();
        Answer { code: answer.error_code, offset: answer.base_offset, culprits }
    }
}
