//! Produce requests and their answers.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ProduceRequest, ProduceResponse, TopicName,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Decodable, StrBytes, VersionRange},
};

use super::{
    cluster::{Leaving, Place},
    partition::Answer,
};
use crate::connect::{
    channel::{decode_head, frame, protocol},
    error::KafkaError,
};

/// The versions that this client speaks: from 8 on an answer names the records to blame, from 13 on topics have ids in
/// place of names.
pub(crate) const VERSIONS: VersionRange = VersionRange { min: 8, max: 12 };

/// The answer about each batch of a request, by topic and partition.
pub(crate) type Answers = HashMap<(String, i32), Answer>;

/// Makes the bytes of a request. `limit_ms`: how long the broker waits for the replicas.
pub(crate) fn request<'a>(
    leaving: Leaving,
    name: impl Fn(Place) -> &'a str,
    version: i16,
    limit_ms: i32,
    client_id: &StrBytes,
) -> Result<BytesMut, KafkaError> {
    let mut topics: Vec<TopicProduceData> = Vec::new();
    let mut last = None;
    for (place @ (topic, partition), batch) in leaving.batches {
        if last != Some(topic) {
            let name = TopicName(StrBytes::from_string(name(place).to_owned()));
            topics.push(TopicProduceData::default().with_name(name));
            last = Some(topic);
        }
        let index = i32::try_from(partition).unwrap_or(i32::MAX);
        let data = PartitionProduceData::default().with_index(index).with_records(Some(batch));
        if let Some(topic) = topics.last_mut() {
            topic.partition_data.push(data);
        }
    }
    let request = ProduceRequest::default().with_acks(-1).with_timeout_ms(limit_ms).with_topic_data(topics);
    frame(&request, version, leaving.number, client_id)
}

/// Reads an answer: the number of its request, and the answer about each batch.
pub(crate) fn answer(mut bytes: Bytes, version: i16) -> Result<(i32, Answers), KafkaError> {
    let number = decode_head::<ProduceResponse>(&mut bytes, version)?;
    let response = ProduceResponse::decode(&mut bytes, version).map_err(protocol)?;
    let mut answers = HashMap::new();
    for topic in response.responses {
        for partition in topic.partition_responses {
            let culprits = partition.record_errors.into_iter().map(|error| {
                let said = error.batch_index_error_message.map(|said| said.to_string());
                (usize::try_from(error.batch_index).unwrap_or(usize::MAX), said)
            });
            let answer = Answer {
                code: partition.error_code,
                culprits: culprits.collect(),
                text: partition.error_message.map(|said| said.to_string()),
            };
            answers.insert((topic.name.0.to_string(), partition.index), answer);
        }
    }
    Ok((number, answers))
}
