//! A jsonb value as it is stored and as it will be printed.
//!
//! The relay is sent the text, and the two sizes have little to do with each other: `1e131071` is kept in 8 bytes and
//! printed in 131,072. So the text is measured, without being made.

mod number;
mod printed;
mod tokens;

pub(crate) use printed::Printed;
pub(crate) use tokens::{Token, Tokens};
