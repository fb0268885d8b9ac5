//! What follows the `?`.

use std::time::Duration;

use super::{AmqpUrl, InvalidAmqpUrl, Mechanism};

impl AmqpUrl {
    /// Sets one parameter; `value` is decoded.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), InvalidAmqpUrl> {
        let number = |reason| value.parse::<u32>().map_err(|_| InvalidAmqpUrl(reason));
        match name {
            "heartbeat" => {
                let reason = "heartbeat is a number of seconds from 0 to 65535";
                self.heartbeat = Some(u16::try_from(number(reason)?).map_err(|_| InvalidAmqpUrl(reason))?);
            }
            "connection_timeout" => {
                let millis = number("connection_timeout is a number of milliseconds")?;
                self.connection_timeout = Some(Duration::from_millis(millis.into()));
            }
            "frame_max" => self.frame_max = Some(number("frame_max is a number of bytes")?),
            "channel_max" => drop(number("channel_max is a number")?), // the relay opens one
            "auth_mechanism" => {
                self.mechanism = match value.to_ascii_lowercase().as_str() {
                    "plain" => Mechanism::Plain,
                    "external" => Mechanism::External,
                    _ => return Err(InvalidAmqpUrl("auth_mechanism is plain or external")),
                }
            }
            _ => self.set_tls(name, value)?,
        }
        Ok(())
    }

    fn set_tls(&mut self, name: &str, value: String) -> Result<(), InvalidAmqpUrl> {
        let unknown = InvalidAmqpUrl(
            "unknown parameter; known are heartbeat, connection_timeout, frame_max, channel_max, auth_mechanism, and \
             with amqps cacertfile, certfile, keyfile, verify, server_name_indication \
             (in a user, password or vhost, write special characters as %XX)",
        );
        let Some(tls) = &mut self.tls else { return Err(unknown) };
        match name {
            "cacertfile" => tls.ca = Some(value.into()),
            "certfile" => tls.certificate = Some(value.into()),
            "keyfile" => tls.key = Some(value.into()),
            "server_name_indication" => tls.server_name = Some(value),
            "verify" if value == "verify_peer" => {}
            "verify" => {
                return Err(InvalidAmqpUrl(
                    "verify must be verify_peer: without it TLS proves nothing; trust a private authority with cacertfile",
                ));
            }
            _ => return Err(unknown),
        }
        Ok(())
    }
}
