//! The protocol's field types that `bytes` has no reader for.

use bytes::{Buf, Bytes};

use super::error::Problem;

/// Takes `length` bytes off the front.
pub(super) fn split(data: &mut Bytes, length: u32) -> Result<Bytes, Problem> {
    match usize::try_from(length) {
        Ok(length) if length <= data.len() => Ok(data.split_to(length)),
        _ => Err(Problem::Truncated),
    }
}

/// Takes a null-terminated string off the front.
pub(super) fn text(data: &mut Bytes) -> Result<Bytes, Problem> {
    let length = data.iter().position(|&byte| byte == 0).ok_or(Problem::Truncated)?;
    let text = data.split_to(length);
    data.advance(1);
    Ok(text)
}

/// Copies a string out of its buffer.
pub(super) fn utf8(text: &[u8]) -> Result<String, Problem> {
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| Problem::NotUtf8)
}

/// Checks that nothing follows the last field.
pub(super) fn finish(data: &Bytes) -> Result<(), Problem> {
    if data.is_empty() { Ok(()) } else { Err(Problem::TrailingBytes(data.len())) }
}
