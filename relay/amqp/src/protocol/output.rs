//! Bytes on their way to the socket: small pieces in one buffer, large bodies where they are.

use std::{collections::VecDeque, io::IoSlice, mem};

use bytes::{Buf, Bytes, BytesMut};

/// From this length on, in bytes, a body's frame goes to the socket uncopied, as a piece of its own. Measured over
/// loopback TCP, in CPU time a message: at 2 KiB copying is cheaper (540 against 640 ns), from 3 to 6 KiB they are
/// even, and at 8 KiB the piece of its own is a fifth cheaper.
pub(crate) const UNCOPIED_FROM: usize = 4 * 1024;

/// Bytes to be written, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The first pieces; none is empty.
    pieces: VecDeque<Bytes>,
    /// How many bytes the pieces have.
    in_pieces: usize,
    /// The last piece.
    last: BytesMut,
}

impl Output {
    /// The buffer for small pieces.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.last
    }

    /// Adds bytes without copying them.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        let before = self.last.split().freeze();
        for piece in [before, bytes] {
            self.in_pieces += piece.len();
            self.pieces.extend(Some(piece).filter(|piece| !piece.is_empty()));
        }
    }

    /// Takes over all pieces of another output.
    pub(crate) fn append(&mut self, other: &mut Self) {
        other.in_pieces = 0;
        for piece in mem::take(&mut other.pieces) {
            self.push(piece);
        }
        self.last.extend_from_slice(&other.last);
        other.last.clear();
    }

    /// How many bytes are to be written.
    pub(crate) fn len(&self) -> usize {
        self.in_pieces + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&self.last, |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let last = Some(&*self.last).filter(|last| !last.is_empty());
        let chunks = self.pieces.iter().map(|piece| &**piece).chain(last);
        slices.iter_mut().zip(chunks).map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            let here = count.min(piece.len());
            piece.advance(here);
            self.in_pieces -= here;
            count -= here;
            if !piece.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
        self.last.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn what_is_written_goes_out_in_its_order_however_it_is_taken() {
        for step in 1..9 {
            let (mut out, mut other) = (Output::default(), Output::default());
            out.buffer().put_slice(b"ab");
            out.push(Bytes::from_static(b"cde"));
            out.push(Bytes::new());
            other.push(Bytes::from_static(b"fg"));
            other.buffer().put_slice(b"h");
            out.append(&mut other);
            out.buffer().put_slice(b"i");
            assert!(other.is_empty() && out.len() == 9);

            let mut slices = [IoSlice::new(&[]); 3];
            assert_eq!(out.chunks_vectored(&mut slices), 3);
            assert_eq!(slices.map(|slice| slice.to_vec()), [b"ab".to_vec(), b"cde".to_vec(), b"fg".to_vec()]);
            let mut taken = Vec::new();
            while out.has_remaining() {
                let mut piece = vec![0; step.min(out.remaining())];
                out.copy_to_slice(&mut piece);
                taken.extend(piece);
            }
            assert_eq!(taken, b"abcdefghi");
            assert_eq!(out.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
        }
    }
}
