//! Settings from environment variables.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use outbox_service::redact::redacted;

use super::{
    raw::{Origin, RawSettings},
    retired,
    setting::{Name, PREFIX, Setting, nearest},
    settings::{SETTINGS, by_key},
};

const CONFIG: &str = "OUTBOX_RELAY_CONFIG";

/// Returns the configuration file that the environment names.
pub(super) fn config_file(variables: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let path = variables.get(OsStr::new(CONFIG))?;
    let path = path.to_str().map_or(path.as_os_str(), |text| OsStr::new(text.trim()));
    Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty())
}

/// Reads every variable of the relay. An empty or blank variable counts as not set: compose files and charts write a
/// value that was left out that way.
pub(super) fn read(variables: &BTreeMap<OsString, OsString>, raw: &mut RawSettings) {
    for given in SETTINGS.iter().flat_map(Setting::names) {
        // The prefixed name is meant for the relay alone, so it is read last and wins.
        let shared = given.plain_variable().into_iter().chain(given.standard_variable());
        for name in shared.chain([given.prefixed_variable()]) {
            let Some(value) = variables.get(OsStr::new(&name)) else {
                continue;
            };
            match value.to_str() {
                Some(text) if text.trim().is_empty() => {}
                Some(text) => raw.set(given, text, Origin::Variable(name)),
                None => raw.add_problem(format!("{name}: not UTF-8: expected {}", given.allowed())),
            }
        }
    }
    for (name, value) in variables {
        let Some((name, rest)) = name.to_str().and_then(|name| Some((name, name.strip_prefix(PREFIX)?))) else {
            continue;
        };
        if name == CONFIG || value.is_empty() || is_known(name) {
            continue;
        }
        match retired::by_key(&rest.to_lowercase()).filter(|retired| retired.key.to_uppercase() == rest) {
            Some(retired) => raw.add_retired(retired, &Origin::Variable(name.to_owned())),
            None if is_service_link(rest, value) => {}
            None => raw.add_problem(unknown(name, rest)),
        }
    }
}

fn is_known(variable: &str) -> bool {
    SETTINGS.iter().flat_map(Setting::names).any(|name| name.prefixed_variable() == variable)
}

fn unknown(name: &str, rest: &str) -> String {
    let name = redacted(name);
    let keys = SETTINGS.iter().flat_map(Setting::names).map(Name::key).chain(["config".to_owned()]);
    let Some(key) = nearest(rest, keys) else {
        return format!("{name}: unknown variable: outbox-relay run --help lists the known ones");
    };
    let meant = by_key(&key).map_or_else(|| CONFIG.to_owned(), Name::variable);
    format!("{name}: unknown variable: did you mean {meant}?")
}

/// Whether Kubernetes set the variable for a Service whose name begins with `outbox-relay`: every pod of the namespace
/// gets `OUTBOX_RELAY_SERVICE_HOST`, `OUTBOX_RELAY_PORT=tcp://…` and the like unless it turns `enableServiceLinks` off.
fn is_service_link(rest: &str, value: &OsStr) -> bool {
    let is_url =
        || value.to_str().is_some_and(|value| ["tcp://", "udp://", "sctp://"].iter().any(|s| value.starts_with(s)));
    let rest = format!("_{rest}");
    rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_SERVICE_PORT")
        || rest.contains("_SERVICE_PORT_")
        || (rest.ends_with("_PORT") && is_url())
        || ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| rest.contains("_PORT_") && rest.contains(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_sets_for_a_service_of_our_name_is_not_taken_for_a_setting() {
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT", "9090"),
            ("SERVICE_PORT_METRICS", "9090"),
            ("PORT", "tcp://10.0.0.1:9090"),
            ("PORT_9090_TCP", "tcp://10.0.0.1:9090"),
            ("PORT_9090_TCP_PROTO", "tcp"),
            ("PORT_9090_TCP_ADDR", "10.0.0.1"),
            ("METRICS_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(is_service_link(name, OsStr::new(value)), "{name}");
        }
        assert!(!is_service_link("PORT", OsStr::new("9090")));
    }

    #[test]
    fn no_setting_has_a_name_that_kubernetes_uses() {
        for name in SETTINGS.iter().flat_map(Setting::names) {
            assert!(!is_service_link(&name.key().to_uppercase(), OsStr::new("tcp://10.0.0.1:1")), "{}", name.key());
        }
    }
}
