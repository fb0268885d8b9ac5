//! PostgreSQL's values, plans, settings and errors, behind safe types. Both ways of writing use them: by a statement
//! ([`plan`]), and past the executor (`executor`).
//!
//! # Safety
//!
//! The types here hold datums: values, or pointers into memory that PostgreSQL owns. Every `unsafe` block relies on
//! these reasons why they are sound:
//! - A backend has one thread, and none of the types is `Send`.
//! - Each is made for one function call, from its arguments or from the row of its trigger, and does not outlive the
//!   call. PostgreSQL keeps arguments and row until the call returns. What is allocated meanwhile (`palloc`) is in the
//!   call's memory context, which lives as long.
//! - PostgreSQL has checked the types: an argument or a column declared `json` is a json varlena.
//!
//! pgrx wraps each C function: an ERROR raised in it becomes a Rust panic, which unwinds to the function's guard.

mod arguments;
mod backend;
pub(crate) mod changes;
pub(crate) mod columns;
mod emit_arguments;
mod encoding;
mod error_fields;
mod json_text;
pub(crate) mod plan;
mod positions;
mod raise;
mod row;
pub(crate) mod table;
mod text_setting;
pub(crate) mod varlena;

pub(crate) use arguments::{BytesValue, JsonValue, JsonbValue, TextValue, TimeValue};
pub(crate) use backend::{SqlFunction, fill_random, is_replica, reserve_prefix, take_no_backtraces, transaction_time};
pub(crate) use columns::Column;
pub(crate) use emit_arguments::EmitArguments;
pub(crate) use encoding::{are_sent_unchanged, utf8};
pub(crate) use error_fields::with_all_error_fields;
pub(crate) use raise::{Report, raise};
pub(crate) use row::NewRow;
pub(crate) use text_setting::{Check, TextSetting, check_from_now_on, is_set};
