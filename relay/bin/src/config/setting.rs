//! One setting, as it is documented and checked, its names, and the macro that turns the list of settings into code.

use super::kind::{File, Kind};

/// A setting: one line of the list.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Key in the file. Flag and variable are derived from it.
    pub(crate) key: &'static str,
    /// Heading under which help and reference show it.
    pub(crate) group: &'static str,
    /// Its meaning, line by line; the first sentence stands alone in the short help.
    pub(crate) help: &'static [&'static str],
    /// Value when nothing is given; `None` if there is no value then.
    pub(crate) default: Option<&'static str>,
    /// Whether the text must not be shown.
    pub(crate) is_secret: bool,
    /// Whether `…_file` can name a file that holds the value.
    pub(crate) has_file: bool,
    allows: fn(&str) -> bool,
    allowed: fn() -> String,
    placeholder: fn() -> &'static str,
    shown: fn(&str) -> String,
}

/// Prefix of all variables.
pub(super) const PREFIX: &str = "OUTBOX_RELAY_";

/// Returns the table of the file in which the settings of a group may stand.
pub(crate) fn table(group: &str) -> String {
    group.to_lowercase().replace(' ', "_")
}

impl Setting {
    /// Makes a setting of the kind `K`.
    pub(super) const fn of<K: Kind>(
        key: &'static str,
        group: &'static str,
        help: &'static [&'static str],
        default: Option<&'static str>,
    ) -> Self {
        Self {
            key,
            group,
            help,
            default,
            is_secret: K::IS_SECRET,
            has_file: K::HAS_FILE,
            allows: |text| K::parse(text).is_ok(),
            allowed: K::allowed,
            placeholder: K::placeholder,
            shown: K::shown,
        }
    }

    /// Whether the value is allowed.
    pub(super) fn allows(&self, text: &str) -> bool {
        (self.allows)(text)
    }

    /// Returns the name under which the value itself is given.
    pub(crate) fn name(&'static self) -> Name {
        Name { setting: self, is_file: false }
    }

    /// Returns the name under which a file with the value is given, if the setting has one.
    pub(crate) fn file_name(&'static self) -> Option<Name> {
        self.has_file.then_some(Name { setting: self, is_file: true })
    }

    /// Returns every name under which something can be given.
    pub(crate) fn names(&'static self) -> impl Iterator<Item = Name> {
        std::iter::once(self.name()).chain(self.file_name())
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

/// A name under which a setting is given: its own, or the one with `_file` at its end, whose value names a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) setting: &'static Setting,
    pub(crate) is_file: bool,
}

impl Name {
    /// Returns the key in the file.
    pub(crate) fn key(self) -> String {
        format!("{}{}", self.setting.key, if self.is_file { "_file" } else { "" })
    }

    /// Returns the long flag, without its dashes.
    pub(crate) fn flag(self) -> String {
        self.key().replace('_', "-")
    }

    /// Returns the environment variable to document.
    pub(crate) fn variable(self) -> String {
        self.plain_variable().unwrap_or_else(|| self.prefixed_variable())
    }

    /// Returns `OUTBOX_RELAY_…`, the variable that every setting has.
    pub(super) fn prefixed_variable(self) -> String {
        format!("{PREFIX}{}", self.key().to_uppercase())
    }

    /// Returns the unprefixed variable, if the setting has one. Platforms set `DATABASE_URL` and `AMQP_URL` for servers
    /// that they provide; container images use the same names with `_FILE` for mounted secrets.
    pub(super) fn plain_variable(self) -> Option<String> {
        ["database_url", "amqp_url"].contains(&self.setting.key).then(|| self.key().to_uppercase())
    }

    /// Returns OpenTelemetry's name for the setting, if it has one. The variable is often set for a whole namespace, so
    /// a relay without OpenTelemetry ignores it.
    pub(super) fn standard_variable(self) -> Option<String> {
        let has_one = cfg!(feature = "otel") && self.setting.key == "otlp_endpoint";
        has_one.then(|| "OTEL_EXPORTER_OTLP_ENDPOINT".to_owned())
    }

    /// Returns the allowed values, in words that follow "expected".
    pub(crate) fn allowed(self) -> String {
        if self.is_file { File::allowed() } else { (self.setting.allowed)() }
    }

    /// Returns the placeholder of the value in the help text.
    pub(crate) fn placeholder(self) -> &'static str {
        if self.is_file { File::placeholder() } else { (self.setting.placeholder)() }
    }

    /// Whether the text that is given must not be shown.
    pub(crate) fn is_secret(self) -> bool {
        self.setting.is_secret && !self.is_file
    }

    /// Returns the part of the text that may be shown.
    pub(super) fn shown(self, text: &str) -> String {
        if self.is_file { File::shown(text) } else { (self.setting.shown)(text) }
    }
}

/// Returns the name closest to `word`, if one is close enough to be meant. Case and dashes do not count.
pub(super) fn nearest(word: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    let word = word.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, &name), name))
        .min()
        .filter(|(edits, name)| *edits <= name.len().max(4) / 2)
        .map(|(_, name)| name)
}

/// Generates `SETTINGS` and `Config` from the list in `settings.rs`, so that no setting can be documented and not read,
/// or read and not checked.
macro_rules! settings {
    ($($group:literal {
        $($(#[doc = $help:literal])+ $key:ident: $kind:ty $(= $default:literal)?;)+
    })+) => {
        /// Every setting, in the order of help and reference.
        pub(crate) static SETTINGS: &[Setting] = &[$($(
            Setting::of::<$kind>(stringify!($key), $group, &[$($help),+], settings!(@default $($default)?)),
        )+)+];

        /// The settings that the relay works with, every value checked and typed.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $($($(#[doc = $help])+ pub(crate) $key: <$kind as Kind>::Value,)+)+
        }

        impl Config {
            /// Reads every setting; `needs` says whether the file that holds a setting is read now. Returns `None` if
            /// any is bad, and adds a line for each bad one to `problems`.
            pub(super) fn read(
                raw: &RawSettings,
                needs: impl Fn(&Setting) -> bool,
                problems: &mut Vec<String>,
            ) -> Option<Self> {
                $($(let $key = by_key(stringify!($key))
                    .and_then(|name| raw.value::<$kind>(name.setting, needs(name.setting), problems));)+)+
                Some(Self { $($($key: $key?,)+)+ })
            }
        }
    };
    (@default $default:literal) => { Some($default) };
    (@default) => { None };
}
pub(super) use settings;

#[cfg(test)]
mod tests {
    use super::nearest;
    use crate::config::settings::{SETTINGS, by_key};

    #[test]
    fn flag_and_variable_follow_from_the_key() {
        let name = by_key("max_attempts").unwrap();
        assert_eq!((name.flag(), name.variable()), ("max-attempts".into(), "OUTBOX_RELAY_MAX_ATTEMPTS".into()));
    }

    #[test]
    fn the_two_servers_have_the_variables_that_platforms_set() {
        for variable in ["DATABASE_URL", "AMQP_URL", "DATABASE_URL_FILE", "AMQP_URL_FILE"] {
            assert_eq!(by_key(&variable.to_lowercase()).unwrap().variable(), variable);
        }
    }

    #[test]
    fn case_and_dashes_are_no_mistakes() {
        let names = ["max_events", "max_attempts"].map(ToOwned::to_owned);
        assert_eq!(nearest("Max-Attempts", names).as_deref(), Some("max_attempts"));
    }

    #[test]
    fn a_word_that_resembles_nothing_suggests_nothing() {
        assert_eq!(nearest("colour", ["slot", "exchange"].map(ToOwned::to_owned)), None);
    }

    #[test]
    fn every_key_is_unique_and_in_snake_case() {
        let mut seen = std::collections::HashSet::new();
        for key in SETTINGS.iter().flat_map(|setting| setting.names()).map(|name| name.key()) {
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{key}");
            assert!(seen.insert(key.clone()), "{key} is there twice");
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
