//! The hosts of the broker's address.

use std::fmt;

use percent_encoding::{AsciiSet, utf8_percent_encode};

use super::{InvalidAmqpUrl, RESERVED, decode};

/// All reserved characters inside the brackets of an IPv6 address.
const RESERVED_IN_BRACKETS: &AsciiSet = &RESERVED.remove(b':');

/// A node of the broker, or a name that leads to several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Name or address; an IPv6 address without its brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// `host:port`, as in a URL.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') {
            write!(f, "[{}]:{port}", utf8_percent_encode(name, RESERVED_IN_BRACKETS))
        } else {
            write!(f, "{}:{port}", utf8_percent_encode(name, RESERVED))
        }
    }
}

/// The hosts of a list, each with its own port or the default.
pub(super) fn hosts(addresses: &str, default_port: u16) -> Result<Vec<Host>, InvalidAmqpUrl> {
    let is_list = addresses.contains(',');
    let host = |address| {
        let (name, port) = host_and_port(address)?;
        let name = match decode(name)? {
            name if name.is_empty() && is_list => {
                return Err(InvalidAmqpUrl::new("a host has no name (one comma stands between two hosts)"));
            }
            name if name.is_empty() => "localhost".to_owned(),
            name => name,
        };
        if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(InvalidAmqpUrl::new("a host's name has neither spaces nor control characters"));
        }
        Ok(Host { name, port: port.unwrap_or(default_port) })
    };
    addresses.split(',').map(host).collect()
}

fn host_and_port(address: &str) -> Result<(&str, Option<u16>), InvalidAmqpUrl> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(InvalidAmqpUrl::new("an IPv6 address ends with ]"))?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').unwrap_or("")) })
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0)).map(|port: Option<u16>| {
        port.ok_or(InvalidAmqpUrl::new(
            "the port is a number from 1 to 65535 (in a password, write : / @ and ? as %XX)",
        ))
    });
    Ok((host, port.transpose()?))
}
