//! The name that was probably meant.

/// The name closest to `word`, if any is close enough to be what was meant. Case and dashes do not count.
pub(super) fn nearest(word: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let word = word.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (distance(&word, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(4) / 2)
        .map(|(_, name)| name)
}

/// Levenshtein distance, row by row; the first column of each row is its number.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (1..=right.chars().count()).collect();
    for (i, l) in left.chars().enumerate() {
        let (mut diagonal, mut before) = (i, i + 1);
        for (above, r) in row.iter_mut().zip(right.chars()) {
            before = (diagonal + usize::from(l != r)).min(*above + 1).min(before + 1);
            diagonal = std::mem::replace(above, before);
        }
    }
    row.last().copied().unwrap_or_else(|| left.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_single_edits() {
        for (left, right, edits) in
            [("", "", 0), ("slot", "slot", 0), ("slt", "slot", 1), ("kitten", "sitting", 3), ("", "ab", 2)]
        {
            assert_eq!(distance(left, right), edits, "{left:?} {right:?}");
            assert_eq!(distance(right, left), edits, "{right:?} {left:?}");
        }
    }

    #[test]
    fn case_and_dashes_are_no_mistakes() {
        assert_eq!(nearest("Max-Attempts", ["max_events", "max_attempts"]), Some("max_attempts"));
    }

    #[test]
    fn a_word_that_resembles_nothing_suggests_nothing() {
        assert_eq!(nearest("colour", ["slot", "exchange"]), None);
    }
}
