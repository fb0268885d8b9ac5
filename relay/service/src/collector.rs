//! Where spans go. A relay that is built without OpenTelemetry knows the settings, and says how to build one that can follow them.

/// An OpenTelemetry collector that takes a span for each sampled event.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Where it listens.
    pub endpoint: OtlpEndpoint,
    /// Headers that it asks for, such as a key.
    pub headers: Option<OtlpHeaders>,
    /// `service.name` of the spans.
    pub service_name: String,
}

#[cfg(feature = "otel")]
pub use otlp_exporter::{Endpoint as OtlpEndpoint, Headers as OtlpHeaders};

#[cfg(not(feature = "otel"))]
pub use self::without::{OtlpEndpoint, OtlpHeaders};

#[cfg(not(feature = "otel"))]
mod without {
    use std::{fmt, str::FromStr};

    /// This relay has no OpenTelemetry.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "this relay was built without OpenTelemetry: leave it out, or build with \
         cargo build --release --package outbox-relay --features otel"
    )]
    pub struct NotBuilt;

    macro_rules! none {
        ($($name:ident)+) => {
            $(
                /// There is none.
                #[derive(Clone, Debug, PartialEq, Eq)]
                pub enum $name {}

                impl FromStr for $name {
                    type Err = NotBuilt;

                    fn from_str(_: &str) -> Result<Self, NotBuilt> {
                        Err(NotBuilt)
                    }
                }

                impl fmt::Display for $name {
                    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                        match *self {}
                    }
                }
            )+
        };
    }

    none!(OtlpEndpoint OtlpHeaders);
}
