//! Randomness that can be repeated.

/// A generator for `test`, seeded from the environment's `SEED` or else at random. The seed is printed, so a failing
/// test's output says how to run it again: `make test T=<test> SEED=<seed>`.
///
/// # Panics
/// When `SEED` is not a whole number.
pub fn rng(test: &str) -> fastrand::Rng {
    let seed = match std::env::var("SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("SEED={text} is not a whole number from 0 to 2^64-1")),
        Err(_) => fastrand::u64(..),
    };
    println!("{test}: SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
