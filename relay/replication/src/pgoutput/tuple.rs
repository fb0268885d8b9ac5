//! Rows.

use std::fmt;

use bytes::{Buf, Bytes};

use super::error::Problem;

/// One row's values: checked when the row is decoded, walked when it is read, never copied.
#[derive(Clone)]
pub struct Tuple {
    columns: usize,
    /// The values behind the count. Invariant: there are exactly `columns` values, all well-formed.
    data: Bytes,
}

/// One value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column<'a> {
    /// NULL.
    Null,
    /// A value that is stored out of line and was not changed: the server leaves it out of an update.
    Unchanged,
    /// A value in the type's text format.
    Text(&'a [u8]),
    /// A value in the type's binary format, which a session with `binary` gets if the type has one.
    Binary(&'a [u8]),
}

impl<'a> Column<'a> {
    /// The value's bytes, in whichever format; `None` if there is no value.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) | Self::Binary(bytes) => Some(bytes),
            Self::Null | Self::Unchanged => None,
        }
    }
}

/// Shows a value's length, not the value.
impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Unchanged => f.write_str("Unchanged"),
            Self::Text(bytes) => write!(f, "Text({} bytes)", bytes.len()),
            Self::Binary(bytes) => write!(f, "Binary({} bytes)", bytes.len()),
        }
    }
}

impl Tuple {
    pub(super) fn decode(mut data: Bytes) -> Result<Self, Problem> {
        let columns = usize::from(data.try_get_u16()?);
        let mut rest: &[u8] = &data;
        for _ in 0..columns {
            (_, rest) = next_column(rest)?;
        }
        if rest.is_empty() { Ok(Self { columns, data }) } else { Err(Problem::TrailingBytes(rest.len())) }
    }

    /// The row's values, in the order of the table's columns.
    pub fn columns(&self) -> Columns<'_> {
        Columns { left: self.columns, rest: &self.data }
    }

    /// How many values the row has.
    pub fn len(&self) -> usize {
        self.columns
    }

    /// Whether the row has no values, as in a table without columns.
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.columns()).finish()
    }
}

/// Iterator over a row's values.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Columns<'a> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (column, rest) = next_column(self.rest).ok()?; // cannot fail: the invariant of `Tuple`
        self.rest = rest;
        Some(column)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Columns<'_> {}

fn next_column(data: &[u8]) -> Result<(Column<'_>, &[u8]), Problem> {
    let (&kind, rest) = data.split_first().ok_or(Problem::Truncated)?;
    match kind {
        b'n' => return Ok((Column::Null, rest)),
        b'u' => return Ok((Column::Unchanged, rest)),
        b't' | b'b' => {}
        other => return Err(Problem::UnknownColumn(other)),
    }
    let (length, rest) = rest.split_first_chunk().ok_or(Problem::Truncated)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Problem::Truncated)?;
    let (value, rest) = rest.split_at_checked(length).ok_or(Problem::Truncated)?;
    Ok((if kind == b't' { Column::Text(value) } else { Column::Binary(value) }, rest))
}
