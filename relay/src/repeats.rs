//! When to tell of something that goes wrong again and again: less and less often. Pure.

/// Something that goes wrong again and again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    why: String,
    times: u32,
}

impl Repeats {
    /// Whether to tell it: the first time, and then, as long as the reason is the same, each time that it has happened twice as
    /// often. And how often that is.
    pub(crate) fn count(&mut self, why: &str) -> (bool, u32) {
        if self.why != why {
            *self = Self { why: why.to_owned(), times: 0 };
        }
        self.times = self.times.saturating_add(1);
        (self.times.is_power_of_two(), self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_less_and_less_often_and_a_new_reason_at_once() {
        let mut repeats = Repeats::default();
        let told: Vec<u32> = (0..1000)
            .map(|_| repeats.count("refused"))
            .filter(|(is_told, _)| *is_told)
            .map(|(_, times)| times)
            .collect();
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(repeats.count("timed out"), (true, 1));
    }
}
