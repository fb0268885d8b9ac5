//! Whoever may create objects in `public`, or whose schema a search path names, can put a function, an operator, a view
//! or a type beside PostgreSQL's own. Nothing of ours may ever use it: neither a statement that the product sends, nor
//! what one of its functions runs.
//!
//! The tests read from the server's log what each name of each statement was found to be (`tree`), plant a better match
//! for each (`plant`), and do everything once more.

pub(crate) mod log;
pub(crate) mod plant;
mod product;
pub(crate) mod tree;

use std::collections::BTreeSet;

use self::{log::Entry, plant::Planted, tree::Used};

/// What the statements of these sessions used.
pub(crate) fn used(entries: &[Entry]) -> Used {
    let mut used = Used::default();
    entries.iter().filter(|entry| entry.text.starts_with("{QUERY")).for_each(|entry| used.read(&entry.text));
    used
}

/// Nothing that is planted was found or called.
pub(crate) fn assert_untouched(planted: &Planted, entries: &[Entry]) {
    let mut touched = BTreeSet::new();
    for entry in entries {
        if entry.text.starts_with(plant::CALLED) {
            touched.insert(format!("{}: {}", entry.application, entry.text));
        }
        if entry.text.starts_with("{QUERY") {
            let mut used = Used::default();
            used.read(&entry.text);
            let found: Vec<u32> = used.oids().intersection(&planted.oids).copied().collect();
            if !found.is_empty() {
                touched.insert(format!("{}: a statement with the objects {found:?}", entry.application));
            }
        }
    }
    assert!(touched.is_empty(), "used what others had planted: {touched:#?}");
}
