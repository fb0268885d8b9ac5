//! What is promised about settings as a whole: precedence, refusals, secrets.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use super::{Command, Given, Rule, SETTINGS, command, parse};
use crate::dispatch::Ordering;

const PASSWORD: &str = "hunter2";
const URLS: [(&str, &str); 2] = [
    ("DATABASE_URL", "postgres://relay:hunter2@db/shop"),
    ("AMQP_URL", "amqp://relay:hunter2@mq/shop"),
];

/// A file that goes when the test ends.
pub(super) struct TempFile(PathBuf);

pub(super) fn file(text: &str) -> TempFile {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!(
        "outbox-relay-{}-{}.toml",
        std::process::id(),
        NEXT.fetch_add(1, Relaxed)
    );
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).unwrap();
    TempFile(path)
}

impl TempFile {
    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn try_given(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(Command, Given), clap::Error> {
    let arguments = ["outbox-relay"].iter().chain(arguments).map(Into::into);
    parse(
        command(),
        arguments,
        variables.iter().map(|(name, value)| (name.into(), value.into())),
    )
}

pub(super) fn given(arguments: &[&str], variables: &[(&str, &str)]) -> Given {
    try_given(arguments, variables).unwrap().1
}

/// Flags and variables beside the two URLs.
fn resolve(flags: &[&str], variables: &[(&str, &str)]) -> Result<super::Config, String> {
    let arguments: Vec<&str> = ["run"].iter().chain(flags).copied().collect();
    let variables: Vec<_> = URLS.iter().chain(variables).copied().collect();
    given(&arguments, &variables)
        .resolve(Command::Run)
        .map_err(|invalid| invalid.to_string())
}

fn refusal(flags: &[&str], variables: &[(&str, &str)]) -> String {
    resolve(flags, variables).unwrap_err()
}

#[test]
fn two_urls_are_all_that_must_be_given() {
    let config = resolve(&[], &[]).unwrap();
    assert_eq!(config.database_url.expose(), URLS[0].1);
    assert_eq!(config.slot, "outbox");
    assert_eq!(config.ordering, Ordering::Strict);
    assert_eq!(config.retry_base, Duration::from_millis(200));
    assert_eq!(config.max_bytes, 32 << 20);
    assert!(config.create_slot);
}

#[test]
fn a_flag_overrides_a_variable_and_that_the_file_and_that_the_default() {
    let file = file("slot = 'of_file'\nexchange = 'of_file'\napp_id = 'of_file'");
    let variables = [
        ("OUTBOX_RELAY_CONFIG", file.path()),
        ("OUTBOX_RELAY_SLOT", "of_env"),
        ("OUTBOX_RELAY_EXCHANGE", "of_env"),
    ];
    let config = resolve(&["--slot", "of_flag"], &variables).unwrap();
    assert_eq!(
        [config.slot, config.exchange, config.app_id, config.publication],
        ["of_flag", "of_env", "of_file", "outbox"]
    );
}

#[test]
fn the_flag_names_the_file_before_the_variable_does() {
    let (flag, variable) = (file("slot = 'flag'"), file("slot = 'variable'"));
    let config = resolve(&["--config", flag.path()], &[("OUTBOX_RELAY_CONFIG", variable.path())]).unwrap();
    assert_eq!(config.slot, "flag");
}

#[test]
fn flags_may_stand_before_the_command() {
    let given = given(&["--slot", "early", "run", "--exchange", "late"], &URLS);
    let config = given.resolve(Command::Run).unwrap();
    assert_eq!([config.slot, config.exchange], ["early", "late"]);
}

#[test]
fn the_variable_with_our_prefix_overrides_the_one_of_the_platform() {
    let config = resolve(&[], &[("OUTBOX_RELAY_AMQP_URL", "amqp://other")]).unwrap();
    assert_eq!(config.amqp_url.expose(), "amqp://other");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    assert_eq!(resolve(&[], &[("OUTBOX_RELAY_SLOT", "")]).unwrap().slot, "outbox");
}

#[test]
fn a_missing_url_is_named_with_its_variable_and_form() {
    let invalid = given(&["run"], &URLS[..1]).resolve(Command::Run).unwrap_err();
    let expected = "AMQP_URL is not set: expected a URL such as amqp://user:password@host:5672/vhost";
    assert_eq!(invalid.to_string(), expected);
}

#[test]
fn init_needs_no_broker() {
    assert!(given(&["init"], &URLS[..1]).resolve(Command::Init).is_ok());
    assert!(given(&["init"], &[]).resolve(Command::Init).is_err());
}

#[test]
fn a_bad_value_is_refused_with_name_origin_value_and_range() {
    let range = "expected a whole number from 1 to 10000";
    assert_eq!(
        refusal(&["--in-flight", "20000"], &[]),
        format!("--in-flight 20000: {range}")
    );
    assert_eq!(refusal(&["--in-flight", "-1"], &[]), format!("--in-flight -1: {range}"));
    assert_eq!(
        refusal(&[], &[("OUTBOX_RELAY_IN_FLIGHT", "many")]),
        format!("OUTBOX_RELAY_IN_FLIGHT=many: {range}")
    );
    let file = file("# comment\nin_flight = 0\n");
    let path = file.path();
    assert_eq!(
        refusal(&["--config", path], &[]),
        format!("{path}:2: in_flight = 0: {range}")
    );
}

#[test]
fn every_setting_refuses_nonsense_wherever_it_stands() {
    for setting in SETTINGS {
        let nonsense = "\u{7}";
        let flag = format!("--{}={nonsense}", setting.flag());
        let file = file(&format!("{} = \"\\u0007\"", setting.key));
        let problems = [
            refusal(&[&flag], &[]),
            refusal(&[], &[(&setting.prefixed_variable(), nonsense)]),
            given(&["run", "--config", file.path()], &[])
                .resolve(Command::Run)
                .unwrap_err()
                .to_string(),
        ];
        let names = [
            format!("--{} ", setting.flag()),
            setting.prefixed_variable(),
            format!(":1: {} = ", setting.key),
        ];
        for (problem, name) in problems.iter().zip(names) {
            assert!(problem.contains(&name), "{}: {problem}", setting.key);
            let says_why = setting.rule.is_secret() || problem.contains(&setting.rule.allowed());
            assert!(says_why, "{}: {problem}", setting.key);
        }
    }
}

#[test]
fn the_ends_of_every_range_are_allowed_and_what_lies_beyond_is_not() {
    use super::value::Value;
    for setting in SETTINGS {
        match &setting.rule {
            Rule::Count(range) | Rule::Size(range) => {
                for (number, fits) in [
                    (*range.start(), true),
                    (*range.end(), true),
                    (range.start() - 1, false),
                    (range.end() + 1, false),
                ] {
                    assert_eq!(
                        usize::read(&setting.rule, &number.to_string()).is_ok(),
                        fits,
                        "{} {number}",
                        setting.key
                    );
                }
            }
            Rule::Time(range) => {
                let ms = |time: &Duration| format!("{}ms", time.as_millis());
                let beyond = *range.end() + Duration::from_millis(1);
                for (text, fits) in [(ms(range.start()), true), (ms(range.end()), true), (ms(&beyond), false)] {
                    assert_eq!(
                        Duration::read(&setting.rule, &text).is_ok(),
                        fits,
                        "{} {text}",
                        setting.key
                    );
                }
            }
            Rule::Choice(words) => {
                for word in *words {
                    let flag = format!("--{}={word}", setting.flag());
                    assert!(resolve(&[&flag], &[]).is_ok(), "{flag}");
                }
            }
            _ => {}
        }
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let told = refusal(
        &["--slot", "Bad"],
        &[("OUTBOX_RELAY_MAX_ATTEMPTS", "0"), ("OUTBOX_RELAY_SLTO", "x")],
    );
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_both_origins() {
    assert_eq!(
        refusal(&["--retry-base", "2m"], &[]),
        "--retry-base 2m: more than retry_max = 60s (default)"
    );
    let told = refusal(&["--in-flight", "200"], &[("OUTBOX_RELAY_MAX_EVENTS", "100")]);
    assert_eq!(told, "--in-flight 200: more than OUTBOX_RELAY_MAX_EVENTS=100");
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_name() {
    let told = refusal(&[], &[("OUTBOX_RELAY_MAX_ATEMPTS", "5")]);
    assert_eq!(
        told,
        "OUTBOX_RELAY_MAX_ATEMPTS: unknown variable: did you mean OUTBOX_RELAY_MAX_ATTEMPTS?"
    );
    let told = refusal(&[], &[("OUTBOX_RELAY_AMQP_URI", "amqp://relay:hunter2@mq")]);
    assert_eq!(told, "OUTBOX_RELAY_AMQP_URI: unknown variable: did you mean AMQP_URL?");
}

#[test]
fn variables_of_others_are_none_of_our_business() {
    assert!(resolve(&[], &[("PATH", "/bin"), ("SLOT", "x"), ("OUTBOX_RELAYED", "x")]).is_ok());
    assert!(resolve(&[], &[("OUTBOX_RELAY_SERVICE_HOST", "10.0.0.1")]).is_ok());
}

#[test]
fn an_unknown_key_of_the_file_is_refused_with_its_line_and_the_nearest_name() {
    let file = file("\nmax-attempts = 5\n[postgres]\nurl = 'x'\n");
    let path = file.path();
    let told = refusal(&["--config", path], &[]);
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            format!("{path}:2: max-attempts: unknown key: did you mean max_attempts?"),
            format!("{path}:3: postgres: unknown key: outbox-relay --help lists the known settings"),
        ]
    );
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_refused_with_its_name_and_line() {
    let told = refusal(&["--config", "/no/such/file.toml"], &[]);
    assert!(told.starts_with("/no/such/file.toml: cannot be read: "), "{told}");
    let file = file("slot = 'a'\ndatabase_url = postgres://relay:hunter2@db/shop\n");
    let told = refusal(&["--config", file.path()], &[]);
    assert!(told.starts_with(&format!("{}:2: not TOML: ", file.path())), "{told}");
    assert!(!told.contains(PASSWORD), "{told}");
}

#[test]
fn a_table_in_the_place_of_a_value_is_refused() {
    let file = file("slot = ['a']");
    let told = refusal(&["--config", file.path()], &[]);
    assert!(
        told.starts_with(&format!(
            "{}:1: slot: not a single value: expected 1 to 63",
            file.path()
        )),
        "{told}"
    );
}

#[test]
fn numbers_and_switches_of_the_file_need_no_quotes() {
    let file =
        file("max_attempts = 1_00\nmax_events = 0xFFF\ncreate_slot = false\nmax_bytes = 1048576\nin_flight = '7'");
    let config = resolve(&["--config", file.path()], &[]).unwrap();
    let numbers = (
        config.max_attempts,
        config.max_events,
        config.max_bytes,
        config.in_flight,
    );
    assert_eq!((numbers, config.create_slot), ((100, 4095, 1 << 20, 7), false));
}

#[test]
fn a_bad_url_is_refused_with_its_variable_and_without_its_text() {
    let told = refusal(&[], &[("OUTBOX_RELAY_DATABASE_URL", "mysql://relay:hunter2@db/shop")]);
    assert!(told.starts_with("OUTBOX_RELAY_DATABASE_URL=(hidden): "), "{told}");
    let told = refusal(&["--amqp-url", "amqp://relay:hunter2@mq:port/"], &[]);
    assert!(told.starts_with("--amqp-url (hidden): "), "{told}");
    assert!(!told.contains(PASSWORD), "{told}");
}

#[test]
fn no_output_shows_a_password() {
    let given = given(&["run"], &URLS);
    let config = given.resolve(Command::Run).unwrap();
    let shown = given.describe();
    let help = command().render_long_help().to_string();
    for text in [format!("{config:?}"), shown, help] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn a_url_in_the_wrong_place_of_the_command_line_is_not_quoted() {
    for arguments in [
        &["run", "amqp://relay:hunter2@mq"][..],
        &["amqp://relay:hunter2@mq"],
        &["run", "--amqp-uri=amqp://relay:hunter2@mq"],
        &["run", "--amqp-uri", "amqp://relay:hunter2@mq"],
        &[
            "run",
            "--amqp-url",
            "amqp://relay:hunter2@a",
            "--amqp-url",
            "amqp://relay:hunter2@b",
        ],
        &["run", "host=db password=hunter2"],
        &["run", "-pamqp://relay:hunter2@mq"],
    ] {
        let error = try_given(arguments, &[]).err().unwrap();
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    }
}

#[test]
fn check_config_shows_every_setting_with_its_value_and_origin() {
    let file = file("app_id = 'shop'");
    let variables = [URLS[0], URLS[1], ("OUTBOX_RELAY_EXCHANGE", "orders")];
    let shown = given(&["check-config", "--config", file.path(), "--slot", "shop"], &variables).describe();
    let columns = |key: &str| {
        let line = shown
            .lines()
            .find(|line| line.split_whitespace().next() == Some(key))
            .unwrap();
        line.split("  ")
            .map(str::trim)
            .filter(|column| !column.is_empty())
            .skip(1)
            .collect::<Vec<_>>()
            .join("|")
    };
    assert_eq!(columns("slot"), "shop|--slot");
    assert_eq!(columns("exchange"), "orders|OUTBOX_RELAY_EXCHANGE");
    assert_eq!(columns("app_id"), format!("shop|{}:1", file.path()));
    assert_eq!(columns("retry_max"), "60s|default");
    assert_eq!(columns("amqp_url"), "amqp://relay@mq:5672/shop|AMQP_URL");
    assert_eq!(shown.lines().count(), SETTINGS.len());
}

#[test]
fn the_help_text_groups_the_settings_and_names_variable_default_and_range() {
    command().debug_assert();
    let help = command().render_long_help().to_string();
    for group in [
        "Servers:",
        "Reading:",
        "Publishing:",
        "Retrying:",
        "Memory:",
        "Writing back:",
        "Logging:",
    ] {
        assert!(help.contains(group), "{group}");
    }
    for setting in SETTINGS {
        assert!(help.contains(&format!("--{} <", setting.flag())), "{}", setting.key);
        assert!(
            help.contains(&format!("[env: {}]", setting.variable())),
            "{}",
            setting.key
        );
    }
    assert!(help.contains("[default: 500]"));
}
