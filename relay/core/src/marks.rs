//! The fingerprint of a state, for a search of all states of a small world: it is the same for states that are alike.
//!
//! A state *marks* its values. Of some numbers only the order matters, so they are marked by kind:
//!
//! | kind | what counts |
//! |---|---|
//! | positions in the WAL, transaction ids | their order among all of the state |
//! | numbers of events, messages and passes | their order among their kind |
//! | tickets | their distance from the oldest open ticket |
//! | times to come | their order |
//! | past times | which of some pauses have passed since |
//!
//! Without the crate's feature `faults` nothing can be marked, and the compiler removes it.

#[cfg(feature = "faults")]
pub use self::marking::{Kind, Marked, Marks};

/// Lets a struct mark its fields, each as a plain value or by the named kind. Each field must be listed, so a new one
/// cannot be forgotten.
#[cfg(feature = "faults")]
#[macro_export]
macro_rules! marked {
    ($type:ty { $($field:tt $(as $kind:ident)?),* $(,)? } $(not { $($left_out:ident),* $(,)? })?) => {
        impl $crate::Marked for $type {
            fn mark(&self, marks: &mut $crate::Marks) {
                let Self { $($field: _,)* $($($left_out: _,)*)? } = self;
                $($crate::marked!(@ marks, self.$field $(, $kind)?);)*
            }
        }
    };
    (@ $marks:ident, $value:expr) => { $crate::Marked::mark(&$value, $marks) };
    (@ $marks:ident, $value:expr, $kind:ident) => { $marks.counted($crate::Kind::$kind, &$value) };
}

/// Lets an enum mark what its `Debug` prints.
#[cfg(feature = "faults")]
#[macro_export]
macro_rules! marked_by_name {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::Marked for $type {
            fn mark(&self, marks: &mut $crate::Marks) {
                marks.text(&format!("{self:?}"));
            }
        }
    )+};
}

/// Marks nothing.
#[cfg(not(feature = "faults"))]
#[macro_export]
#[doc(hidden)]
macro_rules! marked {
    ($($tokens:tt)*) => {};
}

/// Marks nothing.
#[cfg(not(feature = "faults"))]
#[macro_export]
#[doc(hidden)]
macro_rules! marked_by_name {
    ($($tokens:tt)*) => {};
}

#[cfg(feature = "faults")]
mod marking {
    use std::{
        cmp::Reverse,
        collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque, hash_map::DefaultHasher},
        hash::{BuildHasher, Hash, Hasher},
        time::{Duration, Instant},
    };

    use uuid::Uuid;

    /// What a number counts, if only its order matters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// A transaction's id.
        Xid,
        /// A position in the write-ahead log.
        Lsn,
        /// An event's place in the order of admission.
        Order,
        /// A message's number among all that were handed to the broker.
        Message,
        /// A pass's number.
        Pass,
        /// A ticket's number.
        Ticket,
    }

    /// A value that can be marked.
    pub trait Marked {
        /// Marks the value.
        fn mark(&self, marks: &mut Marks);
    }

    /// The marks of a state, in the order in which they were made.
    #[derive(Debug, Default)]
    pub struct Marks {
        marks: Vec<Mark>,
        first_ticket: u64,
    }

    #[derive(Debug)]
    enum Mark {
        Plain(u64),
        Counted(Kind, u64),
        Time(Instant),
    }

    /// One number of a kind, or several.
    pub trait Counted {
        /// Passes each number to `take`, and `None` where there is none.
        fn each(&self, take: &mut dyn FnMut(Option<u64>));
    }

    impl Marks {
        /// Marks a number that counts as it is.
        pub fn plain(&mut self, number: u64) {
            self.marks.push(Mark::Plain(number));
        }

        /// Marks a text that counts as it is.
        pub fn text(&mut self, text: &str) {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            self.plain(hasher.finish());
        }

        /// Marks a number of which only the order among its kind counts.
        pub fn counted(&mut self, kind: Kind, number: &(impl Counted + ?Sized)) {
            number.each(&mut |number| {
                self.marks.push(number.map_or(Mark::Plain(0), |number| Mark::Counted(kind, number)));
            });
        }

        /// Sets the ticket of the oldest open transaction, from which tickets are counted.
        pub(crate) fn first_ticket(&mut self, first: u64) {
            self.first_ticket = first;
        }

        /// The fingerprint of the marks. `pauses`, ascending: past times at `now` count as equal if they lie between
        /// the same two.
        pub fn fingerprint(&self, now: Instant, pauses: &[Duration]) -> u64 {
            let mut numbers: BTreeMap<Kind, BTreeSet<u64>> = BTreeMap::new();
            let mut times = BTreeSet::new();
            for mark in &self.marks {
                match mark {
                    Mark::Plain(_) => {}
                    Mark::Counted(kind, number) => drop(numbers.entry(*kind).or_default().insert(*number)),
                    Mark::Time(at) => drop(times.insert(*at)),
                }
            }
            let ranks: BTreeMap<(Kind, u64), usize> = numbers
                .iter()
                .flat_map(|(kind, numbers)| numbers.iter().enumerate().map(|(rank, number)| ((*kind, *number), rank)))
                .collect();
            let coming: BTreeMap<Instant, usize> =
                times.range(now..).filter(|at| **at > now).enumerate().map(|(rank, at)| (*at, rank)).collect();
            let mut hasher = DefaultHasher::new();
            for mark in &self.marks {
                std::mem::discriminant(mark).hash(&mut hasher);
                match mark {
                    Mark::Plain(number) => number.hash(&mut hasher),
                    Mark::Counted(Kind::Ticket, number) => number.checked_sub(self.first_ticket).hash(&mut hasher),
                    Mark::Counted(kind, number) => (kind, ranks.get(&(*kind, *number))).hash(&mut hasher),
                    Mark::Time(at) => {
                        let passed = now.checked_duration_since(*at).unwrap_or_default();
                        let pauses = pauses.iter().filter(|pause| passed >= **pause).count();
                        (coming.get(at), pauses).hash(&mut hasher);
                    }
                }
            }
            hasher.finish()
        }
    }

    macro_rules! plain {
        ($($number:ty),+) => {$(
            impl Marked for $number {
                fn mark(&self, marks: &mut Marks) {
                    marks.plain(*self as u64);
                }
            }
        )+};
    }
    plain!(bool, u8, u32, u64, usize, i64);

    impl Marked for f64 {
        fn mark(&self, marks: &mut Marks) {
            marks.plain(self.to_bits());
        }
    }

    impl Marked for Duration {
        fn mark(&self, marks: &mut Marks) {
            marks.plain(self.as_secs());
            marks.plain(self.subsec_nanos().into());
        }
    }

    impl Marked for Instant {
        fn mark(&self, marks: &mut Marks) {
            marks.marks.push(Mark::Time(*self));
        }
    }

    impl Marked for str {
        fn mark(&self, marks: &mut Marks) {
            marks.text(self);
        }
    }

    impl Marked for String {
        fn mark(&self, marks: &mut Marks) {
            marks.text(self);
        }
    }

    impl Marked for Uuid {
        fn mark(&self, marks: &mut Marks) {
            let (high, low) = self.as_u64_pair();
            marks.plain(high);
            marks.plain(low);
        }
    }

    impl<T: Marked + ?Sized> Marked for &T {
        fn mark(&self, marks: &mut Marks) {
            (**self).mark(marks);
        }
    }

    impl<T: Marked + ?Sized> Marked for std::sync::Arc<T> {
        fn mark(&self, marks: &mut Marks) {
            (**self).mark(marks);
        }
    }

    impl<T: Marked> Marked for Reverse<T> {
        fn mark(&self, marks: &mut Marks) {
            self.0.mark(marks);
        }
    }

    impl<T: Marked> Marked for Option<T> {
        fn mark(&self, marks: &mut Marks) {
            self.is_some().mark(marks);
            self.iter().for_each(|value| value.mark(marks));
        }
    }

    impl<A: Marked, B: Marked> Marked for (A, B) {
        fn mark(&self, marks: &mut Marks) {
            self.0.mark(marks);
            self.1.mark(marks);
        }
    }

    /// Marks the number of values, and each value.
    fn all<T: Marked>(values: impl ExactSizeIterator<Item = T>, marks: &mut Marks) {
        values.len().mark(marks);
        values.for_each(|value| value.mark(marks));
    }

    impl<T: Marked> Marked for [T] {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    impl<T: Marked, const N: usize> Marked for [T; N] {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    impl<T: Marked> Marked for BTreeSet<T> {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    impl<T: Marked> Marked for Vec<T> {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    impl<T: Marked> Marked for VecDeque<T> {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    impl<T: Marked + Ord> Marked for BinaryHeap<T> {
        fn mark(&self, marks: &mut Marks) {
            let mut sorted: Vec<&T> = self.iter().collect();
            sorted.sort_unstable();
            all(sorted.into_iter(), marks);
        }
    }

    impl<T: Marked + Ord, S: BuildHasher> Marked for HashSet<T, S> {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter().collect::<BTreeSet<_>>().into_iter(), marks);
        }
    }

    impl<K: Marked + Ord, V: Marked, S: BuildHasher> Marked for HashMap<K, V, S> {
        fn mark(&self, marks: &mut Marks) {
            let sorted: BTreeMap<_, _> = self.iter().collect();
            all(sorted.into_iter(), marks);
        }
    }

    impl<K: Marked, V: Marked> Marked for BTreeMap<K, V> {
        fn mark(&self, marks: &mut Marks) {
            all(self.iter(), marks);
        }
    }

    macro_rules! counted {
        ($($number:ty),+) => {$(
            impl Counted for $number {
                fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
                    take(Some((*self).into()));
                }
            }
        )+};
    }
    counted!(u32, u64);

    impl<T: Counted> Counted for Option<T> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            match self {
                Some(number) => number.each(take),
                None => take(None),
            }
        }
    }

    /// Passes each number to `take`, and `None` as the end.
    fn each<'a>(numbers: impl Iterator<Item = &'a u64>, take: &mut dyn FnMut(Option<u64>)) {
        numbers.for_each(|number| take(Some(*number)));
        take(None);
    }

    impl Counted for Vec<u64> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            each(self.iter(), take);
        }
    }

    impl Counted for Vec<u32> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            self.iter().for_each(|number| number.each(take));
            take(None);
        }
    }

    impl Counted for VecDeque<u64> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            each(self.iter(), take);
        }
    }

    /// Events by their order of admission, which stands for their ids.
    impl Counted for Vec<(u64, Uuid)> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            each(self.iter().map(|(order, _)| order), take);
        }
    }

    impl Counted for BinaryHeap<Reverse<(u64, Uuid)>> {
        fn each(&self, take: &mut dyn FnMut(Option<u64>)) {
            let orders: BTreeSet<u64> = self.iter().map(|Reverse((order, _))| *order).collect();
            each(orders.iter(), take);
        }
    }
}
