//! The records of a batch that is compressed, by any of Kafka's kinds. A topic can have another kind than the producer.

use std::io::Read;

use bytes::Bytes;

/// What snappy's stream in Java begins with. Other clients write a lone block.
const JAVAS_SNAPPY: &[u8] = b"\x82SNAPPY\0";
/// Bytes of its head, which ends with two versions.
const JAVAS_HEAD: usize = 16;
/// Most bytes that a byte of snappy can stand for: three make a copy of 64.
const MOST_OF_SNAPPY: usize = 22;

/// Decompresses records by the kind with this number. `None`: they are not compressed by it, or have more bytes than
/// `most`.
pub(super) fn decompress(kind: i16, bytes: Bytes, most: usize) -> Option<Bytes> {
    match kind {
        0 => Some(bytes),
        1 => read(flate2::bufread::MultiGzDecoder::new(&*bytes), most),
        2 => snappy(&bytes, most),
        3 => read(lz4_flex::frame::FrameDecoder::new(&*bytes), most),
        4 => read(zstd::stream::read::Decoder::with_buffer(&*bytes).ok()?, most),
        _ => None,
    }
}

fn read(from: impl Read, most: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() <= most).then(|| out.into())
}

fn snappy(bytes: &[u8], most: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    if !bytes.starts_with(JAVAS_SNAPPY) {
        snappy_block(&mut out, bytes, most)?;
        return Some(out.into());
    }
    let mut rest = bytes.get(JAVAS_HEAD..)?;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (block, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        snappy_block(&mut out, block, most)?;
        rest = behind;
    }
    rest.is_empty().then(|| out.into())
}

fn snappy_block(out: &mut Vec<u8>, block: &[u8], most: usize) -> Option<()> {
    let length = snap::raw::decompress_len(block).ok()?;
    let begin = out.len();
    if length > block.len().saturating_mul(MOST_OF_SNAPPY) || length > most.saturating_sub(begin) {
        return None;
    }
    out.resize(begin + length, 0);
    snap::raw::Decoder::new().decompress(block, out.get_mut(begin..)?).ok()?;
    Some(())
}
