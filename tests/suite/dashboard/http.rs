//! What the dashboard's server answers, and to whom.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Dashboard, OPERATOR, Tokens, some_failures};

/// An answer: status, headers by lower-case name, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Dashboard {
    /// Sends one request with these headers and no others but `Host` and the body's.
    pub(super) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
        ask(self.port, method, path, headers, body).await
    }

    /// As somebody with this token.
    pub(super) async fn ask_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.ask(method, path, &[("authorization", &format!("Bearer {token}"))], body).await
    }
}

/// Sends one request to the dashboard on this port.
pub(crate) async fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.0\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head += &format!("host: 127.0.0.1:{port}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    if !body.is_empty() {
        head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    let exchange = async {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), exchange).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

#[tokio::test]
async fn every_answer_of_the_dashboard_forbids_inline_scripts_frames_and_other_sites() {
    let dashboard = Dashboard::start(Tokens::None).await;
    for (path, status) in [
        ("/", 200),
        ("/main.js", 200),
        ("/api/session", 200),
        ("/api/events/no-uuid", 400),
        ("/api/events?status=x", 400),
    ] {
        let answer = dashboard.ask("GET", path, &[], None).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let policy = &answer.headers["content-security-policy"];
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let tag = dashboard.ask("GET", "/main.js", &[], None).await.headers["etag"].clone();
    assert_eq!(dashboard.ask("GET", "/main.js", &[("if-none-match", &tag)], None).await.status, 304);
}

#[tokio::test]
async fn a_name_that_is_not_this_relays_is_refused() {
    let dashboard =
        Dashboard::start_with(Tokens::None, |relay| relay.set("dashboard-hosts", "outbox.example, other.example"))
            .await;
    for host in ["localhost", "outbox.example:8443", "OTHER.example"] {
        assert_eq!(dashboard.ask("GET", "/api/events", &[("host", host)], None).await.status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "example",
        "[::1].evil.example",
        "localhost:abc",
        "localhost, example",
    ] {
        for path in ["/", "/api/events", "/api/session"] {
            let answer = dashboard.ask("GET", path, &[("host", host)], None).await;
            assert_eq!(answer.status, 421, "{host}: {answer:?}");
            assert!(answer.body.contains("dashboard_hosts"));
        }
    }
    let twice = [("host", "localhost"), ("host", "localhost")];
    assert_eq!(dashboard.ask("GET", "/api/events", &twice, None).await.status, 421, "two names");
    let other = dashboard.ask("GET", "http://evil.example/api/events", &[("host", "localhost")], None).await;
    assert_eq!(other.status, 421, "another name before the path");
}

#[tokio::test]
async fn a_group_is_replayed_as_previewed_whatever_its_error_has_in_it() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    some_failures(&dashboard.stack.db).await;
    let filter = json!({ "topic": "orders.created", "error": "312 NO_ROUTE 100%_sure", "status": "FAILED" });
    let mut body = json!({ "action": "replay", "filter": filter });
    let preview = dashboard.ask_as(OPERATOR, "POST", "/api/preview", Some(&body)).await.json();
    assert_eq!(preview["events"], 3);
    assert_eq!(dashboard.ask_as(OPERATOR, "POST", "/api/act", Some(&body)).await.status, 400, "without the count");
    body["events"] = json!(2);
    assert_eq!(
        dashboard.ask_as(OPERATOR, "POST", "/api/act", Some(&body)).await.json()["events"],
        2,
        "no more than was counted"
    );
    body["filter"]["error"] = json!("312 NO_ROUTE 100__sure");
    assert_eq!(dashboard.ask_as(OPERATOR, "POST", "/api/preview", Some(&body)).await.json()["events"], 0);
}

#[tokio::test]
async fn below_a_path_everything_is_below_it() {
    let dashboard = Dashboard::start_with(Tokens::None, |relay| relay.set("dashboard-path", "/ops/outbox")).await;
    for path in ["/ops/outbox/", "/ops/outbox/main.js", "/ops/outbox/api/events"] {
        assert_eq!(dashboard.ask("GET", path, &[], None).await.status, 200, "{path}");
    }
    let bare = dashboard.ask("GET", "/ops/outbox", &[], None).await;
    assert_eq!((bare.status, &*bare.headers["location"]), (308, "outbox/"));
    for path in ["/main.js", "/api/events"] {
        assert_eq!(dashboard.ask("GET", path, &[], None).await.status, 404, "{path}");
    }
    assert_eq!(dashboard.ask("GET", "/metrics", &[], None).await.status, 200);
}

#[tokio::test]
async fn what_nobody_means_is_refused_and_harms_nothing() {
    let dashboard = Dashboard::start(Tokens::Operators).await;
    for (path, status) in [
        ("/api/events?status=pending&cursor=x", 400),
        ("/api/events?cursor=';DROP%20TABLE%20outbox.events", 400),
        ("/api/events?status=retrying&cursor=2026", 400),
        ("/api/events?from=now", 400),
        ("/api/events?topic=%00", 400),
        ("/api/events/00000000-0000-0000-0000-000000000000", 404),
        ("/api/events/..%2f..%2fetc", 400),
        ("/etc/passwd", 404),
    ] {
        let answer = dashboard.ask("GET", path, &[], None).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let large = json!({ "token": "x".repeat(1 << 20) });
    assert_eq!(
        dashboard.ask("POST", "/api/session", &[("sec-fetch-site", "same-origin")], Some(&large)).await.status,
        413
    );
    assert_eq!(dashboard.ask("GET", "/api/events", &[], None).await.status, 200);
}
