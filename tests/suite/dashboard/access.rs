//! Who is let in to the dashboard, and what they may do: tokens, cookies, roles.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use serde_json::{Value, json};

use super::{Dashboard, OPERATOR, READER, Tokens, some_failures};

impl Dashboard {
    /// Signs in as a browser does: the cookie, and what has to be repeated.
    async fn sign_in(&self, token: &str) -> (String, String) {
        let origin = [("sec-fetch-site", "same-origin")];
        let answer = self.ask("POST", "/api/session", &origin, Some(&json!({ "token": token }))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let set = &answer.headers["set-cookie"];
        assert!(set.contains("; HttpOnly; SameSite=Strict; Max-Age="), "{set}");
        let cookie = set.split(';').next().unwrap().to_owned();
        let session = self.ask("GET", "/api/session", &[("cookie", &cookie)], None).await.json();
        (cookie, session["csrf"].as_str().unwrap().to_owned())
    }
}

fn replay() -> Value {
    json!({ "action": "replay", "events": 1, "filter": { "topic": "orders.created", "error": "nack", "status": "FAILED" } })
}

#[tokio::test]
async fn the_log_says_where_wrong_tokens_come_from_without_a_line_for_each_and_good_ones_are_let_in_meanwhile() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    let body = json!({ "token": "somebody-elses-token" });
    let origin = ("sec-fetch-site", "same-origin");
    let headers = [origin, ("x-forwarded-for", "10.9.8.7")];
    let guesses = (0..20).map(|_| dashboard.ask("POST", "/api/session", &headers, Some(&body)));
    let token = format!("bearer {READER}");
    let good = [("authorization", &*token)];
    let (wrong, good) =
        tokio::join!(futures_util::future::join_all(guesses), dashboard.ask("GET", "/api/events", &good, None));
    assert!(wrong.iter().all(|answer| answer.status == 403), "{wrong:?}");
    assert_eq!(good.status, 200, "{good:?}");
    assert_eq!(dashboard.ask_as("somebody-elses-token", "GET", "/api/events", None).await.status, 401);
    let line = dashboard.relay.wait_for_log("with an unknown token").await;
    assert!(line.contains("peer=\"127.0.0.1:") && line.contains("forwarded_for=\"10.9.8.7\""), "{line}");
    assert_eq!(dashboard.relay.log_text().matches("with an unknown token").count(), 1);
}

#[tokio::test]
async fn one_who_signs_in_again_and_again_signs_out_nobody_else() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    let (operator, _) = dashboard.sign_in(OPERATOR).await;
    let (first, _) = dashboard.sign_in(READER).await;
    for _ in 0..19 {
        dashboard.sign_in(READER).await;
    }
    let events = async |cookie: &str| dashboard.ask("GET", "/api/events", &[("cookie", cookie)], None).await.status;
    assert_eq!(events(&first).await, 200);
    let (last, _) = dashboard.sign_in(READER).await;
    assert_eq!((events(&first).await, events(&last).await, events(&operator).await), (401, 200, 200));
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_only() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    for (scheme, is_secure) in [("https", true), ("HTTPS, http", true), ("http", false)] {
        let headers = [("sec-fetch-site", "same-origin"), ("x-forwarded-proto", scheme)];
        let answer = dashboard.ask("POST", "/api/session", &headers, Some(&json!({ "token": READER }))).await;
        assert_eq!(answer.headers["set-cookie"].ends_with("; Secure"), is_secure, "{scheme}: {answer:?}");
    }
}

#[tokio::test]
async fn tokens_and_names_that_let_in_the_wrong_ones_end_the_start() {
    let stack = harness::Stack::new().await;
    let folder = std::env::temp_dir().join(format!("{}-files", stack.db.name()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (twice, readers) =
        (file("twice", format!("ada {READER}\ngrace {READER}")), file("one", format!("ada {READER}")));
    let operators = file("other", format!("grace {READER}"));
    for (settings, why) in [
        (vec![("dashboard-readers", &*twice)], "ada and grace have the same token"),
        (vec![("dashboard-readers", &*readers), ("dashboard-operators", &*operators)], "have the same token"),
        (vec![("dashboard-hosts", "*")], "without scheme, port or wildcard"),
        (vec![("dashboard-hosts", "outbox.example another.example")], "without scheme, port or wildcard"),
    ] {
        let relay = stack.relay().set("http-listen", "0");
        let relay = settings.iter().fold(relay, |relay, (name, value)| relay.set(name, value));
        let (status, log) = relay.finish().await;
        assert!(status.code() == Some(2) && log.contains(why) && !log.contains(READER), "{settings:?}: {log}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn without_tokens_loopback_reads_and_nobody_acts() {
    let dashboard = Dashboard::start(Tokens::None).await;
    some_failures(&dashboard.stack.db).await;
    let session = dashboard.ask("GET", "/api/session", &[], None).await.json();
    assert_eq!((&session["role"], &session["can_act"]), (&json!("reader"), &json!(false)));
    let failures = dashboard.ask("GET", "/api/failures", &[], None).await.json();
    assert_eq!(failures["groups"][0]["failed"], 3);
    let answer = dashboard.ask("POST", "/api/act", &[("sec-fetch-site", "same-origin")], Some(&replay())).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    // A proxy on this machine also comes over loopback, for anybody.
    for header in [
        "x-forwarded-for",
        "forwarded",
        "via",
        "x-forwarded-host",
        "x-real-ip",
        "X-Forwarded-Proto",
        "x-forwarded-port",
        "CF-Connecting-IP",
        "True-Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "X-Azure-ClientIP",
        "X-Original-Forwarded-For",
        "X-Envoy-External-Address",
        "X-Remote-Addr",
        "Proxy-Client-IP",
        "CDN-Loop",
        "X-Amzn-Trace-Id",
    ] {
        assert_eq!(dashboard.ask("GET", "/api/events", &[(header, "10.0.0.1")], None).await.status, 401, "{header}");
    }
}

#[tokio::test]
async fn a_dashboard_that_can_let_nobody_in_says_so_at_its_start_and_to_whoever_asks_with_the_way_out() {
    let open = Dashboard::start_with(Tokens::None, |relay| relay.set("http-listen", "0.0.0.0:0")).await;
    let line = open.relay.wait_for_log("the dashboard lets nobody in").await;
    let answer = open.ask("GET", "/api/events", &[], None).await;
    let session = open.ask("GET", "/api/session", &[], None).await.json();
    assert_eq!((answer.status, &session["role"]), (401, &Value::Null));
    for said in [&*line, &*answer.body, session["closed"].as_str().unwrap()] {
        assert!(said.contains("dashboard_readers") && said.contains("http_listen"), "{said}");
    }
    let loopback = Dashboard::start(Tokens::None).await;
    assert!(!loopback.relay.log_text().contains("lets nobody in"));
    let forwarded = loopback.ask("GET", "/api/events", &[("via", "1.1 proxy")], None).await;
    assert!(forwarded.status == 401 && forwarded.body.contains("dashboard_readers"), "{forwarded:?}");
    let with_tokens = Dashboard::start_with(Tokens::Both, |relay| relay.set("http-listen", "0.0.0.0:0")).await;
    assert!(!with_tokens.relay.log_text().contains("lets nobody in"));
    assert_eq!(with_tokens.ask_as(READER, "GET", "/api/events", None).await.status, 200);
}

#[tokio::test]
async fn with_tokens_nobody_comes_in_without_one() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    for path in ["/api/events", "/api/failures", "/api/keys", "/api/relays", "/api/audit", "/api/history", "/api/live"]
    {
        assert_eq!(dashboard.ask("GET", path, &[], None).await.status, 401, "{path}");
        assert_eq!(dashboard.ask_as("somebody-elses-token", "GET", path, None).await.status, 401, "{path}");
        if path != "/api/live" {
            assert_eq!(dashboard.ask_as(READER, "GET", path, None).await.status, 200, "{path}");
        }
    }
    assert_eq!(dashboard.ask("GET", "/", &[], None).await.status, 200, "the page that asks for the token");
    let wrong = dashboard
        .ask("POST", "/api/session", &[("sec-fetch-site", "same-origin")], Some(&json!({ "token": "wrong" })))
        .await;
    assert_eq!(wrong.status, 403);
    assert!(!dashboard.relay.log_text().contains(READER));
}

#[tokio::test]
async fn only_an_operator_sees_payloads_and_acts() {
    let dashboard = Dashboard::start(Tokens::Both).await;
    some_failures(&dashboard.stack.db).await;
    let row = dashboard
        .stack
        .db
        .query_one("SELECT id::text FROM outbox.events WHERE payload::text = '4'", &[])
        .await
        .unwrap();
    let id: String = row.get(0);
    let contents = format!("/api/events/{id}/contents");
    for (method, path, body) in
        [("GET", &*contents, None), ("POST", "/api/preview", Some(replay())), ("POST", "/api/act", Some(replay()))]
    {
        let answer = dashboard.ask_as(READER, method, path, body.as_ref()).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]),
            (403, &json!("That takes an operator's token.")),
            "{path}"
        );
    }
    assert!(!dashboard.ask_as(READER, "GET", &format!("/api/events/{id}"), None).await.body.contains("payload"));
    assert_eq!(dashboard.ask_as(OPERATOR, "GET", &contents, None).await.json()["payload"], "4");
    let preview = dashboard.ask_as(OPERATOR, "POST", "/api/preview", Some(&replay())).await.json();
    let nothing_waits =
        json!({ "events": 1, "is_more": false, "sent": 0, "keys": 0, "waiting": 0, "waiting_is_more": false });
    assert_eq!(preview, nothing_waits);
    assert_eq!(dashboard.ask_as(OPERATOR, "POST", "/api/act", Some(&replay())).await.json(), json!({ "events": 1 }));
    let audit = dashboard.ask_as(READER, "GET", "/api/audit", None).await.json();
    assert_eq!(audit["rows"][0]["who"], "Grace");
    assert_eq!(
        audit["rows"][0]["filter"],
        json!({ "topic": "orders.created", "status": "FAILED", "error_like": "nack", "max_events": 1 })
    );
    assert_eq!(audit["rows"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_cookie_acts_only_with_the_pages_secret_and_from_the_page_itself() {
    let dashboard = Dashboard::start(Tokens::Operators).await;
    some_failures(&dashboard.stack.db).await;
    let (cookie, csrf) = dashboard.sign_in(OPERATOR).await;
    let same = ("sec-fetch-site", "same-origin");
    for headers in [
        vec![("cookie", &*cookie), same],
        vec![("cookie", &*cookie), same, ("x-outbox-csrf", "guessed")],
        vec![("cookie", &*cookie), ("sec-fetch-site", "cross-site"), ("x-outbox-csrf", &*csrf)],
        vec![("cookie", &*cookie), ("origin", "http://evil.example"), ("x-outbox-csrf", &*csrf)],
        vec![("cookie", &*cookie), ("x-outbox-csrf", &*csrf)],
    ] {
        assert_eq!(dashboard.ask("POST", "/api/act", &headers, Some(&replay())).await.status, 403, "{headers:?}");
    }
    let headers = [("cookie", &*cookie), same, ("x-outbox-csrf", &*csrf)];
    assert_eq!(dashboard.ask("POST", "/api/act", &headers, Some(&replay())).await.status, 200);
    assert_eq!(dashboard.ask("POST", "/api/session/end", &headers, Some(&json!({}))).await.status, 200);
    assert_eq!(dashboard.ask("POST", "/api/act", &headers, Some(&replay())).await.status, 403, "signed out");
}

#[tokio::test]
async fn an_action_whose_commit_waits_for_a_synchronous_standby_is_answered_and_the_next_operator_is_served() {
    let postgres = Postgres::without_its_standby().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let dashboard = Dashboard::start_on(stack, Tokens::Operators, |relay| relay).await;
    let db = &dashboard.stack.db;
    some_failures(db).await;
    let operators = format!("ALTER ROLE {}_operate SET synchronous_commit = on", db.name());
    db.batch_execute(&operators).await.unwrap();
    let act = dashboard.ask_as(OPERATOR, "POST", "/api/act", Some(&replay())).await;
    assert_eq!(act.status, 504, "{act:?}");
    assert!(act.body.contains("synchronous standby") && act.body.contains("look at the events"), "{act:?}");
    let preview = dashboard.ask_as(OPERATOR, "POST", "/api/preview", Some(&replay())).await;
    assert_eq!(preview.json()["events"], 1, "nobody sees it yet: {preview:?}");
    postgres.end_waiting_commits().await;
    eventually("it counts once nothing is waited for", SOON, async || {
        let preview = dashboard.ask_as(OPERATOR, "POST", "/api/preview", Some(&replay())).await.json();
        if preview["events"] == 0 { Ok(()) } else { Err(preview.to_string()) }
    })
    .await;
}
