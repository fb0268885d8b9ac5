//! W3C Trace Context: the header `traceparent` (<https://www.w3.org/TR/trace-context/>). Pure.
//!
//! The SDK's `TraceContextPropagator` is not used, because it accepts blanks around the text and shorter ids, which the
//! standard forbids.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Length of a `traceparent` of version 00, in bytes. A later version may append more, after a dash.
const TRACEPARENT_BYTES: usize = 55;

/// The flags of version 00 and the random flag, which belongs to the trace id. Unknown flags are not passed on.
const KNOWN_FLAGS: u8 = 0b11;

/// Reads a `traceparent`, which names a span of another process; `None`: the text is not valid.
pub(crate) fn parse(traceparent: &str, state: TraceState) -> Option<SpanContext> {
    let (text, rest) = traceparent.split_at_checked(TRACEPARENT_BYTES)?;
    let is_in_alphabet = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace_id, span_id, flags] = parts[..] else { return None };
    let is_whole = rest.is_empty() || (version != "00" && rest.starts_with('-'));
    let has_lengths = [version.len(), trace_id.len(), span_id.len()] == [2, 32, 16];
    if !(is_in_alphabet && is_whole && has_lengths) || version == "ff" {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & KNOWN_FLAGS);
    let (trace_id, span_id) = (TraceId::from_hex(trace_id).ok()?, SpanId::from_hex(span_id).ok()?);
    Some(SpanContext::new(trace_id, span_id, flags, true, state)).filter(SpanContext::is_valid)
}

/// The `traceparent` of version 00 that names this span.
pub(crate) fn traceparent(context: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn again(text: &str) -> Option<String> {
        parse(text, TraceState::NONE).map(|context| traceparent(&context))
    }

    #[test]
    fn a_valid_header_is_read_and_written_alike() {
        assert_eq!(again(VALID).as_deref(), Some(VALID));
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(again(&unsampled), Some(unsampled.clone()));
        let is_sampled = |text| parse(text, TraceState::NONE).unwrap().is_sampled();
        assert!(is_sampled(VALID) && !is_sampled(&unsampled));
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
            VALID.replacen("319c-b", "319-cb", 1),
        ] {
            assert_eq!(again(&bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_valid_is_written_in_a_valid_form(
            text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
        ) {
            if let Some(written) = again(&text) {
                prop_assert_eq!(again(&written), Some(written.clone()));
                prop_assert_eq!(&written[3..52], &text[3..52]);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,80}") {
            let _ = again(&text);
        }
    }
}
