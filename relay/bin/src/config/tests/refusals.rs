//! Tests that bad values are rejected with name, origin and range.

use super::{URLS, file, raw, refusal, resolve};
use crate::config::{
    RawSettings, SETTINGS, Servers, Setting,
    units::{parse_size, parse_time},
};

#[test]
fn a_missing_url_is_named_with_its_variable_and_form() {
    let invalid = raw(&["run"], &URLS[..1]).resolve(Servers::All).unwrap_err();
    let expected = "neither AMQP_URL nor AMQP_URL_FILE is set: expected a URL such as \
        amqp://user:password@host:5672/vhost; or neither OUTBOX_RELAY_KAFKA_URL nor OUTBOX_RELAY_KAFKA_URL_FILE is set: \
        expected a URL such as kafka://user:password@host:9092";
    assert_eq!(invalid.to_string(), expected);
}

#[test]
fn a_missing_url_is_not_in_the_file_either_or_the_file_is_closed_to_this_user() {
    let file = file("slot = \"shop\"");
    let mut raw = raw(&["run", "--config", file.path()], &URLS[1..]);
    let problem = |raw: &RawSettings| raw.resolve(Servers::All).unwrap_err().to_string();
    let missing = "neither DATABASE_URL nor DATABASE_URL_FILE is set";
    assert!(problem(&raw).starts_with(&format!("{missing}, and {} does not have it: expected", file.path())));
    std::fs::write(file.path(), "slot = \"shop\"\nslot = \"shop\"").unwrap();
    let unread = self::raw(&["run", "--config", file.path()], &URLS[1..]);
    let expected = format!(
        "{path}:2: not TOML: duplicate key\n{missing}, and {path}, which may have it, was not read: expected",
        path = file.path()
    );
    assert!(problem(&unread).starts_with(&expected), "{}", problem(&unread));
    raw.has_closed_file("/etc/outbox-relay.toml".as_ref());
    let closed = "and you may not read /etc/outbox-relay.toml, which may have it: try sudo";
    assert!(problem(&raw).starts_with(&format!("{missing}, {closed}: expected")), "{}", problem(&raw));
}

#[test]
fn a_bad_value_is_refused_with_name_origin_value_and_range() {
    let range = "expected a whole number from 1 to 10000";
    assert_eq!(refusal(&["--in-flight", "20000"], &[]), format!("--in-flight 20000: {range}"));
    assert_eq!(refusal(&["--in-flight", "-1"], &[]), format!("--in-flight -1: {range}"));
    assert_eq!(refusal(&[], &[("OUTBOX_RELAY_IN_FLIGHT", "many")]), format!("OUTBOX_RELAY_IN_FLIGHT=many: {range}"));
    let file = file("# comment\nin_flight = 0\n");
    let path = file.path();
    assert_eq!(refusal(&["--config", path], &[]), format!("{path}:2: in_flight = 0: {range}"));
}

#[test]
fn every_setting_refuses_nonsense_wherever_it_stands() {
    for name in SETTINGS.iter().flat_map(Setting::names) {
        let (key, nonsense) = (name.key(), "\u{7}");
        let flag = format!("--{}={nonsense}", name.flag());
        let file = file(&format!("{key} = \"\\u0007\""));
        let problems = [
            refusal(&[&flag], &[]),
            refusal(&[], &[(&name.prefixed_variable(), nonsense)]),
            raw(&["run", "--config", file.path()], &[]).resolve(Servers::All).unwrap_err().to_string(),
        ];
        let places = [format!("--{} ", name.flag()), name.prefixed_variable(), format!(":1: {key} = ")];
        for (problem, place) in problems.iter().zip(places) {
            assert!(problem.contains(&place), "{key}: {problem}");
            let says_why = name.is_secret() || problem.contains(&name.allowed());
            assert!(says_why, "{key}: {problem}");
        }
    }
}

/// Returns numbers just outside of the range in these words, and those at its ends.
fn edges(range: &str, number: impl Fn(&str) -> Option<u64>) -> [(u64, bool); 4] {
    let (least, most) = range.split_once(" to ").unwrap();
    let [least, most] = [least, most.split(' ').next().unwrap()].map(|end| number(end).unwrap());
    [(least.wrapping_sub(1), false), (least, true), (most, true), (most + 1, false)]
}

#[test]
fn the_ends_of_every_range_and_every_word_are_allowed_and_what_lies_beyond_is_not() {
    let mut ranges = 0;
    for setting in SETTINGS {
        let name = setting.name();
        let fits = |value: &str| match resolve(&[&format!("--{}={value}", name.flag())], &[]) {
            Ok(_) => true,
            Err(message) => !message.contains("expected"),
        };
        let allowed = name.allowed();
        let milliseconds = |text: &str| parse_time(text).and_then(|time| time.as_millis().try_into().ok());
        let (edges, unit) = match allowed.trim_start_matches("off, or ").split_once(" from ") {
            Some(("a whole number", range)) => (edges(range, |text| text.parse().ok()), ""),
            Some(("a size", range)) => (edges(range, parse_size), ""),
            Some(("a time", range)) => (edges(range, milliseconds), "ms"),
            _ => {
                let words = name.placeholder().split('|').filter(|_| name.placeholder().contains('|'));
                words.for_each(|word| assert!(fits(word), "{} = {word}", setting.key));
                continue;
            }
        };
        ranges += 1;
        for (number, is_allowed) in edges {
            assert_eq!(fits(&format!("{number}{unit}")), is_allowed, "{} = {number}{unit}", setting.key);
        }
    }
    assert!(ranges > 10, "{ranges}");
}

#[test]
fn all_problems_are_told_at_once() {
    let message = refusal(
        &["--slot", "Bad", "--retry-base", "2m"],
        &[("OUTBOX_RELAY_MAX_ATTEMPTS", "0"), ("OUTBOX_RELAY_SLTO", "x")],
    );
    assert_eq!(message.lines().count(), 4, "{message}");
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_both_origins() {
    assert_eq!(refusal(&["--retry-base", "2m"], &[]), "--retry-base 2m: more than retry_max = 60s (default)");
    let message = refusal(&["--retry-max", "0s"], &[]);
    assert_eq!(message.lines().count(), 1, "one reason is enough: {message}");
    let message = refusal(&["--max-slot-wal", "10GiB", "--create-slot", "false"], &[]);
    assert_eq!(
        message,
        "--max-slot-wal 10GiB: not together with --create-slot false: a dropped slot would not be created again"
    );
}

#[test]
fn white_space_around_a_value_does_not_count_wherever_it_stands() {
    let file = file("slot = \" shop\\n\"\nin_flight = ' 7 '\n");
    for config in [
        resolve(&["--slot= shop\n", "--in-flight", " 7"], &[]).unwrap(),
        resolve(&[], &[("OUTBOX_RELAY_SLOT", "shop\r\n"), ("OUTBOX_RELAY_IN_FLIGHT", "\t7 ")]).unwrap(),
        resolve(&["--config", file.path()], &[]).unwrap(),
    ] {
        assert_eq!((config.slot.as_str(), config.in_flight), ("shop", 7));
    }
    let broker = ("OUTBOX_RELAY_AMQP_URL", "amqp://relay:hunter2@mq/shop \n");
    assert_eq!(resolve(&[], &[broker]).unwrap().amqp_url.unwrap().to_string(), "amqp://relay@mq:5672/shop");
    assert_eq!(resolve(&[], &[("OUTBOX_RELAY_SLOT", " \n")]).unwrap().slot, "outbox");
    assert!(resolve(&[], &[("OUTBOX_RELAY_CONFIG", " \n")]).is_ok());
    let path = format!(" {}\n", file.path());
    assert_eq!(resolve(&[], &[("OUTBOX_RELAY_CONFIG", &path)]).unwrap().slot, "shop");
}

#[test]
fn a_value_that_brings_its_quotes_along_is_refused_with_that_reason() {
    for name in SETTINGS.iter().flat_map(Setting::names) {
        for quote in ["\"", "'"] {
            let value = format!("{quote}amqp://relay:hunter2@mq/{quote}");
            let message = refusal(&[], &[(&name.prefixed_variable(), &value)]);
            assert!(message.contains("the quotes around it are part of the value"), "{}: {message}", name.key());
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
    assert!(refusal(&["--exchange", "'outbox'"], &[]).contains("the quotes around it"));
    let quoted = file("\"amqp://relay:hunter2@mq/\"\n");
    let variables = [super::URLS[0], ("AMQP_URL_FILE", quoted.path())];
    let message = raw(&["run"], &variables).resolve(Servers::All).unwrap_err().to_string();
    assert!(message.contains("the quotes around it") && !message.contains("hunter2"), "{message}");
}

#[test]
fn an_option_that_no_url_here_has_is_named() {
    let message =
        refusal(&[], &[("OUTBOX_RELAY_DATABASE_URL", "postgres://u:hunter2@db/shop?schema=public&pgbouncer=true")]);
    assert_eq!(message, "OUTBOX_RELAY_DATABASE_URL=(hidden): the option schema is not supported: leave it out");
    let message = refusal(&[], &[("OUTBOX_RELAY_AMQP_URL", "amqp://u:hunter2@mq/shop?pool=5")]);
    assert!(message.contains("unknown parameter pool; known are heartbeat"), "{message}");
}
