//! A walk over a jsonb value as PostgreSQL stores it (`src/include/utils/jsonb.h`).
//!
//! A container is a header with its kind and count, an entry for each name and then for each value, and then their bytes. An
//! entry says the type, and either the length or, now and then, where the bytes end. PostgreSQL's own iterator would cost a
//! guarded call for each token.

use pgrx::pg_sys;

use super::number::Number;
use crate::postgres::{check_for_interrupts, raise_corrupt_jsonb, raise_out_of_memory};

/// Bytes of a header, of an entry, and of what numbers and containers are aligned to.
const WORD: usize = size_of::<u32>();

/// What a walk over a jsonb value comes across.
pub(crate) enum Token<'a> {
    /// An object begins, with so many fields: first all names come, then all values.
    Object(usize),
    /// An array begins, with so many elements.
    Array(usize),
    /// An object or array ends; the end of the outermost is the walk's.
    Close,
    /// The name of an object's field.
    Name(&'a [u8]),
    /// A null.
    Null,
    /// True or false.
    Bool(bool),
    /// Any number.
    Number(Number<'a>),
    /// A text.
    Text(&'a [u8]),
}

/// The tokens of a value, depth first.
pub(crate) struct Tokens<'a> {
    jsonb: &'a [u8],
    has_begun: bool,
    inside: Container,
    around: Vec<Container>,
}

/// A container that the walk is in.
#[derive(Clone, Copy)]
struct Container {
    /// Entries that are left, names among them.
    left: usize,
    names_left: usize,
    /// Where the next entry is.
    entry: usize,
    /// Where the bytes of names and values begin.
    bytes: usize,
    /// Where those of the next begin, from there.
    offset: usize,
}

impl<'a> Tokens<'a> {
    /// Takes a jsonb value without its varlena header.
    pub(crate) fn of(jsonb: &'a [u8]) -> Self {
        let nothing = Container { left: 0, names_left: 0, entry: 0, bytes: 0, offset: 0 };
        Self { jsonb, has_begun: false, inside: nothing, around: Vec::new() }
    }

    /// Goes into the container that begins there. `None`: it stands for the scalar in it.
    fn open(&mut self, place: usize) -> Option<Token<'a>> {
        check_for_interrupts();
        let header = self.word(place);
        let count = (header & pg_sys::JB_CMASK) as usize;
        let names_left = if header & pg_sys::JB_FOBJECT != 0 { count } else { 0 };
        let left = count + names_left;
        let entry = place + WORD;
        self.inside = Container { left, names_left, entry, bytes: entry + WORD * left, offset: 0 };
        match header {
            object if object & pg_sys::JB_FOBJECT != 0 => Some(Token::Object(count)),
            scalar if scalar & pg_sys::JB_FSCALAR != 0 => None,
            _ => Some(Token::Array(count)),
        }
    }

    fn open_inner(&mut self, place: usize) -> Option<Token<'a>> {
        if self.around.try_reserve(1).is_err() {
            raise_out_of_memory();
        }
        self.around.push(self.inside);
        self.open(place)
    }

    #[inline]
    fn word(&self, place: usize) -> u32 {
        match self.jsonb.get(place..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u32::from_ne_bytes(*bytes),
            None => raise_corrupt_jsonb(),
        }
    }

    #[inline]
    fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.jsonb.get(from..to).unwrap_or_else(|| raise_corrupt_jsonb())
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        if !self.has_begun {
            self.has_begun = true;
            if let Some(token) = self.open(0) {
                return Some(token);
            }
        }
        let inside = &mut self.inside;
        if inside.left == 0 {
            self.inside = self.around.pop()?;
            return Some(Token::Close);
        }
        inside.left -= 1;
        let (entry, start, bytes) = (inside.entry, inside.offset, inside.bytes);
        inside.entry += WORD;
        let is_name = inside.names_left > 0;
        inside.names_left -= usize::from(is_name);

        let entry = self.word(entry);
        let length_or_end = (entry & pg_sys::JENTRY_OFFLENMASK) as usize;
        let end = if entry & pg_sys::JENTRY_HAS_OFF != 0 { length_or_end } else { start + length_or_end };
        self.inside.offset = end;
        let aligned = bytes + start.next_multiple_of(WORD);
        Some(match entry & pg_sys::JENTRY_TYPEMASK {
            pg_sys::JENTRY_ISSTRING if is_name => Token::Name(self.slice(bytes + start, bytes + end)),
            pg_sys::JENTRY_ISSTRING => Token::Text(self.slice(bytes + start, bytes + end)),
            pg_sys::JENTRY_ISNUMERIC => {
                let numeric = self.slice(aligned + WORD, bytes + end); // behind its varlena header
                Token::Number(Number::new(numeric).unwrap_or_else(|| raise_corrupt_jsonb()))
            }
            pg_sys::JENTRY_ISBOOL_TRUE => Token::Bool(true),
            pg_sys::JENTRY_ISBOOL_FALSE => Token::Bool(false),
            pg_sys::JENTRY_ISNULL => Token::Null,
            _ => return self.open_inner(aligned),
        })
    }
}
