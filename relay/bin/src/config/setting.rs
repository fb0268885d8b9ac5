//! One setting, as it is documented and checked, and the macro that turns the list of them into code.

use super::rule::Rule;

/// A setting: one line of the list.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Key in the file. Flag and variable are derived from it.
    pub(crate) key: &'static str,
    /// Heading under which help and reference show it.
    pub(crate) group: &'static str,
    /// Its meaning, line by line; the first sentence stands alone in the short help.
    pub(crate) help: &'static [&'static str],
    /// The values that it takes.
    pub(crate) rule: Rule,
    /// Value when nothing is given; `None` if the setting must be given.
    pub(crate) default: Option<&'static str>,
}

/// Suffix of a setting whose value names the file that holds another setting's value.
const FILE: &str = "_file";

/// Prefix of all variables.
pub(super) const PREFIX: &str = "OUTBOX_RELAY_";

impl Setting {
    /// Returns the long flag, without its dashes.
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Returns the environment variable to document.
    pub(crate) fn variable(&self) -> String {
        self.plain_variable().unwrap_or_else(|| self.prefixed_variable())
    }

    /// Returns `OUTBOX_RELAY_…`, the variable that every setting has.
    pub(super) fn prefixed_variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_uppercase())
    }

    /// Returns the unprefixed variable, if the setting has one. Platforms set `DATABASE_URL` and `AMQP_URL` for servers
    /// that they provide; container images use the same names with `_FILE` for mounted secrets.
    pub(super) fn plain_variable(&self) -> Option<String> {
        let server = self.key.strip_suffix(FILE).unwrap_or(self.key);
        ["database_url", "amqp_url"].contains(&server).then(|| self.key.to_uppercase())
    }

    /// Whether this setting names the file that holds the value of `other`.
    pub(super) fn is_file_of(&self, other: &Self) -> bool {
        self.key.strip_suffix(FILE) == Some(other.key)
    }

    /// Returns OpenTelemetry's name for this setting, if it has one. The variable is often set for a whole namespace,
    /// so a relay without OpenTelemetry ignores it.
    pub(super) fn standard_variable(&self) -> Option<String> {
        let name = match self.key {
            "otlp_endpoint" => "OTEL_EXPORTER_OTLP_ENDPOINT",
            "otlp_headers" => "OTEL_EXPORTER_OTLP_HEADERS",
            "otlp_service_name" => "OTEL_SERVICE_NAME",
            _ => return None,
        };
        cfg!(feature = "otel").then(|| name.to_owned())
    }

    /// Returns the whole help text as one paragraph.
    pub(crate) fn text(&self) -> String {
        self.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the help text's first sentence, without its full stop.
    pub(crate) fn summary(&self) -> String {
        let text = self.text();
        text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first).to_owned()
    }
}

/// Returns the name closest to `word`, if one is close enough to be meant. Case and dashes do not count.
pub(super) fn nearest(word: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let word = word.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, name), name))
        .min()
        .filter(|(edits, name)| *edits <= name.len().max(4) / 2)
        .map(|(_, name)| name)
}

/// Generates `SETTINGS` and `Config` from the list in `settings.rs`, so that no setting can be documented and not read,
/// or read and not checked.
macro_rules! settings {
    ($($group:literal {
        $($(#[doc = $help:literal])+ $key:ident: $type:ty = $rule:expr, $default:expr;)+
    })+) => {
        /// Every setting, in the order of help and reference.
        pub(crate) static SETTINGS: &[Setting] = &[$($(
            Setting { key: stringify!($key), group: $group, help: &[$($help),+], rule: $rule, default: $default },
        )+)+];

        /// Returns the setting with this key.
        pub(super) fn by_key(key: &str) -> Option<&'static Setting> {
            SETTINGS.iter().find(|setting| setting.key == key)
        }

        /// The settings that the relay works with, every value checked and typed.
        #[derive(Clone, Debug)]
        #[expect(dead_code, reason = "the name of a file in which another setting stands is read with that one")]
        pub(crate) struct Config {
            $($($(#[doc = $help])+ pub(crate) $key: $type,)+)+
        }

        impl Config {
            /// Reads every setting; `needs` says whether a setting must have a value. Returns `None` if any is bad, and
            /// adds a line for each bad one to `problems`.
            pub(super) fn read(
                raw: &RawSettings,
                needs: impl Fn(&Setting) -> bool,
                problems: &mut Vec<String>,
            ) -> Option<Self> {
                $($(let $key = by_key(stringify!($key))
                    .and_then(|setting| raw.value::<$type>(setting, needs(setting), problems));)+)+
                Some(Self { $($($key: $key?,)+)+ })
            }
        }
    };
}
pub(super) use settings;

#[cfg(test)]
mod tests {
    use super::nearest;
    use crate::config::{SETTINGS, Setting};

    fn setting(key: &str) -> &'static Setting {
        SETTINGS.iter().find(|setting| setting.key == key).unwrap()
    }

    #[test]
    fn flag_and_variable_follow_from_the_key() {
        let setting = setting("max_attempts");
        assert_eq!(setting.flag(), "max-attempts");
        assert_eq!(setting.variable(), "OUTBOX_RELAY_MAX_ATTEMPTS");
    }

    #[test]
    fn the_two_servers_have_the_variables_that_platforms_set() {
        assert_eq!(setting("database_url").variable(), "DATABASE_URL");
        assert_eq!(setting("amqp_url").variable(), "AMQP_URL");
        assert_eq!(setting("database_url_file").variable(), "DATABASE_URL_FILE");
        assert_eq!(setting("amqp_url_file").variable(), "AMQP_URL_FILE");
    }

    #[test]
    fn case_and_dashes_are_no_mistakes() {
        assert_eq!(nearest("Max-Attempts", ["max_events", "max_attempts"]), Some("max_attempts"));
    }

    #[test]
    fn a_word_that_resembles_nothing_suggests_nothing() {
        assert_eq!(nearest("colour", ["slot", "exchange"]), None);
    }

    #[test]
    fn every_key_is_unique_and_in_snake_case() {
        let mut seen = std::collections::HashSet::new();
        for setting in SETTINGS {
            assert!(seen.insert(setting.key), "{} is there twice", setting.key);
            assert!(setting.key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", setting.key);
        }
    }

    #[test]
    fn every_help_text_is_one_or_more_whole_sentences() {
        for setting in SETTINGS {
            assert!(setting.text().ends_with('.'), "{}: {}", setting.key, setting.text());
            assert!(setting.summary().len() <= 80, "{}: the first sentence is long", setting.key);
        }
    }
}
