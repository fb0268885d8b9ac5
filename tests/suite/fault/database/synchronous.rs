//! Synchronous replication with a standby that does not answer: a commit is streamed long before others can see it, for
//! PostgreSQL streams what is on its own disk, and shows what is on the standby's, too.

use std::time::Duration;

use harness::{Connection, Database, Postgres, RabbitMq, Relay, RelayBuilder, SOON, Stack, eventually};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Load, check, emit, lost_sessions, number, relay, relay_role, run, wait_until};

/// The harness's own sessions wait for no standby; `waiting` ones do, as the default is.
async fn primary() -> Postgres {
    Postgres::private().set("synchronous_commit", "local").start().await
}

fn waiting(url: &str) -> String {
    format!("{url}?options=-c%20synchronous_commit%3Don")
}

/// Whom commits wait for from now on.
async fn commits_wait_for(db: &Database, standby: &str) {
    run(db, &format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'")).await;
    run(db, "SELECT pg_reload_conf()").await;
    wait_until(db, "the setting is read", &format!("current_setting('synchronous_standby_names') = '{standby}'")).await;
    // Commits wait only once the checkpointer has read it, too, which no view shows.
    if standby == "nobody" {
        eventually("commits wait", SOON, async || a_commit_waits(db).await).await;
    }
}

/// Has a commit wait for its standby, and ends its wait. An error is that it did not wait.
async fn a_commit_waits(db: &Database) -> Result<(), &'static str> {
    let client = Connection::open(&waiting(db.url())).await;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let emit = "SELECT pg_logical_emit_message(true, 'a commit', '')";
    let commit = tokio::spawn(async move { client.batch_execute(emit).await });
    let waits = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'");
    let waiting = eventually("a commit waits or has ended", SOON, async || match number(db, &waits).await {
        0 if !commit.is_finished() => Err("neither"),
        waiting => Ok(waiting),
    })
    .await;
    run(db, &format!("SELECT pg_cancel_backend({pid})")).await;
    commit.await.unwrap().unwrap();
    if waiting == 1 { Ok(()) } else { Err("the commit has ended") }
}

/// A user of the broker's that can be taken away.
struct BrokerUser<'s> {
    stack: &'s Stack,
    name: String,
}

impl<'s> BrokerUser<'s> {
    async fn new(stack: &'s Stack) -> Self {
        let user = Self { stack, name: format!("user_{}", stack.db.name()) };
        user.make().await;
        user
    }

    async fn make(&self) {
        self.stack.vhost.user(&self.name, "secret", ".*", ".*", ".*").await;
    }

    async fn delete(&self) {
        self.stack.vhost.api("DELETE", &format!("/api/users/{}", self.name), None).await;
    }

    /// A relay that publishes as this user.
    fn relay(&self) -> RelayBuilder {
        let relay = relay(self.stack).set("amqp-url", &self.stack.vhost.url_as(&self.name, "secret"));
        relay.set("park-after", "0s")
    }

    /// Has a commit wait for its standby that the relay has read. Without a user the relay is parked: the stream is
    /// read and acknowledged, and its events left to the table.
    async fn commit_left_to_the_table(&self, relay: &Relay, key: &str) -> JoinHandle<Uuid> {
        let mark = relay.mark();
        self.delete().await;
        relay.wait_for_log_after(mark, "parked").await;
        commits_wait_for(&self.stack.db, "nobody").await;
        let commit = commit_and_wait(self.stack, key, 1).await;
        relay_has_read_all(self.stack).await;
        commit
    }
}

/// A client that commits an event and waits for the standby; returns when it does.
async fn commit_and_wait(stack: &Stack, key: &str, n: i64) -> JoinHandle<Uuid> {
    let client = Connection::open(&waiting(stack.db.url())).await;
    let key = key.to_owned();
    let commit = tokio::spawn(async move { emit(&client, &key, n).await });
    let waits = "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%outbox.emit%'
                         AND datname = current_database())";
    wait_until(&stack.db, "the commit waits for its standby", waits).await;
    commit
}

#[tokio::test]
async fn a_commit_that_waits_for_its_standby_gets_its_verdict_once_it_can_be_seen_and_holds_nobody_up() {
    let postgres = primary().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    // The relay's own commits would wait as well, if it let them.
    let role = relay_role(&stack.db).await;
    run(&stack.db, &format!("ALTER ROLE {role} SET synchronous_commit = on")).await;
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let mut committed = Vec::new();
    for n in 0..3 {
        let key = |key: &str| format!("{key} {n}");
        commits_wait_for(&stack.db, "nobody").await;
        let before = consumer.count();
        let commit = commit_and_wait(&stack, &key("waits"), 1).await;
        consumer.wait_for(before + 1).await;
        for n in 0..50 {
            committed.push(emit(&stack.db, &key("does not wait"), n).await);
        }
        // The broker has confirmed the one that waits, so the next of its key may leave, and gets its verdict before
        // it.
        committed.push(emit(&stack.db, &key("waits"), 2).await);
        let of_key = format!("SELECT count(*) FROM outbox.events WHERE aggregate_id = '{}'", key("waits"));
        let sent = "SELECT count(*) FROM outbox.events WHERE aggregate_id LIKE 'does not wait%' AND status = 'SENT'";
        let all = format!("({sent}) = {} AND ({of_key} AND status = 'SENT') = 1", 50 * (n + 1));
        wait_until(&stack.db, "verdicts wait for no standby", &all).await;
        assert_eq!(number(&stack.db, &format!("({of_key})")).await, 1, "the one that waits cannot be seen");
        commits_wait_for(&stack.db, "").await;
        committed.push(commit.await.unwrap());
        check(&stack.db, &consumer, &committed, 0).await;
    }
    assert_eq!(lost_sessions(&relay), 0);
}

#[tokio::test]
async fn what_commits_after_a_waiting_commit_has_become_visible_does_not_overtake_it() {
    let postgres = primary().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let user = BrokerUser::new(&stack).await;
    let relay = user.relay().start().await;
    let mut committed = Vec::new();
    for round in 0..3 {
        let key = format!("key {round}");
        let commit = user.commit_left_to_the_table(&relay, &key).await;

        let mark = relay.mark();
        user.make().await;
        relay.wait_for_log_after(mark, "connected to the broker").await;
        // What the standby's absence lasts is time: the relay looks for the commit ever less often.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        commits_wait_for(&stack.db, "").await;
        committed.push(commit.await.unwrap());
        committed.push(emit(&stack.db, &key, 2).await);
        relay.wait_for_log_after(mark, "streaming").await;
    }
    // A broker that went away may have had something in flight, but here nothing was.
    check(&stack.db, &consumer, &committed, 0).await;
    drop(relay);
    user.delete().await;
}

#[tokio::test]
async fn a_waiting_commit_that_only_a_killed_relay_had_read_is_not_overtaken() {
    let postgres = primary().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let user = BrokerUser::new(&stack).await;
    let mut relay = user.relay().start().await;
    let mut committed = Vec::new();
    for round in 0..3 {
        let key = format!("key {round}");
        let commit = user.commit_left_to_the_table(&relay, &key).await;
        relay.kill().await;

        // The next one's first pass cannot see the commit yet.
        user.make().await;
        relay = user.relay().start().await;
        relay.wait_for_log("streaming").await;
        commits_wait_for(&stack.db, "").await;
        committed.push(commit.await.unwrap());
        committed.push(emit(&stack.db, &key, 2).await);
        consumer.wait_for(committed.len()).await;
    }
    check(&stack.db, &consumer, &committed, 0).await;
    drop(relay);
    user.delete().await;
}

#[tokio::test]
async fn a_waiting_commit_in_a_long_wal_that_a_relay_begins_behind_is_not_overtaken() {
    let postgres = primary().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let begins = async || relay(&stack).set("check-interval", "1h").start().await;
    let relay = begins().await;
    relay.wait_for_log("streaming").await;
    relay.stop().await;
    // More than a relay streams, without a transaction: the commit has the highest id that there is.
    run(&stack.db, "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 40000000))").await;
    commits_wait_for(&stack.db, "nobody").await;
    let commit = commit_and_wait(&stack, "key", 1).await;
    let relay = begins().await;
    relay.wait_for_log("connected to the broker").await;
    relay.wait_for_log("streaming").await;
    commits_wait_for(&stack.db, "").await;
    let mut committed = vec![commit.await.unwrap()];
    committed.push(emit(&stack.db, "key", 2).await);
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}

/// Waits until the relay was sent all there is, and has told the server of its position three times since.
async fn relay_has_read_all(stack: &Stack) {
    let lsn: String = stack.db.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
    let sent = format!("EXISTS (SELECT FROM pg_stat_replication WHERE sent_lsn >= '{lsn}')");
    wait_until(&stack.db, "the relay was sent it", &sent).await;
    let since: String = stack.db.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0);
    let replied =
        format!("EXISTS (SELECT FROM pg_stat_replication WHERE reply_time > '{since}'::timestamptz + '300ms')");
    wait_until(&stack.db, "the relay has replied", &replied).await;
}

#[tokio::test]
async fn a_synchronous_standby_that_is_frozen_again_and_again_under_load_costs_nothing_but_time() {
    let postgres = primary().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let standby = postgres.standby().await;
    commits_wait_for(&stack.db, "standby").await;
    let consumer = stack.consumer("#").await;
    let role = relay_role(&stack.db).await;
    run(&stack.db, &format!("ALTER ROLE {role} SET synchronous_commit = on")).await;
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let load = Load::start(&waiting(stack.db.url()));
    for _ in 0..3 {
        load.goes_on(200).await;
        standby.pause();
        let waits = "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')";
        wait_until(&stack.db, "commits wait", waits).await;
        // What the fault lasts is time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        standby.resume();
    }
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}
