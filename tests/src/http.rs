//! As much of an HTTP client as RabbitMQ's management API needs, and the relay's pages.

use std::{net::Ipv4Addr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What a server has answered.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Asks for a page of this machine.
///
/// # Errors
/// The socket's error, or that there was no answer in 20 s.
pub async fn get(port: u16, path: &str) -> Result<Answer, String> {
    exchange(port, format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
        .await
        .map_err(|e| format!("GET {path}: {e}"))
}

async fn exchange(port: u16, request: String) -> Result<Answer, String> {
    let exchange = async {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        socket.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(Duration::from_secs(20), exchange)
        .await
        .map_err(|_| "no answer".to_owned())?
        .map_err(|e| e.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("no answer, but {answer:?}"))?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// Sends one request as user guest and returns the answer's JSON (`Null` for none). HTTP/1.0, so that the answer is not
/// chunked and ends with the connection.
///
/// # Errors
/// The socket's error, or a status other than 2xx with its text.
pub(crate) async fn request(port: u16, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = exchange(port, format!("{head}{body}")).await.map_err(|e| format!("{method} {path}: {e}"))?;
    match answer.status {
        200..300 => Ok(serde_json::from_str(&answer.body).unwrap_or(Value::Null)),
        _ => Err(format!("{method} {path}: {} {}", answer.head.lines().next().unwrap_or_default(), answer.body)),
    }
}
