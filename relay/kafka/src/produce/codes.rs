//! What each error code of a produce response means for the batch.

use kafka_protocol::error::ResponseError;

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

impl Meaning {
    /// The meaning of a code. A code that nobody has explained leaves the batch unknown.
    pub(crate) fn of(code: i16) -> Self {
        use ResponseError as E;
        let Some(error) = ResponseError::try_from_code(code) else {
            return if code == 0 { Self::Taken } else { Self::Unknown };
        };
        match error {
            E::DuplicateSequenceNumber => Self::Taken,
            E::MessageTooLarge | E::RecordListTooLarge => Self::TooLarge,
            E::InvalidRecord | E::InvalidTimestamp => Self::Invalid,
            E::InvalidTopicException | E::TopicAuthorizationFailed => Self::Refused,
            E::UnknownTopicOrPartition | E::UnknownTopicId => Self::NoTopic,
            E::NotEnoughReplicas | E::ThrottlingQuotaExceeded | E::PolicyViolation => Self::Unavailable,
            E::OutOfOrderSequenceNumber => Self::Gap,
            E::InvalidProducerEpoch | E::UnknownProducerId | E::ProducerFenced | E::InvalidProducerIdMapping => {
                Self::Replaced
            }
            E::ClusterAuthorizationFailed
            | E::UnsupportedSaslMechanism
            | E::IllegalSaslState
            | E::SaslAuthenticationFailed
            | E::UnsupportedVersion
            | E::UnsupportedCompressionType
            | E::UnsupportedForMessageFormat
            | E::InvalidRequiredAcks => Self::Closed,
            _ => Self::Unknown,
        }
    }
}

/// The name of a code in Kafka's documentation, such as `MESSAGE_TOO_LARGE`, with its number.
pub(crate) fn name(code: i16) -> String {
    let Some(error) = ResponseError::try_from_code(code) else { return format!("{code}") };
    let camel = format!("{error:?}");
    let mut name = String::new();
    for (place, letter) in camel.char_indices() {
        if place > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    format!("{code} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_kafkas_name_and_what_nobody_knows_leaves_the_batch_unknown() {
        assert_eq!(name(10), "10 MESSAGE_TOO_LARGE");
        assert_eq!(name(-1), "-1 UNKNOWN_SERVER_ERROR");
        assert_eq!(Meaning::of(0), Meaning::Taken);
        assert_eq!(Meaning::of(-1), Meaning::Unknown);
        assert_eq!(Meaning::of(9999), Meaning::Unknown);
    }
}
