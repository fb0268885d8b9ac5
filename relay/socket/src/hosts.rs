//! The hosts of a server's URL, and its percent-encoding.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All characters but RFC 3986's unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All reserved characters inside the brackets of an IPv6 address.
const RESERVED_IN_BRACKETS: &AsciiSet = &RESERVED.remove(b':');

/// What is wrong with a part of a URL. It shows nothing of the text, which may be part of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPart(pub &'static str);

/// A server, or a name that leads to several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or address; an IPv6 address without its brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// `host:port`, as in a URL.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') {
            write!(f, "[{}]:{port}", utf8_percent_encode(name, RESERVED_IN_BRACKETS))
        } else {
            write!(f, "{}:{port}", encode(name))
        }
    }
}

impl Host {
    /// The hosts of a list with commas, each with its own port or the default.
    ///
    /// # Errors
    ///
    /// A host has no name, or a port that is none.
    pub fn list(addresses: &str, default_port: u16) -> Result<Vec<Self>, InvalidPart> {
        let is_list = addresses.contains(',');
        let host = |address| {
            let (name, port) = host_and_port(address)?;
            let name = match decode(name)? {
                name if name.is_empty() && is_list => {
                    return Err(InvalidPart("a host has no name (one comma stands between two hosts)"));
                }
                name if name.is_empty() => "localhost".to_owned(),
                name => name,
            };
            if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(InvalidPart("a host's name has neither spaces nor control characters"));
            }
            Ok(Self { name, port: port.unwrap_or(default_port) })
        };
        addresses.split(',').map(host).collect()
    }
}

fn host_and_port(address: &str) -> Result<(&str, Option<u16>), InvalidPart> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(InvalidPart("an IPv6 address ends with ]"))?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').unwrap_or("")) })
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0)).map(|port: Option<u16>| {
        port.ok_or(InvalidPart("the port is a number from 1 to 65535 (in a password, write : / @ and ? as %XX)"))
    });
    Ok((host, port.transpose()?))
}

/// Writes special characters as `%XX`.
pub fn encode(text: &str) -> impl fmt::Display + use<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// Decodes percent-encoded text.
///
/// # Errors
///
/// A `%` encodes nothing, which is a mistake, usually in a password; or the text is not UTF-8.
pub fn decode(text: &str) -> Result<String, InvalidPart> {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return Err(InvalidPart("a % is not followed by two hexadecimal digits"));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| InvalidPart("it is not UTF-8"))
}
