//! Hides values of settings that may contain a secret. A URL with its password, or a token with its name, is easily
//! written in the place of a file's name or another plain value, and the error message must not repeat it.

use std::{borrow::Cow, path::Path};

/// The text shown in place of a value that may contain a secret.
pub const HIDDEN: &str = "(hidden)";

/// Names of secrets; the secret follows a `=` or `:`.
const NAMES: [&str; 9] =
    ["password", "passwd", "passphrase", "pwd", "secret", "token", "api-key", "api_key", "authorization"];

/// Length of the dashboard's shortest token, in bytes. A shorter token could be guessed.
pub const SHORTEST_TOKEN: usize = 16;

/// The text, or [`HIDDEN`] if it may contain a secret.
pub fn redacted(text: &str) -> Cow<'_, str> {
    if is_url(text) || holds_login(text) || is_token(text) { HIDDEN.into() } else { text.into() }
}

/// The name of a file, or [`HIDDEN`] if it may be a secret written in its place: a name without a file is shown only if
/// it looks like a path.
pub fn file_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_path = is_path(&text) || path.symlink_metadata().is_ok();
    if is_path && redacted(&text) == text { text.into_owned() } else { HIDDEN.to_owned() }
}

/// Whether the text contains a URL. The check looks for the scheme alone, because the URL may lack a host behind its
/// password.
pub fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Whether the text may contain a user with a password, or a secret behind its name. No plain value needs either form.
pub fn holds_login(text: &str) -> bool {
    let has_login = text.split_once(':').is_some_and(|(_, rest)| rest.contains('@'));
    has_login || names_secret(&text.to_ascii_lowercase())
}

fn names_secret(text: &str) -> bool {
    NAMES.iter().any(|name| {
        let mut rests = text.match_indices(name).filter_map(|(at, _)| text.get(at + name.len()..));
        rests.any(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(['=', ':']))
    })
}

/// Whether the text has the form of a line in the dashboard's file of tokens: a name and a token.
fn is_token(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next().is_some() && words.next().is_some_and(|word| word.len() >= SHORTEST_TOKEN) && words.next().is_none()
}

/// Whether the text has the form of a path: it begins at the root or with `./` or `../`, or ends with an extension of
/// one to five lowercase letters, such as `relay.toml`.
fn is_path(text: &str) -> bool {
    let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_start = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
    let has_extension = || {
        let is_extension =
            |end: &str| (1..=5).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_lowercase());
        text.rsplit_once('.').is_some_and(|(name, extension)| !name.is_empty() && is_extension(extension))
    };
    is_plain && (has_start || has_extension())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_may_hold_a_secret_is_hidden_in_whatever_form_it_has() {
        for text in [
            "postgres://relay:hunter2@db/shop",
            "amqp://relay:hunter2",
            "relay:hunter2@db/shop",
            "postgres:/relay:hunter2@db",
            "host=db user=relay password=hunter2",
            "host=db PASSWORD = 'hunter2'",
            "{\"password\": \"hunter2\"}",
            "Authorization: hunter2",
            "--slot=amqp://relay:hunter2@mq",
            "ada hunter2hunter2hunter2",
            " ada\thunter2hunter2hunter2\n",
        ] {
            assert_eq!(redacted(text), HIDDEN, "{text}");
            assert_eq!(file_name(Path::new(text)), HIDDEN, "{text}");
        }
    }

    #[test]
    fn plain_values_are_shown_as_they_are() {
        for text in
            ["", "outbox", "10s", "127.0.0.1:9187", "[::1]:9187", "info,relay=debug", "a b", "orders.*", "tokens"]
        {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn a_file_is_named_if_it_is_there_or_its_name_looks_like_a_path() {
        for text in
            ["/run/secrets/database-url", "./tokens", "../a/b", "relay.toml", "etc/relay.toml", "Cargo.toml", "src"]
        {
            assert_eq!(file_name(Path::new(text)), text);
        }
        for text in ["3f9c0123456789abcdef", "hunter2", "ada hunter2", "eyJhbGciOi.eyJzdWIiOi.SflKxwRJSM", "/a b"] {
            assert_eq!(file_name(Path::new(text)), HIDDEN, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_url_with_a_password_gets_through(
            before in "[ -~]{0,20}",
            scheme in "[a-z]{1,8}",
            user in "[a-z]{0,8}",
            password in "[!-~]{1,20}",
            after in "[ -~]{0,20}",
        ) {
            let text = format!("{before}{scheme}://{user}:{password}@{after}");
            prop_assert_eq!(redacted(&text), HIDDEN);
            prop_assert_eq!(file_name(Path::new(&text)), HIDDEN);
        }
    }
}
