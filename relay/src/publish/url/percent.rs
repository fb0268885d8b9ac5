//! `%XX` in URLs (RFC 3986, section 2.1).

use std::fmt;

use super::InvalidAmqpUrl;

/// Text with everything but RFC 3986's unreserved characters as `%XX`.
pub(super) struct Encoded<'a>(pub(super) &'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => write!(f, "{}", char::from(byte)),
            _ => write!(f, "%{byte:02X}"),
        })
    }
}

/// The text that was encoded.
pub(super) fn decode(text: &str) -> Result<String, InvalidAmqpUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            digit()
                .zip(digit())
                .and_then(|(high, low)| u8::try_from(high << 4 | low).ok())
                .ok_or(InvalidAmqpUrl("a % is not followed by two hexadecimal digits"))?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).map_err(|_| InvalidAmqpUrl("it is not UTF-8"))
}
