//! Whether scans test each row's size before reading it.

/// A scan that goes row by row is slower, but no oversized row can end the session. After a session that met a row
/// larger than any event, scans go row by row until all rows were read that way and the events found have their
/// verdicts: a row that is still `PENDING` would be met again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowByRow {
    /// Some rows have not been read.
    Needed,
    /// All rows have been read, and some events have no verdict yet.
    Lasting,
    Ended,
}

crate::marked_by_name!(RowByRow);

impl RowByRow {
    pub(crate) fn new(is_needed: bool) -> Self {
        if is_needed { Self::Needed } else { Self::Ended }
    }

    pub(crate) fn has_read_all(&mut self) {
        if *self == Self::Needed {
            *self = Self::Lasting;
        }
    }

    /// Whether the next scan goes row by row. `is_moving`: events in memory are about to get their verdicts.
    pub(crate) fn goes_on(&mut self, is_moving: bool) -> bool {
        if *self == Self::Lasting && !is_moving {
            *self = Self::Ended;
        }
        *self != Self::Ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_tried_until_all_have_been_and_have_their_verdicts() {
        let mut row_by_row = RowByRow::new(true);
        assert!(row_by_row.goes_on(false));
        row_by_row.has_read_all();
        assert!(row_by_row.goes_on(true));
        assert!(!row_by_row.goes_on(false));
        row_by_row.has_read_all();
        assert!(!row_by_row.goes_on(true));
        assert!(!RowByRow::new(false).goes_on(true));
    }
}
