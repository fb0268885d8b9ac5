//! Escaping of foreign text for a terminal. Emitters choose topics, keys, headers, bodies, and some of the broker's
//! words about them; printed unescaped, these could recolour, retitle or overwrite the operator's screen.

use std::fmt::Write;

use outbox_service::legible::needs_escape;

/// Returns the text with every character that `needs_escape` selects written as `\n`, `\t` or `\u{…}`.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if needs_escape(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c)); // writing to a String cannot fail
            }
            c => shown.push(c),
        }
        shown
    })
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
        assert_eq!(escaped("Bücher 本 🙂 \u{fffd}"), "Bücher 本 🙂 \u{fffd}");
        for c in "\u{34f}\u{180f}\u{2800}\u{3164}\u{fffe}\u{ffff}\u{10ffff}\u{1bca0}\u{1d173}\u{e01ef}".chars() {
            assert_eq!(escaped(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
    }

    /// If the line in the page is out of date, this test prints its new text.
    #[test]
    fn the_dashboard_escapes_the_same_characters_but_for_tabs_and_line_ends() {
        let page = include_str!("../dashboard/page/dom.js");
        // A lone surrogate is a character of JavaScript, and none of Rust.
        let is_escaped = |code: u32| char::from_u32(code).is_none_or(needs_escape) && code != 0x9 && code != 0xa;
        let mut class = String::new();
        let mut code = 0;
        while code <= 0x10_ffff {
            let first = code;
            while code <= 0x10_ffff && is_escaped(code) {
                code += 1;
            }
            match code - first {
                0 => code += 1,
                1 => write!(class, "\\u{{{first:x}}}").unwrap(),
                _ => write!(class, "\\u{{{first:x}}}-\\u{{{:x}}}", code - 1).unwrap(),
            }
        }
        let line = format!("const ESCAPED = /[{class}]/gu;\n");
        assert!(page.contains(&line), "relay/console/src/dashboard/page/dom.js should have:\n{line}");
    }

    proptest! {
        #[test]
        fn nothing_that_needs_escaping_is_left(text: String) {
            prop_assert!(!escaped(&text).chars().any(needs_escape));
        }
    }
}
