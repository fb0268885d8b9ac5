//! What could not be tested here, for `scripts/not-run`, which `make test` ends with.

use std::path::Path;

/// Leaves word that something was not tested, and why.
pub(crate) fn not_run(what: &str, why: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-run");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(what), why).unwrap();
}

/// The same for what is tested on CI (`CI=true`) in any case.
///
/// # Panics
/// On CI.
pub(crate) fn not_run_outside_ci(what: &str, why: &str) {
    let ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    assert!(!ci, "{what} was not tested: {why}");
    not_run(what, why);
}
