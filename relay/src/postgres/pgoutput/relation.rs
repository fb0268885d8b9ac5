//! Descriptions of tables.

use bytes::{Buf, Bytes};

use super::{
    error::Problem,
    wire::{text, utf8},
};

/// A table as the stream describes it. Owns its names: it outlives the buffer that it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The table's oid: what its rows refer to.
    pub oid: u32,
    /// Its schema; empty for `pg_catalog`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its published columns, in the order of a row's values.
    pub columns: Vec<RelationColumn>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn {
    /// Its name.
    pub name: String,
    /// Oid of its data type. Types that are not built in have another oid in every database.
    pub type_oid: u32,
}

impl Relation {
    pub(super) fn decode(data: &mut Bytes) -> Result<Self, Problem> {
        let oid = data.try_get_u32()?;
        let namespace = utf8(&text(data)?)?;
        let name = utf8(&text(data)?)?;
        let _replica_identity = data.try_get_u8()?; // matters to updates and deletes
        let count = data.try_get_u16()?;
        // No capacity from `count`: it is the sender's word, and collecting through `Result` reserves none.
        let columns = (0..count).map(|_| RelationColumn::decode(data)).collect::<Result<_, _>>()?;
        Ok(Self { oid, namespace, name, columns })
    }
}

impl RelationColumn {
    fn decode(data: &mut Bytes) -> Result<Self, Problem> {
        let _flags = data.try_get_u8()?; // part of the key, or not
        let name = utf8(&text(data)?)?;
        let type_oid = data.try_get_u32()?;
        let _type_modifier = data.try_get_u32()?;
        Ok(Self { name, type_oid })
    }
}
