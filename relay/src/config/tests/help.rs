//! The help text.

use crate::config::{SETTINGS, command};

#[test]
fn the_help_text_groups_the_settings_and_names_variable_default_and_range() {
    command().debug_assert();
    let help = command().render_long_help().to_string();
    for group in ["Servers:", "Reading:", "Publishing:", "Retrying:", "Memory:", "Writing back:", "Logging:"] {
        assert!(help.contains(group), "{group}");
    }
    for setting in SETTINGS {
        assert!(help.contains(&format!("--{} <", setting.flag())), "{}", setting.key);
        assert!(help.contains(&format!("[env: {}]", setting.variable())), "{}", setting.key);
    }
    assert!(help.contains("[default: 1000]"));
}
