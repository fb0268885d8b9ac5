//! Whether the schema and this relay work together: if major and minor version are the same. Pure.

use std::cmp::Ordering;

/// This program's version.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// What to do when the schema and this program are of different versions.
const UPGRADE: &str =
    "install the matching package, then ALTER EXTENSION outbox UPDATE; for the plain SQL, psql -f sql/upgrade.sql";

/// A schema with which this relay does not work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Both versions.
    pub(crate) what: String,
    /// What to do.
    pub(crate) hint: &'static str,
    /// Whether the schema is the earlier one of the two: its upgrade is then still to come.
    pub(crate) schema_is_earlier: bool,
}

/// What is wrong with a schema of this version, if anything is.
pub(crate) fn misfit(schema: &str) -> Option<Misfit> {
    let order = match (release(schema), release(OWN)) {
        (Some(schema), Some(own)) => Some(schema.cmp(&own)),
        _ => None, // a version that none of ours has
    };
    (order != Some(Ordering::Equal)).then(|| Misfit {
        what: format!("the extension is of version {schema}, this relay of version {OWN}"),
        hint: UPGRADE,
        schema_is_earlier: order == Some(Ordering::Less),
    })
}

/// Major and minor of `major.minor.patch`.
fn release(version: &str) -> Option<(u32, u32)> {
    let (release, patch) = version.rsplit_once('.')?;
    let (major, minor) = release.split_once('.')?;
    patch.parse::<u32>().ok()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_fits_whose_major_and_minor_are_the_relays() {
        let (major, minor) = release(OWN).unwrap();
        assert_eq!(misfit(OWN), None);
        assert_eq!(misfit(&format!("{major}.{minor}.99")), None);
        for (schema, is_earlier) in [
            ("0.0.9".to_owned(), true),
            (format!("{major}.{}.0", minor - 1), true),
            (format!("{major}.{}.0", minor + 10), false),
            (format!("{}.0.0", major + 1), false),
            ("unknown".to_owned(), false),
            (format!("{major}.0.x"), false),
        ] {
            let misfit = misfit(&schema).expect(&schema);
            assert_eq!(misfit.schema_is_earlier, is_earlier, "{schema}");
            assert!(misfit.what.contains(&schema), "{}", misfit.what);
        }
    }
}
