//! Checks whether the schema and this relay fit: they need the same major and minor version. Pure.

use std::cmp::Ordering;

/// This program's version.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// The hint about a schema that is earlier than this program.
const UPGRADE_THE_SCHEMA: &str = "install this version of the extension, then ALTER EXTENSION outbox UPDATE; for the plain SQL, sql/upgrade.sql or outbox-upgrade-*.sql";

/// The hint about a schema that is later than this program, or whose version is none of the outbox's.
const INSTALL_ITS_RELAY: &str = "install the relay of the schema's version";

/// A schema that does not fit this relay.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// A sentence with both versions.
    pub what: String,
    /// What the operator can do.
    pub hint: &'static str,
    /// Whether the schema is earlier than the relay, so that its upgrade may still follow.
    pub schema_is_earlier: bool,
}

/// The mismatch between a schema of this version and this relay; `None`: they fit.
pub fn mismatch(schema: &str) -> Option<Mismatch> {
    let order = match (release(schema), release(OWN)) {
        (Some(schema), Some(own)) => Some(schema.cmp(&own)),
        _ => None, // a version in a form that the outbox's never have
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
