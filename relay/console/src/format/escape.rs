//! Text that others have written, for a terminal. Whoever may emit chooses topics, keys, headers, bodies, and some of the broker's words
//! about them. Printed as they are, they could recolour, retitle or overwrite the operator's screen.

use std::fmt::Write;

/// The text with every character that is not seen as itself written as `\n`, `\t` or `\u{…}`.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            c if needs_escape(c) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c)); // a String takes every write
            }
            c => shown.push(c),
        }
        shown
    })
}

/// Whether a terminal takes the character for a command, or does not show it, or lets it change how others are read.
pub(crate) fn needs_escape(c: char) -> bool {
    c.is_control() || is_noncharacter(c) || ESCAPED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// What Unicode keeps for use inside programs: U+FDD0 to U+FDEF, and the last two of each plane.
fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// Beside control characters and noncharacters: Unicode's format characters (category Cf), among them those that turn the direction of
/// writing around; what is ignored where it is not supported (`Default_Ignorable_Code_Point`); line ends; and what is blank and no space.
/// The dashboard has the same.
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

    /// Where the line is to be changed, this prints what should stand there.
    #[test]
    fn the_dashboard_escapes_the_same_characters_but_for_tabs_and_line_ends() {
        let page = include_str!("../dashboard/page/dom.js");
        // A surrogate without its other half is none of Rust's characters, and one of JavaScript's.
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
