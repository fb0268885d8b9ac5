//! Writes messages by hand from the protocol's description, so that decoder and tests agree by the book and not by
//! sharing code.

use bytes::{BufMut, Bytes, BytesMut};

use super::Column;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Unchanged,
    Text(Vec<u8>),
    Binary(Vec<u8>),
}

impl Value {
    fn write(&self, out: &mut BytesMut) {
        let (kind, bytes) = match self {
            Self::Null => return out.put_u8(b'n'),
            Self::Unchanged => return out.put_u8(b'u'),
            Self::Text(bytes) => (b't', bytes),
            Self::Binary(bytes) => (b'b', bytes),
        };
        out.put_u8(kind);
        out.put_u32(u32::try_from(bytes.len()).unwrap());
        out.put_slice(bytes);
    }

    pub(super) fn column(&self) -> Column<'_> {
        match self {
            Self::Null => Column::Null,
            Self::Unchanged => Column::Unchanged,
            Self::Text(bytes) => Column::Text(bytes),
            Self::Binary(bytes) => Column::Binary(bytes),
        }
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(text.as_bytes());
    out.put_u8(0);
}

pub(super) fn relation_message(oid: u32, namespace: &str, name: &str, columns: &[(&str, u32)]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'R');
    out.put_u32(oid);
    put_text(&mut out, namespace);
    put_text(&mut out, name);
    out.put_u8(b'd');
    out.put_u16(u16::try_from(columns.len()).unwrap());
    for (name, type_oid) in columns {
        out.put_u8(1);
        put_text(&mut out, name);
        out.put_u32(*type_oid);
        out.put_u32(u32::MAX); // no type modifier
    }
    out.freeze()
}

pub(super) fn insert_message(oid: u32, values: &[Value]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'I');
    out.put_u32(oid);
    out.put_u8(b'N');
    out.put_u16(u16::try_from(values.len()).unwrap());
    for value in values {
        value.write(&mut out);
    }
    out.freeze()
}

pub(super) fn logical_message(flags: u8, lsn: u64, prefix: &str, content: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'M');
    out.put_u8(flags);
    out.put_u64(lsn);
    put_text(&mut out, prefix);
    out.put_u32(u32::try_from(content.len()).unwrap());
    out.put_slice(content);
    out.freeze()
}

pub(super) fn begin_message(final_lsn: u64, time: i64, xid: u32) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'B');
    out.put_u64(final_lsn);
    out.put_i64(time);
    out.put_u32(xid);
    out.freeze()
}

pub(super) fn commit_message(commit_lsn: u64, end_lsn: u64) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(b"C\0");
    out.put_u64(commit_lsn);
    out.put_u64(end_lsn);
    out.put_i64(0);
    out.freeze()
}
