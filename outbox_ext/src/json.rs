//! The tokens of a JSON text.
//!
//! PostgreSQL has checked the text, so nothing here looks for errors of syntax.

use std::borrow::Cow;

/// A token of JSON.
pub(crate) enum Token<'a> {
    /// An object begins.
    Object,
    /// An array begins.
    Array,
    /// An object or array ends.
    Close,
    /// The name of an object's field.
    Name(Cow<'a, str>),
    /// A null.
    Null,
    /// True or false.
    Bool,
    /// A number as it is written.
    Number(&'a str),
    /// A text.
    Text(Cow<'a, str>),
    /// A name or text with an escape that jsonb does not hold either: `\u0000`, or half of a surrogate pair.
    Unreadable,
}

/// The tokens of a value, depth first.
pub(crate) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// Takes a JSON text.
    pub(crate) fn of(json: &'a str) -> Self {
        Self { rest: json }
    }

    /// Splits off the next bytes; `None`: the text has fewer.
    fn take(&mut self, bytes: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn string(&mut self) -> Option<Token<'a>> {
        let mut end = 1;
        let mut is_plain = true;
        loop {
            match self.rest.as_bytes().get(end)? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    end += 2;
                }
                _ => end += 1,
            }
        }
        let quoted = self.take(end + 1)?;
        let text = if is_plain {
            Cow::Borrowed(quoted.get(1..end)?)
        } else {
            match serde_json::from_str::<String>(quoted) {
                Ok(text) if !text.contains('\0') => Cow::Owned(text),
                _ => return Some(Token::Unreadable),
            }
        };
        let is_name = self.rest.trim_start().starts_with(':');
        Some(if is_name { Token::Name(text) } else { Token::Text(text) })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', ',', ':']);
        let (token, bytes) = match self.rest.bytes().next()? {
            b'"' => return self.string(),
            b'{' => (Token::Object, 1),
            b'[' => (Token::Array, 1),
            b'}' | b']' => (Token::Close, 1),
            b'n' => (Token::Null, 4),
            b't' => (Token::Bool, 4),
            b'f' => (Token::Bool, 5),
            _ => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let bytes = self.rest.bytes().take_while(is_part).count();
                return self.take(bytes).filter(|number| !number.is_empty()).map(Token::Number);
            }
        };
        self.take(bytes)?;
        Some(token)
    }
}
