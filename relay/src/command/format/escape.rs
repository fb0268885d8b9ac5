//! Text that others have written, for a terminal. Whoever may emit chooses topics, keys, headers, bodies, and some of the broker's words
//! about them. Printed as they are, they could recolour, retitle or overwrite the operator's screen.

use std::fmt::Write;

/// The text with every character that is not seen as itself written as `\n`, `\t` or `\u{…}`.
pub(in crate::command) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if is_unseen(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c)); // a String takes every write
            }
            c => shown.push(c),
        }
        shown
    })
}

/// Whether a terminal takes the character for a command, or lets it change how others are read: control characters (C0, DEL, C1),
/// and Unicode's format characters (category Cf), among them those that turn the direction of writing around.
pub(super) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(escaped("a\u{1b}]0;owned\u{7}b\r\n"), "a\\u{1b}]0;owned\\u{7}b\\u{d}\\n");
        assert_eq!(escaped("\u{9b}31m\u{7f}"), "\\u{9b}31m\\u{7f}");
        assert_eq!(escaped("abc\u{202e}cba"), "abc\\u{202e}cba");
        assert_eq!(escaped("Bücher 本 🙂"), "Bücher 本 🙂");
    }

    proptest! {
        #[test]
        fn nothing_unseen_is_left(text: String) {
            prop_assert!(!escaped(&text).chars().any(is_unseen));
        }
    }
}
