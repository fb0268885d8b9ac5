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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_are_doubled() {
        assert_eq!(identifier(r#"a"b'c"#), r#""a""b'c""#);
        assert_eq!(literal(r#"a"b'c"#), r#"'a"b''c'"#);
        assert_eq!(literal(&identifier("it's")), r#"'"it''s"'"#);
    }
}
