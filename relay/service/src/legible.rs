//! Foreign text as people read it, and copy it: names of roles and databases may hold characters that a terminal obeys,
//! or that nobody sees.

use std::fmt::Write;

use pg_replication::quoting::{identifier, literal};

/// Whether a terminal obeys the character, does not show it, or lets it change how others are read.
pub fn needs_escape(c: char) -> bool {
    c.is_control() || is_noncharacter(c) || ESCAPED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Whether Unicode reserves the character for use inside programs: U+FDD0 to U+FDEF, and the last two of each plane.
fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// Characters to escape beside control characters and noncharacters: Unicode's format characters (category Cf), which
/// include changes of the writing direction; characters that are ignored where they are not supported
/// (`Default_Ignorable_Code_Point`); line ends; and blanks other than the space. The dashboard has the same list.
const ESCAPED: [(char, char); 27] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffc}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns SQL statements that mean the same and can be copied from one line of a terminal or a log: a quoted name or
/// string with characters that need escaping, with blanks other than the space, or with several spaces in a row, is
/// written with Unicode escapes, as `U&"a\0020\0020b"`. PostgreSQL refuses such a string, but no such name, if
/// `standard_conforming_strings` is off.
pub fn statement(sql: &str) -> String {
    let mut written = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(start) = rest.find(['"', '\'']) {
        let (before, token) = rest.split_at(start);
        let (token, behind) = token.split_at(quoted_length(token));
        written.push_str(before);
        // Unicode escapes cannot be added to a string that has others already.
        if before.ends_with(['E', '&']) {
            written.push_str(token);
        } else {
            push_legible(&mut written, token);
        }
        rest = behind;
    }
    written.push_str(rest);
    written
}

/// Returns the role `name` as an argument of type `regrole`, which folds what is not quoted to lower case, and takes
/// digits for an OID; written as [`statement`] does.
pub fn role_argument(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-$".contains(letter));
    statement(&if is_plain { literal(name) } else { literal(&identifier(name)) })
}

/// Returns the length of the name or string at the start of the text, with its quotes, in bytes.
fn quoted_length(text: &str) -> usize {
    let mut letters = text.char_indices();
    let Some((_, quote)) = letters.next() else { return 0 };
    while let Some((_, letter)) = letters.next() {
        // Two quotes in a row are one of the name.
        if letter == quote && !letters.as_str().starts_with(quote) {
            return letters.offset();
        } else if letter == quote {
            letters.next();
        }
    }
    text.len()
}

fn push_legible(written: &mut String, token: &str) {
    let letters: Vec<char> = token.chars().collect();
    let is_space = |at: Option<usize>| at.and_then(|at| letters.get(at)) == Some(&' ');
    let is_legible = |at: usize| match letters.get(at) {
        // Without standard_conforming_strings, a backslash begins an escape; with Unicode escapes the server refuses.
        Some('\\') => !token.starts_with('\''),
        Some(' ') => !is_space(at.checked_sub(1)) && !is_space(Some(at + 1)),
        Some(letter) => !needs_escape(*letter) && !letter.is_whitespace(),
        None => true,
    };
    if (0..letters.len()).all(is_legible) {
        written.push_str(token);
        return;
    }
    written.push_str("U&");
    for (at, letter) in letters.iter().enumerate() {
        let code = u32::from(*letter);
        // Writing to a String cannot fail.
        let _ = match letter {
            '\\' => write!(written, r"\\"),
            letter if is_legible(at) => write!(written, "{letter}"),
            _ if code <= 0xffff => write!(written, "\\{code:04x}"),
            _ => write!(written, "\\+{code:06x}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the statement with its Unicode escapes read as PostgreSQL reads them.
    fn read(sql: &str) -> String {
        let mut meant = String::new();
        let mut rest = sql;
        while let Some(at) = rest.find("U&") {
            meant.push_str(&rest[..at]);
            let (token, behind) = rest[at + 2..].split_at(quoted_length(&rest[at + 2..]));
            let mut parts = token.split('\\');
            meant.push_str(parts.next().unwrap());
            while let Some(part) = parts.next() {
                let (code, letters) = match part.strip_prefix('+') {
                    Some(part) => part.split_at(6),
                    None if part.is_empty() => {
                        meant.push('\\');
                        meant.push_str(parts.next().unwrap());
                        continue;
                    }
                    None => part.split_at(4),
                };
                meant.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                meant.push_str(letters);
            }
            rest = behind;
        }
        meant + rest
    }

    #[test]
    fn a_name_that_cannot_be_copied_is_written_with_escapes() {
        for (sql, written) in [
            (r#"ALTER ROLE "a b" REPLICATION"#, r#"ALTER ROLE "a b" REPLICATION"#),
            (r#"ALTER ROLE "a  b" REPLICATION"#, r#"ALTER ROLE U&"a\0020\0020b" REPLICATION"#),
            ("ALTER ROLE \"a\tb\\\u{a0}\" REPLICATION", r#"ALTER ROLE U&"a\0009b\\\00a0" REPLICATION"#),
            ("SELECT f('\"it''s\u{e0001}\"')", r#"SELECT f(U&'"it''s\+0e0001"')"#),
            ("GRANT x TO \"\"\"\u{202e}\"; GRANT y TO z", r#"GRANT x TO U&"""\202e"; GRANT y TO z"#),
            (r#"SELECT f(E'a\n  b', "c")"#, r#"SELECT f(E'a\n  b', "c")"#),
            (r#"SELECT f('a\101', "\")"#, r#"SELECT f(U&'a\\101', "\")"#),
            (r#"GRANT x TO "Bücher 本""#, r#"GRANT x TO "Bücher 本""#),
        ] {
            assert_eq!(statement(sql), written);
        }
    }

    #[test]
    fn a_role_is_quoted_inside_the_argument_unless_it_stays_as_it_is_without() {
        for (name, argument) in [
            ("relay_1", "'relay_1'"),
            ("outbox-relay", "'outbox-relay'"),
            ("Shop", r#"'"Shop"'"#),
            ("10", r#"'"10"'"#),
            ("-", r#"'"-"'"#),
            ("a  b", r#"U&'"a\0020\0020b"'"#),
            (r#"we"ird's"#, r#"'"we""ird''s"'"#),
        ] {
            assert_eq!(role_argument(name), argument);
        }
    }

    proptest! {
        #[test]
        fn a_statement_means_the_same_and_reads_in_one_line(name in "[a-z \"'\\\\\t\n\u{a0}\u{200b}\u{e0001}é]{0,12}") {
            let name = identifier(&name);
            let sql = format!("GRANT x TO {name}; SELECT f({})", literal(&name));
            let written = statement(&sql);
            prop_assert!(!written.chars().any(needs_escape) && !written.contains("  "), "{}", written);
            prop_assert_eq!(read(&written), sql);
        }
    }
}
