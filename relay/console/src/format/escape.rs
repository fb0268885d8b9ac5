//! Escaping of foreign text for a terminal. Emitters choose topics, keys, headers, bodies, and some of the broker's
//! words about them; printed unescaped, these could recolour, retitle or overwrite the operator's screen.

use std::fmt::Write;

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

/// Whether a terminal obeys the character, does not show it, or lets it change how others are read.
pub(crate) fn needs_escape(c: char) -> bool {
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
