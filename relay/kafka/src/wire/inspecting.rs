//! Requests by which one looks at a cluster and changes nothing.

use std::collections::HashMap;

use bytes::{BufMut, BytesMut};

use super::{
    codec::{Malformed, Reader, put_array, put_text},
    requests::Request,
};

/// The number of a topic among the kinds of things that have settings.
const TOPIC: i8 = 2;

/// Settings of topics, with what holds where a topic says nothing.
pub(crate) struct DescribeConfigs<'a> {
    pub(crate) topics: &'a [String],
    /// The names of the settings.
    pub(crate) names: &'a [&'a str],
}

/// The settings of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigsAnswer {
    pub(crate) code: i16,
    pub(crate) text: Option<String>,
    pub(crate) topic: String,
    pub(crate) values: HashMap<String, String>,
}

impl Request for DescribeConfigs<'_> {
    type Answer = Vec<ConfigsAnswer>;
    const KIND: (i16, i16) = (32, 1);

    fn put(&self, out: &mut BytesMut) {
        put_array(out, self.topics, |out, topic| {
            out.put_i8(TOPIC);
            put_text(out, topic);
            put_array(out, self.names, |out, name| put_text(out, name));
        });
        out.put_u8(0); // nothing about where a value is from
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        from.array(|from| {
            let (code, text) = (from.i16()?, from.nullable_text()?);
            from.i8()?; // a topic
            let topic = from.text()?;
            let values = from.array(|from| {
                let (name, value) = (from.text()?, from.nullable_text()?);
                from.i8()?; // whether nobody can change it
                from.i8()?; // where the value is from
                from.i8()?; // whether it is a secret
                from.array(|from| Ok((from.text()?, from.nullable_text()?, from.i8()?)))?; // other values, had it none
                Ok(value.map(|value| (name, value)))
            })?;
            Ok(ConfigsAnswer { code, text, topic, values: values.into_iter().flatten().collect() })
        })
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        messages::{
            AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, DescribeConfigsRequest, DescribeConfigsResponse,
            EndTxnRequest, EndTxnResponse, MetadataRequest, MetadataResponse, TopicName,
            add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
            describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym},
            metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
        },
        protocol::{Decodable, Encodable, StrBytes},
    };

    use super::*;
    use crate::{
        record::batch::ProducerId,
        wire::requests::{AddPartitionsToTxn, EndTxn, Metadata, NO_RIGHTS_ASKED, PartitionAnswer},
    };

    fn written<R: Request, Theirs: Decodable>(request: &R) -> Theirs {
        let mut out = BytesMut::new();
        request.put(&mut out);
        let mut out = out.freeze();
        let theirs = Theirs::decode(&mut out, R::KIND.1).unwrap();
        assert!(out.is_empty(), "{out:?}");
        theirs
    }

    fn read<R: Request>(theirs: &impl Encodable) -> R::Answer {
        let mut out = BytesMut::new();
        theirs.encode(&mut out, R::KIND.1).unwrap();
        let mut reader = Reader(out.freeze());
        let answer = R::answer(&mut reader).unwrap();
        assert!(reader.0.is_empty(), "{reader:?}");
        answer
    }

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    #[test]
    fn settings_are_asked_for_and_read_as_kafka_defines_them() {
        let topics = ["a".to_owned(), "b".to_owned()];
        let asked: DescribeConfigsRequest = written(&DescribeConfigs { topics: &topics, names: &["retention.ms"] });
        let resources: Vec<_> = asked.resources.iter().map(|r| (r.resource_type, r.resource_name.as_str())).collect();
        assert_eq!(resources, [(2, "a"), (2, "b")]);
        assert_eq!(asked.resources[1].configuration_keys, Some(vec![text("retention.ms")]));
        assert!(!asked.include_synonyms);

        let config = DescribeConfigsResourceResult::default().with_name(text("retention.ms"));
        let synonym = DescribeConfigsSynonym::default().with_name(text("log.retention.hours")).with_value(None);
        let known = DescribeConfigsResult::default().with_error_message(None).with_resource_type(2);
        let known = known.with_resource_name(text("a")).with_configs(vec![
            config.clone().with_value(Some(text("7"))).with_synonyms(vec![synonym]),
            config.with_name(text("secret")).with_value(None),
        ]);
        let refused = DescribeConfigsResult::default()
            .with_error_code(29)
            .with_error_message(Some(text("no")))
            .with_resource_name(text("b"));
        let answer =
            read::<DescribeConfigs<'_>>(&DescribeConfigsResponse::default().with_results(vec![known, refused]));
        let values = HashMap::from([("retention.ms".to_owned(), "7".to_owned())]);
        let first = ConfigsAnswer { topic: "a".to_owned(), values, ..ConfigsAnswer::default() };
        let second =
            ConfigsAnswer { code: 29, text: Some("no".to_owned()), topic: "b".to_owned(), ..ConfigsAnswer::default() };
        assert_eq!(answer, [first, second]);
    }

    #[test]
    fn an_empty_transaction_is_asked_for_as_kafka_defines_it() {
        let producer = ProducerId { id: 7, epoch: 2 };
        let topics = [("a".to_owned(), vec![0, 5])];
        let asked: AddPartitionsToTxnRequest =
            written(&AddPartitionsToTxn { name: "outbox", producer, topics: &topics });
        assert_eq!(asked.v3_and_below_transactional_id.as_str(), "outbox");
        assert_eq!((asked.v3_and_below_producer_id.0, asked.v3_and_below_producer_epoch), (7, 2));
        let added = &asked.v3_and_below_topics[0];
        assert_eq!((added.name.as_str(), added.partitions.as_slice()), ("a", &[0, 5][..]));
        let code = |code| AddPartitionsToTxnPartitionResult::default().with_partition_error_code(code);
        let topic = AddPartitionsToTxnTopicResult::default().with_name(TopicName(text("a")));
        let topic = topic.with_results_by_partition(vec![code(0), code(55)]);
        let answer = AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic]);
        assert_eq!(read::<AddPartitionsToTxn<'_>>(&answer), [("a".to_owned(), 0), ("a".to_owned(), 55)]);

        let asked: EndTxnRequest = written(&EndTxn { name: "outbox", producer });
        assert_eq!((asked.transactional_id.as_str(), asked.producer_id.0), ("outbox", 7));
        assert_eq!((asked.producer_epoch, asked.committed), (2, false));
        assert_eq!(read::<EndTxn<'_>>(&EndTxnResponse::default().with_error_code(53)), 53);
    }

    #[test]
    fn topics_are_asked_for_and_read_with_replicas_and_rights() {
        let topics = ["a".to_owned()];
        for rights in [false, true] {
            let asked: MetadataRequest = written(&Metadata { topics: &topics, rights });
            assert_eq!(asked.topics.unwrap()[0].name.as_ref().map(|name| name.0.as_str()), Some("a"));
            assert_eq!((asked.allow_auto_topic_creation, asked.include_topic_authorized_operations), (false, rights));
            assert!(!asked.include_cluster_authorized_operations);
        }
        let broker = MetadataResponseBroker::default().with_host(text("host")).with_port(9092).with_rack(None);
        let partition = MetadataResponsePartition::default()
            .with_partition_index(3)
            .with_leader_id(1.into())
            .with_leader_epoch(9)
            .with_replica_nodes(vec![1.into(), 2.into()])
            .with_isr_nodes(vec![1.into()])
            .with_offline_replicas(vec![2.into()]);
        let topic = MetadataResponseTopic::default()
            .with_error_code(5)
            .with_name(Some(text("a").into()))
            .with_partitions(vec![partition]);
        let theirs = MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic]);
        let answer = read::<Metadata<'_>>(&theirs);
        assert_eq!(answer.brokers, [(0, "host".to_owned(), 9092)]);
        let topic = answer.topics.first().unwrap();
        assert_eq!((topic.code, topic.name.as_str(), topic.rights), (5, "a", NO_RIGHTS_ASKED));
        assert_eq!(topic.partitions, [PartitionAnswer { number: 3, leader: 1, replicas: 2 }]);
    }
}
