//! Files of tokens, which users may sign in with. A line is `name token`; empty lines and lines that begin with # are
//! ignored.

use std::{collections::HashMap, fmt, hint::black_box, path::Path};

use outbox_service::{
    error::{Kind, RunError},
    redact::{SHORTEST_TOKEN as SHORTEST, file_name},
    text_file,
};

/// The tokens of one file, each with its user's name. `Debug` leaves the tokens out.
#[derive(Default)]
pub(super) struct Tokens(Vec<(String, String)>);

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or has no token, a line is not a name and a token, or a token is too short or has two
    /// names. No error contains a token.
    pub(super) fn read(path: &Path) -> Result<Self, RunError> {
        let shown = file_name(path);
        let text = text_file::once(path)
            .map_err(|why| RunError::new(Kind::Usage, format!("cannot read the tokens in {shown}")).source(why))?;
        Self::parse(&text).map_err(|why| {
            RunError::new(Kind::Usage, format!("{shown}: {why}"))
                .hint(format!("write one person a line, as \"ada 3f9c…\", with tokens of {SHORTEST} bytes or more: openssl rand -hex 32"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let tokens = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [name, _] if name.len() > 255 => Err(format!("line {number}: the name is longer than 255 bytes")),
                [name, _] if name.contains(|c: char| c.is_control() || c == '\u{feff}') => {
                    Err(format!("line {number}: the name has a character in it that nobody sees"))
                }
                [_, token] if token.len() < SHORTEST => {
                    Err(format!("line {number}: the token is shorter than {SHORTEST} bytes"))
                }
                [name, token] => Ok((name.to_owned(), token.to_owned())),
                _ => Err(format!("line {number} is not a name and a token")),
            }
        });
        let tokens = Self(tokens.collect::<Result<_, _>>()?);
        if tokens.0.is_empty() {
            return Err("it has no token".to_owned());
        }
        match tokens.shared_with(&tokens) {
            Some((one, other)) => Err(format!("{one} and {other} have the same token")),
            None => Ok(tokens),
        }
    }

    /// Returns the names of a token that both files have, the first from this file. Nobody could tell which of the two
    /// has acted.
    pub(super) fn shared_with<'a>(&'a self, others: &'a Self) -> Option<(&'a str, &'a str)> {
        let mut owners = HashMap::new();
        for (name, token) in &self.0 {
            owners.entry(token).or_insert(name);
        }
        others.0.iter().find_map(|(other, token)| {
            let name = owners.get(token).filter(|name| **name != other)?;
            Some((name.as_str(), other.as_str()))
        })
    }

    /// Returns the name of a token's user. Every token takes the same time, so that the time does not reveal how close
    /// a guess is.
    pub(super) fn name_of(&self, token: &str) -> Option<&str> {
        self.0.iter().fold(None, |found, (name, known)| if is_same(known, token) { Some(name.as_str()) } else { found })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

fn is_same(known: &str, given: &str) -> bool {
    let difference = known.bytes().zip(given.bytes()).fold(0, |all, (one, other)| all | black_box(one ^ other));
    known.len() == given.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: &str = "0123456789abcdef";

    #[test]
    fn a_token_belongs_to_the_name_beside_it_and_to_nobody_else() {
        let tokens = Tokens::parse(&format!("# on call\nada {ADA}\n\n  grace   fedcba9876543210 \n")).unwrap();
        assert_eq!(tokens.name_of(ADA), Some("ada"));
        assert_eq!(Tokens::parse(&format!("\u{feff}ada {ADA}")).unwrap().name_of(ADA), Some("ada"));
        assert_eq!(tokens.name_of("fedcba9876543210"), Some("grace"));
        for wrong in ["", "0", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcde", "ada"] {
            assert_eq!(tokens.name_of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_would_let_in_nobody_or_anybody_is_refused_and_no_token_is_shown() {
        for (text, why) in [
            ("", "no token"),
            ("# ada\n", "no token"),
            ("ada", "line 1 is not"),
            (&format!("\nada {ADA} reader"), "line 2 is not"),
            ("ada secret", "shorter than 16"),
            (&format!("ada {ADA}\ngrace {ADA}"), "ada and grace have the same token"),
            (&format!("a\u{7}da {ADA}"), "line 1: the name has a character"),
            (&format!("ada 0{ADA}\n\u{feff}grace {ADA}"), "line 2: the name has a character"),
        ] {
            let refused = Tokens::parse(text).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("secret") && !refused.contains(ADA), "{refused}");
        }
        assert_eq!(format!("{:?}", Tokens::parse(&format!("ada {ADA}")).unwrap()), r#"["ada"]"#);
    }
}
