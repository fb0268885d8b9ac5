//! What is peculiar to a broker ends at its sink.

use harness::places::checkout;

use super::prose::files;

/// Where a broker may be named beside its own folders, and why.
const ALLOWED: [(&str, &str); 6] = [
    ("relay/service/src/sink/mod.rs", "declares the folder"),
    ("relay/console/src/sink/mod.rs", "declares the folder"),
    ("relay/bin/src/main.rs", "picks the broker"),
    ("relay/bin/src/config/", "has the broker's settings"),
    ("relay/bin/src/command/parser.rs", "says what the program is, and which settings matter to a command"),
    ("relay/service/src/sink/config.rs", "lists the brokers that can be configured"),
];

/// Words by which code knows a broker.
const BROKERS: [&str; 3] = ["rabbitmq", "amqp", "kafka"];

#[test]
fn no_code_outside_a_brokers_own_folders_knows_the_broker() {
    let mut found = Vec::new();
    for folder in ["core", "service", "console", "bin"] {
        files(&checkout().join("relay").join(folder).join("src"), &mut found);
    }
    assert!(found.len() > 200, "{}", found.len());
    for path in found {
        let name = path.strip_prefix(checkout()).unwrap().to_str().unwrap().to_owned();
        let own = ["rabbitmq", "kafka"].into_iter().find(|broker| name.contains(&format!("/sink/{broker}/")));
        if name.contains("/tests") || ALLOWED.iter().any(|(allowed, _)| name.starts_with(allowed)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines();
        for line in code.filter(|line| !line.trim_start().starts_with("//")) {
            let knows = |broker: &&str| line.contains(*broker) && (own.is_none() || is_other(own, broker));
            assert!(!BROKERS.iter().any(knows), "{name}: {line}");
        }
    }
}

/// Whether the word is of another broker than the one that the folder is for.
fn is_other(own: Option<&str>, word: &str) -> bool {
    own.is_some_and(|own| (own == "kafka") != (word == "kafka"))
}
