//! Names and texts as SQL takes them.

/// Returns `name` as a quoted identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns `text` as a string literal. A backslash is an ordinary letter to the replication grammar, and to SQL with
/// `standard_conforming_strings`.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the role `name` as an argument of type `regrole`, which folds what is not quoted to lower case, and takes
/// digits for an OID.
pub fn role_argument(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if is_plain { literal(name) } else { literal(&identifier(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_are_doubled() {
        assert_eq!(identifier(r#"a"b'c"#), r#""a""b'c""#);
        assert_eq!(literal(r#"a"b'c"#), r#"'a"b''c'"#);
        assert_eq!(literal(&identifier("it's")), r#"'"it''s"'"#);
    }

    #[test]
    fn a_role_is_quoted_inside_the_argument_unless_it_stays_as_it_is_without() {
        for (name, argument) in [
            ("relay_1", "'relay_1'"),
            ("Shop", r#"'"Shop"'"#),
            ("10", r#"'"10"'"#),
            ("-", r#"'"-"'"#),
            (r#"we"ird's"#, r#"'"we""ird''s"'"#),
        ] {
            assert_eq!(role_argument(name), argument);
        }
    }
}
