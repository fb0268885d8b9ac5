//! Reading frames out of the bytes that the broker has sent.

use std::{
    io::{self, Read},
    net::TcpStream,
};

use super::wire::{FRAME_END, Method};

/// Bytes received and not looked at yet.
pub(super) struct Received {
    bytes: Vec<u8>,
    /// What is in there, from where to where.
    from: usize,
    to: usize,
}

impl Received {
    /// Twice the longest frame, so that one read brings many small ones.
    const CAPACITY: usize = 2 * super::link::FRAME_MAX_BYTES as usize;
    /// Type, channel and length of a frame.
    const HEAD: usize = 7;

    pub(super) fn new() -> Self {
        Self { bytes: vec![0; Self::CAPACITY], from: 0, to: 0 }
    }

    /// Waits for more. `Ok(0)`: the connection has ended.
    pub(super) fn read(&mut self, socket: &mut TcpStream) -> io::Result<usize> {
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let length = socket.read(self.bytes.get_mut(self.to..).expect("a frame is shorter than the buffer"))?;
        self.to += length;
        Ok(length)
    }

    /// Takes the next whole frame: its type and its payload. `None`: more must be read for that.
    pub(super) fn next_frame(&mut self) -> Option<(u8, &[u8])> {
        let frame = self.bytes.get(self.from..self.to)?;
        let mut head = Reader(frame.get(..Self::HEAD)?);
        let (kind, _channel, length) = (head.u8(), head.u16(), head.u32() as usize);
        let (payload, rest) = frame.get(Self::HEAD..)?.split_at_checked(length)?;
        assert_eq!(*rest.first()?, FRAME_END, "the broker's frame does not end where it should");
        self.from += Self::HEAD + length + 1;
        Some((kind, payload))
    }
}

/// Reads primitives; the broker is trusted to send whole ones.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(length).expect("the broker's frame is long enough");
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("that many were taken")
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    pub(super) fn method(&mut self) -> Method {
        (self.u16(), self.u16())
    }

    pub(super) fn short_string(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.take(length.into())
    }

    /// A long string or a table.
    pub(super) fn sized(&mut self) -> &'a [u8] {
        let length = self.u32();
        self.take(length as usize)
    }
}
