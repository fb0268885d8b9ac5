//! Arguments of SQL functions, which are passed on unread.

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{FromDatum, pg_sys};

use super::json_text::printed;
use super::varlena::raw_size;

macro_rules! passed_on {
    ($name:ident, $sql:literal) => {
        #[doc = concat!("An argument of type `", $sql, "`, neither copied nor read.")]
        pub(crate) struct $name(pg_sys::Datum);

        impl $name {
            /// The value as PostgreSQL passed it.
            pub(super) fn datum(&self) -> pg_sys::Datum {
                self.0
            }
        }

        impl FromDatum for $name {
            unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
                (!is_null).then_some(Self(datum))
            }
        }

        // SAFETY: a value that is not null is kept as it is; every signature has an `Option` for null.
        unsafe impl<'fcx> ArgAbi<'fcx> for $name {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                // SAFETY: any datum can be kept.
                match unsafe { arg.unbox_arg_using_from_datum() } {
                    Some(value) => value,
                    None => pgrx::error!(concat!("a null where ", $sql, " must be")),
                }
            }
        }

        // SAFETY: the name is the SQL type of the values.
        unsafe impl SqlTranslatable for $name {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($name);
            const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
            const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal($sql)));
        }
    };
}

passed_on!(TextValue, "text");
passed_on!(JsonValue, "json");
passed_on!(JsonbValue, "jsonb");
passed_on!(BytesValue, "bytea");
passed_on!(TimeValue, "timestamptz");

impl JsonValue {
    /// Bytes, uncompressed.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: a json is a varlena.
        unsafe { raw_size(self.0) }
    }
}

impl JsonbValue {
    /// The text that PostgreSQL prints for it.
    pub(crate) fn printed(&self) -> JsonValue {
        // SAFETY: the datum is a jsonb.
        JsonValue(unsafe { printed(self.datum()) })
    }
}

impl BytesValue {
    /// Bytes, uncompressed.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: a bytea is a varlena.
        unsafe { raw_size(self.0) }
    }
}
