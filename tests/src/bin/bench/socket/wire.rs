//! Writing frames: <https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf>, section 4.2.

/// Types of frames.
pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
/// Last byte of every frame.
pub(super) const FRAME_END: u8 = 0xCE;
/// `basic`, the class of messages.
pub(super) const BASIC: u16 = 60;
/// The one channel that is used.
pub(super) const CHANNEL: u16 = 1;

/// Class and number of a method.
pub(super) type Method = (u16, u16);

/// Writes one frame.
pub(super) fn put_frame(out: &mut Vec<u8>, kind: u8, channel: u16, payload: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend(channel.to_be_bytes());
    put_sized(out, payload);
    out.push(FRAME_END);
}

/// Writes a method frame.
pub(super) fn put_method(out: &mut Vec<u8>, channel: u16, method: Method, arguments: impl FnOnce(&mut Vec<u8>)) {
    put_frame(out, METHOD, channel, |out| {
        out.extend(method.0.to_be_bytes());
        out.extend(method.1.to_be_bytes());
        arguments(out);
    });
}

/// Writes what `content` writes, with its length in four bytes before it.
pub(super) fn put_sized(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    content(&mut inner);
    out.extend(u32::try_from(inner.len()).expect("less than 4 GiB").to_be_bytes());
    out.extend(inner);
}

/// Writes a string of at most 255 bytes.
pub(super) fn put_short_string(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("at most 255 bytes"));
    out.extend(text.as_bytes());
}

/// Writes a table's field that is a string.
pub(super) fn put_text_field(out: &mut Vec<u8>, name: &str, text: &str) {
    put_short_string(out, name);
    out.push(b'S');
    put_sized(out, |out| out.extend(text.as_bytes()));
}
