//! The headers of a record.

use super::varint::put_varint;

/// The headers of a record that is being written. Kafka keeps their order, and allows a name twice.
pub struct Headers<'a> {
    out: &'a mut Vec<u8>,
    count: i64,
}

impl Headers<'_> {
    /// Writes headers with their number before them. The error says why the record cannot be written.
    pub(super) fn write(
        out: &mut Vec<u8>,
        put: impl FnOnce(&mut Headers<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let begin = out.len();
        let mut headers = Headers { out, count: 0 };
        put(&mut headers)?;
        let count = headers.count;
        let end = out.len();
        put_varint(out, count);
        let number = out.len() - end;
        if let Some(headers) = out.get_mut(begin..) {
            headers.rotate_right(number); // the number stands first
        }
        Ok(())
    }

    /// Writes one header.
    pub fn put(&mut self, name: &str, value: &[u8]) {
        put_varint(self.out, i64::try_from(name.len()).unwrap_or(i64::MAX));
        self.out.extend_from_slice(name.as_bytes());
        put_varint(self.out, i64::try_from(value.len()).unwrap_or(i64::MAX));
        self.out.extend_from_slice(value);
        self.count += 1;
    }
}
