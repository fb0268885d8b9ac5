//! The topic of an event.

use std::{borrow::Cow, fmt, str::FromStr};

use outbox_core::{Event, Text};

/// The columns that a template can name.
const COLUMNS: &str = "{topic}, {aggregate_type} and {type}";

/// A template of topics: text with columns of the event in braces, such as `outbox.event.{aggregate_type}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Topic,
    AggregateType,
    Type,
}

/// The text is no template of topics.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a template has letters, digits, ., _, - and {COLUMNS}, and is more than one or two dots")]
pub struct InvalidTopic;

impl TopicTemplate {
    /// The event's topic: its exchange, if it has one, or what the template makes of it. A column that the event lacks
    /// is empty.
    pub(super) fn topic<'a>(&'a self, event: &'a Event) -> Cow<'a, str> {
        let text = |column: &'a Option<Text>| column.as_ref().map(Text::as_str);
        let (exchange, topic) = (text(&event.destination.exchange), event.destination.topic.as_str());
        self.name(exchange, topic, text(&event.aggregate_type), text(&event.event_type))
    }

    /// The topic of an event with these columns.
    pub fn name<'a>(
        &'a self,
        exchange: Option<&'a str>,
        topic: &'a str,
        aggregate_type: Option<&'a str>,
        kind: Option<&'a str>,
    ) -> Cow<'a, str> {
        if let Some(exchange) = exchange {
            return Cow::Borrowed(exchange);
        }
        let text = |part: &'a Part| match part {
            Part::Text(text) => text.as_str(),
            Part::Topic => topic,
            Part::AggregateType => aggregate_type.unwrap_or_default(),
            Part::Type => kind.unwrap_or_default(),
        };
        match self.0.as_slice() {
            [only] => Cow::Borrowed(text(only)),
            parts => Cow::Owned(parts.iter().map(text).collect()),
        }
    }
}

impl FromStr for TopicTemplate {
    type Err = InvalidTopic;

    fn from_str(text: &str) -> Result<Self, InvalidTopic> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (before, column) = rest.split_once('{').map_or((rest, None), |(before, rest)| (before, Some(rest)));
            // Kafka's own rule for names of topics.
            if !before.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
                return Err(InvalidTopic);
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            rest = match column {
                None => "",
                Some(column) => {
                    let (name, after) = column.split_once('}').ok_or(InvalidTopic)?;
                    parts.push(match name {
                        "topic" => Part::Topic,
                        "aggregate_type" => Part::AggregateType,
                        "type" => Part::Type,
                        _ => return Err(InvalidTopic),
                    });
                    after
                }
            };
        }
        let is_illegal = |text: &str| text == "." || text == "..";
        match parts.as_slice() {
            [] => Err(InvalidTopic),
            [Part::Text(text)] if is_illegal(text) => Err(InvalidTopic),
            _ => Ok(Self(parts)),
        }
    }
}

impl fmt::Display for TopicTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            f.write_str(match part {
                Part::Text(text) => text,
                Part::Topic => "{topic}",
                Part::AggregateType => "{aggregate_type}",
                Part::Type => "{type}",
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_shown_as_it_was_written_and_names_only_columns() {
        for text in ["{topic}", "orders", "outbox.event.{aggregate_type}", "{type}.{topic}"] {
            assert_eq!(text.parse::<TopicTemplate>().unwrap().to_string(), text);
        }
        for text in ["", "{", "a}", "{id}", "{topic", "{}", "a b", "a/b", ".", ".."] {
            assert_eq!(text.parse::<TopicTemplate>(), Err(InvalidTopic), "{text}");
        }
    }
}
