//! Whether rows are tried before they are read.

/// After a session that met a row larger than any event, each row is tried first: slower, and no row ends the session
/// then. It lasts until all has been read so, and what was found has its verdict: a row that is still `PENDING` would be
/// met again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// Until all has been read.
    Needed,
    /// Until what was found has its verdict.
    Lasting,
    Ended,
}

impl Care {
    pub(crate) fn new(is_needed: bool) -> Self {
        if is_needed { Self::Needed } else { Self::Ended }
    }

    pub(crate) fn has_read_all(&mut self) {
        if *self == Self::Needed {
            *self = Self::Lasting;
        }
    }

    /// Whether the next rows are tried first. `is_moving`: events that were found are about to get their verdicts.
    pub(crate) fn is_taken(&mut self, is_moving: bool) -> bool {
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
        let mut care = Care::new(true);
        assert!(care.is_taken(false));
        care.has_read_all();
        assert!(care.is_taken(true));
        assert!(!care.is_taken(false));
        care.has_read_all();
        assert!(!care.is_taken(true));
        assert!(!Care::new(false).is_taken(true));
    }
}
