//! Why the settings cannot be used.

use std::fmt;

/// Everything that is wrong with the settings, one line for each: name, origin, value (unless secret), allowed values.
#[derive(Debug)]
pub struct Invalid {
    problems: Vec<String>,
}

impl Invalid {
    pub(super) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// One line for each problem.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(String::as_str)
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Invalid {}
