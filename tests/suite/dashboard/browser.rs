//! The page in a real browser.

use harness::{Browser, Postgres, SOON, eventually};
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::{Dashboard, OPERATOR, READER, Tokens, some_failures};
use crate::not_run::not_run_outside_ci;

/// A browser; or none, where there is no Chromium: scripts/not-run then says so, and CI fails.
pub(super) async fn browser() -> Option<Browser> {
    if Browser::program().is_some() {
        return Some(Browser::start().await);
    }
    not_run_outside_ci("dashboard", "there is no /usr/bin/chromium");
    None
}

impl Dashboard {
    /// Opens a page, and signs in if it asks for that.
    pub(super) async fn open(&self, browser: &Browser, page: &str, token: Option<&str>) {
        browser.open(&self.url("")).await;
        if let Some(token) = token {
            browser.wait_for("Boolean(document.querySelector('#signin, input[name=token]'))").await;
            if browser.value("Boolean(document.querySelector('#signin'))").await == true {
                browser.click("Sign in").await;
            }
            browser.fill("input[name=token]", token).await;
            browser.press("Enter").await;
            browser.wait_for("Boolean(document.querySelector('#signout'))").await;
        }
        browser.value(&format!("void (location.hash = '#/{page}')")).await;
        browser.wait_for("Boolean(document.querySelector('main h1'))").await;
    }
}

#[tokio::test]
async fn the_first_page_says_in_words_whether_events_flow() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    dashboard.open(&browser, "", None).await;
    browser.sees(".answer", "Events flow.").await;
    browser.sees(".detail", "streaming").await;
    let (postgres, rabbitmq) = (Postgres::shared().await.port(), dashboard.stack.vhost.port());
    browser.sees(".detail", &format!("PostgreSQL at 127.0.0.1:{postgres}")).await;
    browser.sees(".detail", &format!("RabbitMQ at 127.0.0.1:{rabbitmq}")).await;
    browser.wait_for("document.querySelectorAll('.plot canvas').length === 4").await;
    some_failures(&dashboard.stack.db).await;
    browser.sees(".answer", "Events flow, but 4 failed.").await;
    dashboard.relay.kill().await;
    browser.sees(".answer", "This page has lost its relay.").await;
    browser.sees("#pause", "Not connected").await;
    let others: Vec<String> = browser.complaints().into_iter().filter(|said| !said.contains("ERR_")).collect();
    assert_eq!(others, [""; 0], "it complains of the lost connection and of nothing else");
}

#[tokio::test]
async fn a_page_that_is_left_before_it_is_there_leaves_nothing_behind() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    dashboard.open(&browser, "", None).await;
    // A slow network, and answers that come all the same: by then their page was left.
    let hurried = "(async () => {
        const ask = window.fetch;
        window.fetch = async (address, options) => {
            const response = await ask(address, { ...options, signal: undefined });
            const read = response.json.bind(response);
            response.json = async () => {
                const body = await read();
                await new Promise((done) => setTimeout(done, 30));
                return body;
            };
            return response;
        };
        for (let turn = 0; turn < 60; turn += 1) {
            location.hash = ['#/', '#/events', '#/failed', '#/keys'][turn % 4];
            await new Promise((done) => setTimeout(done, turn % 7));
        }
        location.hash = '#/';
    })()";
    browser.value(hurried).await;
    browser.sees(".answer", "Events flow.").await;
    let before = browser.text(".detail").await; // it says for how long
    browser.wait_for(&format!("document.querySelector('.detail').innerText !== {}", serde_json::json!(before))).await;
    browser.wait_for("document.querySelectorAll('.plot canvas').length === 4").await;
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn figures_and_charts_move_while_events_flow() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    let consumer = dashboard.stack.consumer("load").await;
    dashboard.open(&browser, "", None).await;
    let other = dashboard.stack.db.connect().await;
    let (seen, mut has_seen) = oneshot::channel::<()>();
    let load = tokio::spawn(async move {
        let mut emitted = 0;
        // Some 4,000 a second, until the page has shown it, however quick the machine is.
        while has_seen.try_recv().is_err_and(|told| told == TryRecvError::Empty) {
            let sql =
                "SELECT outbox.emit('load', to_jsonb(n)) FROM generate_series(1, 100) AS n; SELECT pg_sleep(0.02)";
            other.batch_execute(sql).await.unwrap();
            emitted += 100;
        }
        emitted
    });
    browser.wait_for("Number(document.querySelector('.tile strong').innerText.replaceAll(',', '')) > 100").await;
    browser.wait_for("[...document.querySelectorAll('.tile')].some((tile) => /Latency/.test(tile.innerText) && /ms|µs|s$/.test(tile.innerText))").await;
    seen.send(()).unwrap();
    let emitted: i64 = load.await.unwrap();
    // Paused, nothing moves; the relay goes on.
    browser.press("p").await;
    browser.wait_for("document.querySelector('#pause').innerText === 'Paused'").await;
    let before = browser.text(".tiles").await;
    dashboard.stack.db.batch_execute("SELECT outbox.emit('load', '{}') FROM generate_series(1, 1000)").await.unwrap();
    eventually("all are sent", 4 * SOON, async || {
        let sql = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";
        match dashboard.stack.db.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) {
            sent if sent == emitted + 1000 => Ok(()),
            sent => Err(sent),
        }
    })
    .await;
    assert_eq!(browser.text(".tiles").await, before);
    browser.press("p").await;
    browser.wait_for(&format!("document.querySelector('.tiles').innerText !== {}", serde_json::json!(before))).await;
    assert_eq!(browser.complaints(), [""; 0]);
    drop(consumer);
}

#[tokio::test]
async fn events_are_found_by_filter_and_one_shows_its_life() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    some_failures(&dashboard.stack.db).await;
    let emit = "SELECT outbox.emit('other', '{}', available_at => now() + interval '1 hour', correlation_id => 'request-' || n) FROM generate_series(1, 60) AS n";
    dashboard.stack.db.batch_execute(emit).await.unwrap();
    dashboard.open(&browser, "events", None).await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 50").await;
    browser.click("Show more").await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 64").await;
    browser.sees(".foot", "That is all.").await;
    browser.press("/").await;
    browser.fill("input[name=topic]", "orders.created").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 4").await;
    browser.fill("input[name=aggregate_id]", "2").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1").await;
    browser.click("Clear").await;
    browser.click("scheduled").await;
    browser.fill("input[name=correlation_id]", "request-7").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1").await;
    browser.value("document.querySelector('tbody a').click()").await;
    browser.sees(".life", "emitted").await;
    browser.sees("main", "request-7").await;
    browser.sees("main", "Payload and headers are shown to operators only.").await;
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn a_page_whose_relay_hangs_says_that_it_is_not_connected_until_it_hears_of_it_again() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    dashboard.open(&browser, "", None).await;
    browser.sees("#pause", "Live").await;
    dashboard.relay.pause();
    browser.sees("#pause", "Not connected").await;
    browser.sees(".answer", "This page has lost its relay.").await;
    dashboard.relay.resume();
    browser.sees("#pause", "Live").await;
    browser.sees(".answer", "Events flow").await;
}

#[tokio::test]
async fn an_address_that_nobody_meant_and_an_event_from_the_future_are_shown_in_words() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::None).await;
    for address in ["events/%", "events/%E0%A4%A", "events/x/y", "%/%"] {
        dashboard.open(&browser, address, None).await;
        browser.wait_for("(document.querySelector('main')?.innerText ?? '').length > 20").await;
        let shown = browser.text("main").await;
        assert!(!shown.contains("URI") && !shown.contains("Error"), "{address}: {shown}");
    }
    let later = "INSERT INTO outbox.events (topic, payload, created_at, status, processed_at)
                 VALUES ('t', '{}', now() + interval '3 hours', 'SENT', now()) RETURNING id::text";
    let id: String = dashboard.stack.db.query_one(later, &[]).await.unwrap().get(0);
    dashboard.open(&browser, &format!("events/{id}"), None).await;
    browser.sees(".life", "By the database's clock its transaction began later.").await;
    let others: Vec<String> = browser.complaints().into_iter().filter(|said| !said.contains("400")).collect();
    assert_eq!(others, [""; 0]);
}

#[tokio::test]
async fn an_operator_replays_a_group_and_the_audit_has_the_name() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::Operators).await;
    let consumer = dashboard.stack.consumer("orders.*").await;
    some_failures(&dashboard.stack.db).await;
    dashboard.open(&browser, "failed", Some(OPERATOR)).await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2").await;
    browser.click("Replay").await;
    browser.sees("dialog", "3 events will be sent again").await;
    browser.click("Cancel").await;
    browser.click("Replay").await;
    browser.click("Replay 3 events").await;
    browser.sees("#notices", "3 events are pending again.").await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 1").await;
    let ids: Vec<uuid::Uuid> = {
        let replayed = "SELECT id FROM outbox.events WHERE last_error IS DISTINCT FROM 'nack'";
        dashboard.stack.db.query(replayed, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    consumer.wait_for_ids(&ids, SOON).await;
    browser.click("Audit").await;
    browser.sees("tbody tr", "Grace").await;
    browser.sees("tbody tr", "outbox-relay dashboard").await;
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn an_operator_releases_a_key_and_sees_a_payload() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::Both).await;
    let held = "BEGIN;
        SELECT outbox.emit('held', to_jsonb(n), aggregate_type => 'order', aggregate_id => 'k', available_at => now() + interval '1 hour') FROM generate_series(1, 2) AS n;
        SELECT outbox.settle(array_agg(id), '{FAILED}', '{nack}', '{}', '{true}') FROM outbox.events WHERE payload::text = '1';
        COMMIT";
    dashboard.stack.db.batch_execute(held).await.unwrap();
    dashboard.open(&browser, "keys", Some(OPERATOR)).await;
    browser.sees("tbody tr", "order / k").await;
    browser.click("event").await;
    browser.sees("main", "It holds its key").await;
    browser.click("Show payload and headers").await;
    browser.sees("#payload", "1").await;
    browser.click("Keys").await;
    browser.click("Release").await;
    browser.sees("dialog", "Its key is released: 0 later events will go on without it.").await;
    browser.click("Release 1 event").await;
    browser.sees("main", "No key is held.").await;
    let released = "SELECT concat_ws(' ', action, events, who) FROM outbox.audit";
    let row = dashboard.stack.db.query_one(released, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "release 1 Grace");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn a_reader_sees_no_buttons_to_act_and_is_refused_without_them() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start(Tokens::Both).await;
    some_failures(&dashboard.stack.db).await;
    dashboard.open(&browser, "failed", Some(READER)).await;
    browser.wait_for("document.querySelectorAll('tbody tr').length === 2").await;
    assert_eq!(browser.value("[...document.querySelectorAll('main button')].length").await, 0);
    let forged = "import('./api.js').then(({ post }) => post('act', { action: 'replay', events: 1, filter: { topic: 'orders.created', error: 'nack', status: 'FAILED' } }))
        .then(() => 'done', (error) => `${error.status} ${error.message}`)";
    assert_eq!(browser.value(forged).await, "403 That takes an operator's token.");
    browser.click("Sign out").await;
    browser.wait_for("Boolean(document.querySelector('input[name=token]'))").await;
    assert_eq!(browser.value("fetch('api/events').then((answer) => answer.status)").await, 401);
}

#[tokio::test]
async fn every_page_says_whose_events_it_shows_is_reached_by_a_key_and_fits_a_phone() {
    let Some(browser) = browser().await else { return };
    let dashboard = Dashboard::start_with(Tokens::None, |relay| relay.set("instance-name", "staging")).await;
    some_failures(&dashboard.stack.db).await;
    dashboard.open(&browser, "", None).await;
    browser.looks(375, 812, "dark").await;
    for (key, title) in
        [("2", "Events"), ("3", "Failed"), ("4", "Keys"), ("5", "Relays"), ("6", "Audit"), ("1", "Do events flow?")]
    {
        browser.press(key).await;
        browser.wait_for(&format!("document.querySelector('main h1')?.textContent === '{title}'")).await;
        browser.wait_for("!document.querySelector('main').innerText.includes('Looking…')").await;
        browser.sees("#where", dashboard.stack.db.name()).await;
        browser.sees("#where", "staging").await;
        browser.sees("#zone", "Times are in ").await;
        let widths = "[document.documentElement.scrollWidth, innerWidth]";
        let widths = browser.value(widths).await;
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "{title}: {widths}");
    }
    browser.looks(768, 1024, "light").await;
    browser.press("3").await;
    browser
        .wait_for("document.querySelector('.table')?.scrollWidth === document.querySelector('.table')?.clientWidth")
        .await;
    browser.press("?").await;
    browser.sees("dialog", "pause or go on").await;
    let unnamed = "[...document.querySelectorAll('button, a, input')].filter((e) => !(e.innerText || e.ariaLabel || e.labels?.length || e.title)).length";
    assert_eq!(browser.value(unnamed).await, 0, "everything that can be used has a name");
    assert_eq!(browser.complaints(), [""; 0]);
}
