//! The values of columns that `emit` does not write.

use std::ffi::{c_char, c_int};

use pgrx::IntoDatum;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use crate::postgres::transaction_time;

/// A column's DEFAULT, or the next number of its identity.
pub(super) enum DefaultValue {
    Null,
    Constant(pg_sys::Datum),
    /// `now()`.
    TransactionTime,
    Expression(*mut pg_sys::ExprState),
}

impl DefaultValue {
    /// `None`: the DEFAULT may need the owner's rights, or the type is a domain, which checks even a null.
    ///
    /// # Safety
    /// The table is open and has a column at this position, from 0. The value lives in the current memory context.
    pub(super) unsafe fn of(table: pg_sys::Relation, position: usize) -> Option<Self> {
        /// `now()` (`pg_proc.dat`).
        const NOW: u32 = 1299;
        // SAFETY: by this function's contract; a node's tag names its type.
        unsafe {
            let number = position as c_int + 1;
            let column_type = pg_sys::SPI_gettypeid((*table).rd_att, number);
            let is_dropped = column_type == pg_sys::InvalidOid;
            if is_dropped {
                return Some(Self::Null);
            }
            if pg_sys::get_typtype(column_type) == pg_sys::TYPTYPE_DOMAIN as c_char {
                return None;
            }
            let expression = pg_sys::build_column_default(table, number);
            if expression.is_null() {
                return Some(Self::Null);
            }
            let planned = pg_sys::expression_planner(expression.cast());
            let is_known = match (*planned).type_ {
                pg_sys::NodeTag::T_Const => {
                    let constant = &*planned.cast::<pg_sys::Const>();
                    let value = Self::Constant(constant.constvalue);
                    return Some(if constant.constisnull { Self::Null } else { value });
                }
                pg_sys::NodeTag::T_NextValueExpr => true, // an identity's number needs no right
                pg_sys::NodeTag::T_FuncExpr => {
                    let is_now = (*planned.cast::<pg_sys::FuncExpr>()).funcid == pg_sys::Oid::from(NOW);
                    return is_now.then_some(Self::TransactionTime);
                }
                _ => false,
            };
            is_known.then(|| Self::Expression(pg_sys::ExecInitExpr(planned, std::ptr::null_mut())))
        }
    }

    /// The value for one row; `None` is null.
    ///
    /// # Safety
    /// The memory context of [`of`](Self::of) still lives, and so does `context`.
    pub(super) unsafe fn value(&self, context: *mut pg_sys::ExprContext) -> Option<pg_sys::Datum> {
        match self {
            Self::Null => None,
            Self::Constant(value) => Some(*value),
            Self::TransactionTime => transaction_time().into_datum(),
            Self::Expression(expression) => {
                let mut is_null = false;
                // SAFETY: by this function's contract.
                let value = unsafe { evaluate(*expression, context, &raw mut is_null) };
                (!is_null).then_some(value)
            }
        }
    }
}

/// `ExecEvalExpr`, which is inline in C.
unsafe fn evaluate(
    expression: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    is_null: *mut bool,
) -> pg_sys::Datum {
    // SAFETY: every initialised expression has this function. The boundary turns an ERROR into a panic.
    unsafe {
        match (*expression).evalfunc {
            Some(evaluate) => pg_guard_ffi_boundary(|| evaluate(expression, context, is_null)),
            None => pgrx::error!("a default of outbox.events has no way to be evaluated"),
        }
    }
}
