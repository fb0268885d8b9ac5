//! Pictures of the dashboard, for people to look at: `PICTURES=folder make test T=pictures`.

use std::path::PathBuf;

use harness::{Browser, SOON, eventually};

use super::{Dashboard, OPERATOR, Tokens};

#[tokio::test]
async fn pictures_are_taken_where_a_folder_is_named() {
    let Some(folder) = std::env::var_os("PICTURES").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&folder).unwrap();
    let dashboard = Dashboard::start_with(Tokens::Operators, |relay| {
        relay.set("after-failed", "hold").set("retry-base", "1h").set("retry-max", "1h")
    })
    .await;
    let db = &dashboard.stack.db;
    let consumer = dashboard.stack.consumer("orders.*").await;
    let nobody = "SELECT outbox.emit('invoices.issued', jsonb_build_object('invoice', n, 'total', 19.9 * n), aggregate_type => 'invoice', aggregate_id => (1000 + n % 9)::text,
        event_type => 'InvoiceIssued', correlation_id => 'request-' || n) FROM generate_series(1, 23) AS n;
        SELECT outbox.emit('reminders.due', '{}', available_at => now() + interval '3 hours') FROM generate_series(1, 128);
        SELECT outbox.emit('parcels.left', '{}', aggregate_type => 'parcel', aggregate_id => n::text) FROM generate_series(1, 4) AS n";
    db.batch_execute(nobody).await.unwrap();
    let other = db.connect().await;
    let load = tokio::spawn(async move {
        for turn in 0..900_u32 {
            let events = 120 + (turn * 7919) % 90 + if turn % 200 > 150 { 140 } else { 0 };
            let emit = format!(
                "SELECT outbox.emit('orders.created', jsonb_build_object('order', n), aggregate_type => 'order', aggregate_id => n::text) FROM generate_series(1, {events}) AS n"
            );
            other.batch_execute(&emit).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await; // a picture of ten minutes' load needs some of it
        }
    });
    let browser = Browser::start().await;
    browser.looks(1280, 800, "light").await;
    dashboard.open(&browser, "", Some(OPERATOR)).await;
    load.await.unwrap();
    eventually("the failures are known", SOON, async || {
        if browser.text(".answer").await.contains("failed") { Ok(()) } else { Err(()) }
    })
    .await;
    let id: String = db
        .query_one("SELECT id::text FROM outbox.events WHERE status = 'FAILED' ORDER BY seq LIMIT 1", &[])
        .await
        .unwrap()
        .get(0);
    for (width, height) in [(1280, 860), (768, 1024), (375, 812)] {
        for scheme in ["light", "dark"] {
            browser.looks(width, height, scheme).await;
            for (name, page) in [
                ("overview", ""),
                ("events", "events"),
                ("event", &*format!("events/{id}")),
                ("failed", "failed"),
                ("keys", "keys"),
                ("relays", "relays"),
                ("audit", "audit"),
            ] {
                browser.value(&format!("void (location.hash = '#/{page}')")).await;
                browser.wait_for(&format!("document.querySelector('main').dataset.shown === '#/{page}'")).await;
                browser.picture(&folder.join(format!("{name}-{width}-{scheme}.png"))).await;
            }
        }
    }
    drop(consumer);
}
