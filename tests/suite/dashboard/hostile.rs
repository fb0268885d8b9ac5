//! What an application puts into an event is shown as text, and does nothing else.

use serde_json::json;

use super::{Dashboard, OPERATOR, Tokens, browser::browser};

/// Runs wherever it is taken for HTML, in an attribute, in a script, in a style or as an address.
const HOSTILE: &str =
    "\"'><img src=x onerror=alert(1)><script>alert(1)</script>javascript:alert(1)//{{7*7}}${alert(1)}\u{202e}</style>";

#[tokio::test]
async fn no_field_of_an_event_is_taken_for_anything_but_text() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::Operators).await;
    let db = &dashboard.stack.db;
    let emit = "SELECT outbox.emit($1, jsonb_build_object($1::text, $1::text), event_type => $1, aggregate_type => $1, aggregate_id => $1 || n,
        headers => jsonb_build_object($1::text, $1::text), correlation_id => $1, exchange => $1, available_at => now() + interval '1 hour')
        FROM generate_series(1, 2) AS n";
    db.execute(
        "SELECT set_config('application_name', $1, false), set_config('outbox.operator', $1, false)",
        &[&HOSTILE],
    )
    .await
    .unwrap();
    db.execute(emit, &[&HOSTILE]).await.unwrap();
    let failed =
        "SELECT outbox.settle(array_agg(id), '{FAILED,FAILED}', ARRAY[$1, $1], '{}', '{true,true}') FROM outbox.events";
    db.execute(failed, &[&HOSTILE]).await.unwrap();
    let id: String = db.query_one("SELECT id::text FROM outbox.events ORDER BY seq LIMIT 1", &[]).await.unwrap().get(0);
    db.execute("SELECT outbox.release($1::text::uuid)", &[&id]).await.unwrap();

    dashboard.open(&browser, "", Some(OPERATOR)).await;
    browser.value("window.alert = () => { window.ran = true; }; undefined").await;
    let seen = HOSTILE.replace('\u{202e}', "\\u{202e}");
    for page in ["events", "events?status=failed", &format!("events/{id}"), "failed", "keys", "relays", "audit", ""] {
        browser.value(&format!("void (location.hash = '#/{page}')")).await;
        browser.wait_for("Boolean(document.querySelector('main h1')) && !document.querySelector('main').innerText.includes('Looking…')").await;
        if page.starts_with("events/") {
            browser.click("Show payload and headers").await;
            browser.wait_for("document.querySelectorAll('pre').length === 2").await;
        }
        if !["", "relays"].contains(&page) {
            browser.wait_for(&format!("document.querySelector('main').textContent.includes({})", json!(seen))).await;
        }
        let made = "document.querySelectorAll('main img, main script, main iframe, [onerror]').length";
        assert_eq!(browser.value(made).await, 0, "{page}");
    }
    // The fields of the form, and the address itself.
    browser.value(&format!("void (location.hash = '#/events?topic=' + encodeURIComponent({}))", json!(HOSTILE))).await;
    browser.wait_for(&format!("document.querySelector('input[name=topic]')?.value === {}", json!(HOSTILE))).await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2").await;
    browser.value(&format!("void (location.hash = '#/' + {})", json!(HOSTILE))).await;
    browser.wait_for("Boolean(document.querySelector('.answer'))").await;
    assert_eq!(browser.value("window.ran ?? false").await, false);
    assert_eq!(browser.complaints(), [""; 0], "not even the policy had to refuse anything");
}
