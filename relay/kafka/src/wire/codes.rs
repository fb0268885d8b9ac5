//! Kafka's error codes: their names, and what each means for a batch that it answers.

#[cfg(test)]
mod page;

use self::Meaning::*;

/// What a code means for the batch that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// All in-sync replicas have the batch.
    Taken,
    /// The batch was not written, because it is larger than the topic takes.
    TooLarge,
    /// The batch was not written, because of the records that the answer names; or of some, if it names none.
    Invalid,
    /// The batch was not written, because of the topic's name or the user's rights.
    Refused,
    /// The batch was not written, because the topic or the partition does not exist.
    NoTopic,
    /// The batch was not written, because of the topic's state.
    Unavailable,
    /// The batch was not written, because an earlier one of the partition was not; or that one is unknown.
    Gap,
    /// Nobody knows whether the batch was written. The same bytes may be sent again.
    Unknown,
    /// The broker takes nothing more from this producer id and epoch.
    Replaced,
    /// The broker takes nothing from this client: a login, a right or a version is missing.
    Closed,
}

/// Codes, with Kafka's names and their meanings (<https://kafka.apache.org/protocol#protocol_error_codes>).
const CODES: &[(i16, &str, Meaning)] = &[
    (-1, "UNKNOWN_SERVER_ERROR", Unknown),
    (1, "OFFSET_OUT_OF_RANGE", Unknown),
    (2, "CORRUPT_MESSAGE", Unknown),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", NoTopic),
    (4, "INVALID_FETCH_SIZE", Unknown),
    (5, "LEADER_NOT_AVAILABLE", Unknown),
    (6, "NOT_LEADER_OR_FOLLOWER", Unknown),
    (7, "REQUEST_TIMED_OUT", Unknown),
    (8, "BROKER_NOT_AVAILABLE", Unknown),
    (9, "REPLICA_NOT_AVAILABLE", Unknown),
    (10, "MESSAGE_TOO_LARGE", TooLarge),
    (11, "STALE_CONTROLLER_EPOCH", Unknown),
    (12, "OFFSET_METADATA_TOO_LARGE", Unknown),
    (13, "NETWORK_EXCEPTION", Unknown),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", Unknown),
    (15, "COORDINATOR_NOT_AVAILABLE", Unknown),
    (16, "NOT_COORDINATOR", Unknown),
    (17, "INVALID_TOPIC_EXCEPTION", Refused),
    (18, "RECORD_LIST_TOO_LARGE", TooLarge),
    (19, "NOT_ENOUGH_REPLICAS", Unavailable),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Unknown),
    (21, "INVALID_REQUIRED_ACKS", Closed),
    (22, "ILLEGAL_GENERATION", Unknown),
    (23, "INCONSISTENT_GROUP_PROTOCOL", Unknown),
    (24, "INVALID_GROUP_ID", Unknown),
    (25, "UNKNOWN_MEMBER_ID", Unknown),
    (26, "INVALID_SESSION_TIMEOUT", Unknown),
    (27, "REBALANCE_IN_PROGRESS", Unknown),
    (28, "INVALID_COMMIT_OFFSET_SIZE", Unknown),
    (29, "TOPIC_AUTHORIZATION_FAILED", Refused),
    (30, "GROUP_AUTHORIZATION_FAILED", Unknown),
    (31, "CLUSTER_AUTHORIZATION_FAILED", Closed),
    (32, "INVALID_TIMESTAMP", Invalid),
    (33, "UNSUPPORTED_SASL_MECHANISM", Closed),
    (34, "ILLEGAL_SASL_STATE", Closed),
    (35, "UNSUPPORTED_VERSION", Closed),
    (36, "TOPIC_ALREADY_EXISTS", Unknown),
    (37, "INVALID_PARTITIONS", Unknown),
    (38, "INVALID_REPLICATION_FACTOR", Unknown),
    (39, "INVALID_REPLICA_ASSIGNMENT", Unknown),
    (40, "INVALID_CONFIG", Unknown),
    (41, "NOT_CONTROLLER", Unknown),
    (42, "INVALID_REQUEST", Unknown),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", Closed),
    (44, "POLICY_VIOLATION", Unavailable),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Gap),
    (46, "DUPLICATE_SEQUENCE_NUMBER", Taken),
    (47, "INVALID_PRODUCER_EPOCH", Replaced),
    (48, "INVALID_TXN_STATE", Unknown),
    (49, "INVALID_PRODUCER_ID_MAPPING", Replaced),
    (50, "INVALID_TRANSACTION_TIMEOUT", Unknown),
    (51, "CONCURRENT_TRANSACTIONS", Unknown),
    (52, "TRANSACTION_COORDINATOR_FENCED", Unknown),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Unknown),
    (54, "SECURITY_DISABLED", Unknown),
    (55, "OPERATION_NOT_ATTEMPTED", Unknown),
    (56, "KAFKA_STORAGE_ERROR", Unknown),
    (57, "LOG_DIR_NOT_FOUND", Unknown),
    (58, "SASL_AUTHENTICATION_FAILED", Closed),
    (59, "UNKNOWN_PRODUCER_ID", Replaced),
    (60, "REASSIGNMENT_IN_PROGRESS", Unknown),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", Unknown),
    (62, "DELEGATION_TOKEN_NOT_FOUND", Unknown),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", Unknown),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", Unknown),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", Unknown),
    (66, "DELEGATION_TOKEN_EXPIRED", Unknown),
    (67, "INVALID_PRINCIPAL_TYPE", Unknown),
    (68, "NON_EMPTY_GROUP", Unknown),
    (69, "GROUP_ID_NOT_FOUND", Unknown),
    (70, "FETCH_SESSION_ID_NOT_FOUND", Unknown),
    (71, "INVALID_FETCH_SESSION_EPOCH", Unknown),
    (72, "LISTENER_NOT_FOUND", Unknown),
    (73, "TOPIC_DELETION_DISABLED", Unknown),
    (74, "FENCED_LEADER_EPOCH", Unknown),
    (75, "UNKNOWN_LEADER_EPOCH", Unknown),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", Closed),
    (77, "STALE_BROKER_EPOCH", Unknown),
    (78, "OFFSET_NOT_AVAILABLE", Unknown),
    (79, "MEMBER_ID_REQUIRED", Unknown),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", Unknown),
    (81, "GROUP_MAX_SIZE_REACHED", Unknown),
    (82, "FENCED_INSTANCE_ID", Unknown),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", Unknown),
    (84, "ELECTION_NOT_NEEDED", Unknown),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", Unknown),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", Unknown),
    (87, "INVALID_RECORD", Invalid),
    (88, "UNSTABLE_OFFSET_COMMIT", Unknown),
    (89, "THROTTLING_QUOTA_EXCEEDED", Unavailable),
    (90, "PRODUCER_FENCED", Replaced),
    (91, "RESOURCE_NOT_FOUND", Unknown),
    (92, "DUPLICATE_RESOURCE", Unknown),
    (93, "UNACCEPTABLE_CREDENTIAL", Unknown),
    (94, "INCONSISTENT_VOTER_SET", Unknown),
    (95, "INVALID_UPDATE_VERSION", Unknown),
    (96, "FEATURE_UPDATE_FAILED", Unknown),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", Unknown),
    (98, "SNAPSHOT_NOT_FOUND", Unknown),
    (99, "POSITION_OUT_OF_RANGE", Unknown),
    (100, "UNKNOWN_TOPIC_ID", NoTopic),
    (101, "DUPLICATE_BROKER_REGISTRATION", Unknown),
    (102, "BROKER_ID_NOT_REGISTERED", Unknown),
    (103, "INCONSISTENT_TOPIC_ID", Unknown),
    (104, "INCONSISTENT_CLUSTER_ID", Unknown),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", Unknown),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", Unknown),
    (107, "INELIGIBLE_REPLICA", Unknown),
    (108, "NEW_LEADER_ELECTED", Unknown),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", Unknown),
    (110, "FENCED_MEMBER_EPOCH", Unknown),
    (111, "UNRELEASED_INSTANCE_ID", Unknown),
    (112, "UNSUPPORTED_ASSIGNOR", Unknown),
    (113, "STALE_MEMBER_EPOCH", Unknown),
    (114, "MISMATCHED_ENDPOINT_TYPE", Unknown),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", Unknown),
    (116, "UNKNOWN_CONTROLLER_ID", Unknown),
    (117, "UNKNOWN_SUBSCRIPTION_ID", Unknown),
    (118, "TELEMETRY_TOO_LARGE", Unknown),
    (119, "INVALID_REGISTRATION", Unknown),
    (120, "TRANSACTION_ABORTABLE", Unknown),
    (121, "INVALID_RECORD_STATE", Unknown),
    (122, "SHARE_SESSION_NOT_FOUND", Unknown),
    (123, "INVALID_SHARE_SESSION_EPOCH", Unknown),
    (124, "FENCED_STATE_EPOCH", Unknown),
    (125, "INVALID_VOTER_KEY", Unknown),
    (126, "DUPLICATE_VOTER", Unknown),
    (127, "VOTER_NOT_FOUND", Unknown),
    (128, "INVALID_REGULAR_EXPRESSION", Unknown),
    (129, "REBOOTSTRAP_REQUIRED", Unknown),
    (130, "STREAMS_INVALID_TOPOLOGY", Unknown),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", Unknown),
    (132, "STREAMS_TOPOLOGY_FENCED", Unknown),
    (133, "SHARE_SESSION_LIMIT_REACHED", Unknown),
];

/// Codes that go away by themselves, as Kafka's documentation says.
const TRANSIENT: &[i16] = &[
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106, 122,
    123, 133,
];

pub(crate) const UNKNOWN_SERVER_ERROR: i16 = -1;
pub(crate) const NONE: i16 = 0;
pub(crate) const NETWORK_EXCEPTION: i16 = 13;
pub(crate) const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub(crate) const NOT_COORDINATOR: i16 = 16;
pub(crate) const LEADER_NOT_AVAILABLE: i16 = 5;
pub(crate) const MESSAGE_TOO_LARGE: i16 = 10;
pub(crate) const INVALID_TOPIC_EXCEPTION: i16 = 17;
pub(crate) const NOT_ENOUGH_REPLICAS: i16 = 19;
pub(crate) const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
pub(crate) const ILLEGAL_SASL_STATE: i16 = 34;
pub(crate) const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
pub(crate) const CONCURRENT_TRANSACTIONS: i16 = 51;
pub(crate) const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
pub(crate) const OPERATION_NOT_ATTEMPTED: i16 = 55;

fn row(code: i16) -> Option<&'static (i16, &'static str, Meaning)> {
    CODES.iter().find(|(known, ..)| *known == code)
}

impl Meaning {
    /// The meaning of a code. A code that nobody has explained leaves the batch unknown.
    pub(crate) fn of(code: i16) -> Self {
        if code == 0 { Taken } else { row(code).map_or(Unknown, |(.., meaning)| *meaning) }
    }
}

/// The number and the name of a code, such as `10 MESSAGE_TOO_LARGE`.
pub(crate) fn name(code: i16) -> String {
    row(code).map_or_else(|| code.to_string(), |(_, name, _)| format!("{code} {name}"))
}

/// Whether what the code says may go away by itself.
pub(crate) fn is_transient(code: i16) -> bool {
    TRANSIENT.contains(&code) || code == CONCURRENT_TRANSACTIONS
}

/// What a leader's answer about a topic means that the cluster has just described: one that does not know it is late.
pub(crate) fn of_known_topic(code: i16) -> i16 {
    if Meaning::of(code) == NoTopic { LEADER_NOT_AVAILABLE } else { code }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::error::ResponseError;

    use super::*;

    #[test]
    fn every_code_of_the_protocol_is_in_the_table_with_its_name() {
        let mut known = 0;
        for code in -1..1000 {
            let Some(error) =
                ResponseError::try_from_code(code).filter(|error| !matches!(error, ResponseError::Unknown(_)))
            else {
                continue;
            };
            let (_, name, _) = row(code).unwrap_or_else(|| panic!("{error:?} is missing"));
            assert_eq!(name.replace('_', ""), format!("{error:?}").to_uppercase());
            assert_eq!(TRANSIENT.contains(&code), error.is_retriable(), "{code}");
            known += 1;
        }
        assert_eq!(known, CODES.len());
    }

    #[test]
    fn what_nobody_knows_leaves_the_batch_unknown() {
        assert_eq!([0, -1, 9999].map(Meaning::of), [Taken, Unknown, Unknown]);
        assert_eq!((name(10), name(9999)), ("10 MESSAGE_TOO_LARGE".to_owned(), "9999".to_owned()));
    }
}
