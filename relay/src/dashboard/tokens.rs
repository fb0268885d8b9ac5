//! Files of tokens: who may sign in. One `name token` a line; empty lines and those that begin with # count for nothing.

use std::{fmt, fs, hint::black_box, path::Path};

use crate::error::{Kind, RunError};

/// A token of fewer bytes could be guessed.
const SHORTEST: usize = 16;

/// The tokens of one file, each with the name of who has it. Shown without the tokens.
#[derive(Default)]
pub(super) struct Tokens(Vec<(String, String)>);

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, a line is no name and token, a token is short, or there is none. No error repeats a token.
    pub(super) fn read(path: &Path) -> Result<Self, RunError> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| RunError::new(Kind::Usage, format!("cannot read the tokens in {shown}")).source(error))?;
        Self::parse(&text).map_err(|why| {
            RunError::new(Kind::Usage, format!("{shown}: {why}"))
                .hint(format!("write one person a line, as \"ada 3f9c…\", with tokens of {SHORTEST} bytes or more: openssl rand -hex 32"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let tokens = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [name, _] if name.len() > 255 => Err(format!("line {number}: the name is longer than 255 bytes")),
                [_, token] if token.len() < SHORTEST => {
                    Err(format!("line {number}: the token is shorter than {SHORTEST} bytes"))
                }
                [name, token] => Ok((name.to_owned(), token.to_owned())),
                _ => Err(format!("line {number} is not a name and a token")),
            }
        });
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        if tokens.is_empty() { Err("it has no token".to_owned()) } else { Ok(Self(tokens)) }
    }

    /// Whose token this is. Takes as long for one token as for another, so that the time does not tell how near a guess is.
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
        ] {
            let refused = Tokens::parse(text).unwrap_err();
            assert!(refused.contains(why) && !refused.contains("secret") && !refused.contains(ADA), "{refused}");
        }
        assert_eq!(format!("{:?}", Tokens::parse(&format!("ada {ADA}")).unwrap()), r#"["ada"]"#);
    }
}
