//! JSON for programs, one object a line. Characters that a terminal would obey are written as `\u…`, because the output
//! may end on one; a program reads them the same.

use std::io;

use outbox_service::legible::needs_escape;
use serde::Serialize;
use serde_json::{Serializer, ser::Formatter, value::RawValue};

/// Returns the value as one line, with its line end.
pub(crate) fn line(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Serializing fails only for maps whose keys are not text, which no printed value has.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, EscapingFormatter));
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns text that is already JSON as a part of another value; `None` if it is not JSON.
pub(crate) fn raw(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text).ok()
}

/// serde_json's compact form, with more escapes: its own escapes C0 only.
struct EscapingFormatter;

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| needs_escape(*c)) {
            let (seen, tail) = rest.split_at(at);
            writer.write_all(seen.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = tail.get(c.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    /// Escapes such characters in raw JSON. They occur in strings only, and as spaces and line ends between the parts,
    /// which one line cannot have.
    fn write_raw_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        fragment.split(['\n', '\r', '\t']).try_for_each(|part| self.write_string_fragment(writer, part))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_one_line_without_anything_that_needs_escaping_and_means_the_same(text: String, key in "[a-z]{1,5}") {
            let value = serde_json::json!({ key.as_str(): text, "raw": [1, text] });
            let pretty = raw(format!("{value:#}")).unwrap();
            for line in [line(&value), line(&pretty)] {
                let (whole, end) = line.split_at(line.len() - 1);
                prop_assert_eq!(end, "\n");
                prop_assert!(!whole.chars().any(needs_escape));
                prop_assert_eq!(&serde_json::from_str::<Value>(whole).unwrap(), &value);
            }
        }
    }
}
