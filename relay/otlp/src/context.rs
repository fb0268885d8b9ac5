//! W3C Trace Context: the header `traceparent` (<https://www.w3.org/TR/trace-context/>). Pure.

use std::fmt;

/// The flag that says that the caller may have recorded its part of the trace.
const SAMPLED: u8 = 1;
/// The flag that says that the trace id is random: it belongs to the id, so it goes where that goes.
const RANDOM: u8 = 2;

/// Bytes of a `traceparent` of version 00, which is what is written.
pub const TRACEPARENT_BYTES: usize = 55;

/// Where a span stands in its trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub(crate) trace_id: [u8; 16],
    pub(crate) span_id: [u8; 8],
    pub(crate) flags: u8,
}

impl Context {
    /// Reads a `traceparent`. Of a version later than 00 it reads what 00 has, as the standard asks. `None`: it is not valid.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let (text, rest) = traceparent.as_bytes().split_at_checked(TRACEPARENT_BYTES)?;
        let version: [u8; 1] = hex(text.get(..2)?)?;
        let is_complete = match version {
            [0] => rest.is_empty(),
            [0xFF] => false,
            [_] => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_divided = [2, 35, 52].iter().all(|place| text.get(*place) == Some(&b'-'));
        let (trace_id, span_id) = (hex(text.get(3..35)?)?, hex(text.get(36..52)?)?);
        let [flags] = hex(text.get(53..)?)?;
        let is_valid = is_complete && is_divided && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, flags: flags & (SAMPLED | RANDOM) })
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The context of a span in the same trace. `span_id` is not 0, which stands for no span.
    #[must_use]
    pub fn with_span(&self, span_id: u64) -> Self {
        Self { span_id: span_id.to_be_bytes(), ..*self }
    }

    /// As a header of version 00. Flags that this version does not know are not set, as the standard asks.
    pub fn traceparent(&self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        for (from, bytes) in
            [(3, self.trace_id.as_slice()), (36, self.span_id.as_slice()), (53, [self.flags].as_slice())]
        {
            for (digits, byte) in text.get_mut(from..).unwrap_or_default().chunks_exact_mut(2).zip(bytes) {
                digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
        }
        text
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.traceparent()).fmt(f)
    }
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// Digits in lower case only, as the standard has them.
fn hex<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = digits else { return None };
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn again(traceparent: &str) -> Option<String> {
        Context::parse(traceparent).map(|context| String::from_utf8(context.traceparent().to_vec()).unwrap())
    }

    #[test]
    fn a_valid_header_is_read_and_written_alike() {
        assert_eq!(again(VALID).as_deref(), Some(VALID));
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(again(&unsampled), Some(unsampled.clone()));
        assert!(Context::parse(VALID).unwrap().is_sampled() && !Context::parse(&unsampled).unwrap().is_sampled());
    }

    #[test]
    fn a_span_of_the_same_trace_keeps_trace_and_flags() {
        let child = Context::parse(&VALID.replace("-01", "-03")).unwrap().with_span(0x1234);
        assert_eq!(child.traceparent(), *b"00-0af7651916cd43dd8448eb211c80319c-0000000000001234-03");
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_unknown_flags_are_not_handed_on() {
        for later in [VALID.replacen("00", "cc", 1), format!("{}-what-comes-then", VALID.replacen("00", "01", 1))] {
            assert_eq!(again(&later).as_deref(), Some(VALID), "{later}");
        }
        assert_eq!(again(&VALID.replace("-01", "-ff")), Some(VALID.replace("-01", "-03")));
    }

    #[test]
    fn what_the_standard_does_not_allow_is_not_valid() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for bad in [
            String::new(),
            VALID.to_uppercase(),
            VALID.replacen("00", "ff", 1),
            VALID.replacen("00", "0x", 1),
            VALID.replace(trace, &"0".repeat(32)),
            VALID.replace(span, &"0".repeat(16)),
            VALID.replace('-', "_"),
            VALID.replace('c', "ä"),
            format!("{VALID}-"),
            format!("{VALID}0"),
            format!("{}0", VALID.replacen("00", "01", 1)),
            format!(" {VALID}"),
            VALID[..54].to_owned(),
            VALID.replace("-01", "-0g"),
        ] {
            assert_eq!(Context::parse(&bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_valid_is_written_in_a_valid_form(text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?") {
            if let Some(written) = again(&text) {
                prop_assert_eq!(again(&written), Some(written.clone()));
                prop_assert_eq!(&written[3..52], &text[3..52]);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,80}") {
            let _ = Context::parse(&text);
        }
    }
}
