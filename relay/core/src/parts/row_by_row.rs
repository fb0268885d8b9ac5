//! Whether rows are tried one by one before they are read.

/// After a session that met a row larger than any event, each row is tried before it is read: that is slower, and no row
/// ends the session. It lasts until all rows were read so and what was found has its verdict, for a row that is still
/// `PENDING` would be met again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowByRow {
    /// Until all rows have been read.
    Needed,
    /// Until what was found has its verdict.
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

    /// Whether the next rows are tried first. `is_moving`: events that were found are about to get their verdicts.
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
