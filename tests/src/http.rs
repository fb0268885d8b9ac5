//! As much of an HTTP client as RabbitMQ's management API needs.

use std::{net::Ipv4Addr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends one request as user guest and returns the answer's JSON (`Null` for none). HTTP/1.0, so that the answer is not
/// chunked and ends with the connection.
///
/// # Errors
/// The socket's error, or a status other than 2xx with its text.
pub(crate) async fn request(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
    let exchange = async {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), exchange)
        .await
        .map_err(|_| format!("{method} {path}: no answer"))?
        .map_err(|e| format!("{method} {path}: {e}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(serde_json::from_str(body).unwrap_or(Value::Null)),
        _ => Err(format!("{method} {path}: {} {body}", head.lines().next().unwrap_or("no answer"))),
    }
}
