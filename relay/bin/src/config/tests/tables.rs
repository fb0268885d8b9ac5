//! Tests of the tables in which the settings of a group may stand in the file.

use super::{SETTINGS, file, refusal, resolve, table};

#[test]
fn a_setting_may_stand_in_the_table_of_its_group_or_at_the_top() {
    let file = file("slot = 'shop'\n[rabbitmq]\nexchange = 'orders'\n[deletion]\nretention = '30d'\n");
    let config = resolve(&["--config", file.path()], &[]).unwrap();
    assert_eq!((config.slot.as_str(), config.exchange.as_str()), ("shop", "orders"));
    assert_eq!(config.retention, Some(std::time::Duration::from_secs(30 * 24 * 3600)));
    let urls = super::file("[rabbitmq]\namqp_url_file = '/nowhere/amqp'");
    let message = refusal(&["--config", urls.path()], &[]);
    assert!(message.contains(&format!("{}:2: amqp_url_file = /nowhere/amqp is given, too", urls.path())), "{message}");
}

#[test]
fn a_setting_in_a_wrong_table_is_refused_with_the_right_one() {
    let file = file("[publishing]\nin_flight = 7\nexchange = 'orders'\n");
    let message = refusal(&["--config", file.path()], &[]);
    let why = "publishing.exchange: it belongs to [rabbitmq], or to the top of the file";
    assert_eq!(message, format!("{}:3: {why}", file.path()));
}

#[test]
fn what_is_named_as_a_table_and_is_none_is_refused_with_the_right_form() {
    for text in ["[[rabbitmq]]\nexchange = 'orders'\n", "rabbitmq = 'amqp://localhost'\n"] {
        let file = file(text);
        let why = "rabbitmq: it is a table: write [rabbitmq], and its settings below it";
        assert_eq!(refusal(&["--config", file.path()], &[]), format!("{}:1: {why}", file.path()));
    }
}

#[test]
fn an_unknown_key_of_a_table_is_refused_with_the_nearest_name() {
    let file = file("[rabbitmq]\nexchang = 'orders'\n");
    let message = refusal(&["--config", file.path()], &[]);
    assert_eq!(message, format!("{}:2: rabbitmq.exchang: unknown key: did you mean exchange?", file.path()));
}

#[test]
fn a_setting_at_the_top_and_in_its_table_is_refused_with_both_lines() {
    let file = file("exchange = 'orders'\n[rabbitmq]\nexchange = 'shop'\n");
    let message = refusal(&["--config", file.path()], &[]);
    assert_eq!(message, format!("{}:3: rabbitmq.exchange: line 1 has it, too: leave one of them out", file.path()));
}

#[test]
fn the_settings_of_a_group_stand_together_and_each_group_has_a_table_of_its_own_named_as_no_setting() {
    let mut groups: Vec<&str> = SETTINGS.iter().map(|setting| setting.group).collect();
    groups.dedup();
    let tables: std::collections::HashSet<String> = groups.iter().map(|group| table(group)).collect();
    assert_eq!(tables.len(), groups.len(), "{groups:?}");
    let both: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).filter(|key| tables.contains(*key)).collect();
    assert!(both.is_empty(), "TOML allows no key beside a table of its name: {both:?}");
}
