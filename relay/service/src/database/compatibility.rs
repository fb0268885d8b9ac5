//! Whether the schema and this relay work together: if major and minor version are the same. Pure.

use std::cmp::Ordering;

/// This program's version.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// What to do about a schema that is earlier than this program.
const UPGRADE_THE_SCHEMA: &str = "install this version of the extension, then ALTER EXTENSION outbox UPDATE; for the plain SQL, sql/upgrade.sql or outbox-upgrade-*.sql";

/// What to do about a later one, or one that is none of ours.
const INSTALL_ITS_RELAY: &str = "install the relay of the schema's version";

/// A schema with which this relay does not work.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Both versions.
    pub what: String,
    /// What to do.
    pub hint: &'static str,
    /// Whether the schema is the earlier one of the two: its upgrade is then still to come.
    pub schema_is_earlier: bool,
}

/// What is wrong with a schema of this version, if anything is.
pub fn mismatch(schema: &str) -> Option<Mismatch> {
    let order = match (release(schema), release(OWN)) {
        (Some(schema), Some(own)) => Some(schema.cmp(&own)),
        _ => None, // a version that none of ours has
    };
    let schema_is_earlier = order == Some(Ordering::Less);
    (order != Some(Ordering::Equal)).then(|| Mismatch {
        what: format!("the schema outbox is of version {schema}, and this relay of version {OWN}"),
        hint: if schema_is_earlier { UPGRADE_THE_SCHEMA } else { INSTALL_ITS_RELAY },
        schema_is_earlier,
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
        assert_eq!(mismatch(OWN), None);
        assert_eq!(mismatch(&format!("{major}.{minor}.99")), None);
        for (schema, is_earlier) in [
            ("0.0.9".to_owned(), true),
            ("0.1.0".to_owned(), true),
            (format!("{major}.{}.0", minor + 10), false),
            (format!("{}.0.0", major + 1), false),
            ("unknown".to_owned(), false),
            (format!("{major}.0.x"), false),
        ] {
            let mismatch = mismatch(&schema).expect(&schema);
            assert_eq!(mismatch.schema_is_earlier, is_earlier, "{schema}");
            assert_eq!(mismatch.hint.contains("ALTER EXTENSION"), is_earlier, "{}", mismatch.hint);
            assert!(mismatch.what.contains(&schema), "{}", mismatch.what);
        }
    }
}
