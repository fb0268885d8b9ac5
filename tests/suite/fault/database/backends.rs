//! An administrator, or the kernel, ends the relay's sessions.

use harness::Stack;

use super::{Load, REPEATED, check, lost_sessions, relay, terminate};

#[tokio::test]
async fn backends_of_the_relay_that_are_terminated_again_and_again_under_load_lose_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    let mut terminated = 0;
    for kinds in [&["client backend"][..], &["walsender"], &["client backend", "walsender"]].repeat(2) {
        load.goes_on(200).await;
        let mark = relay.mark();
        terminated += terminate(&stack.db, kinds).await;
        relay.wait_for_log_after(mark, "streaming").await;
    }
    assert_eq!(terminated, 8, "each round has met what it was to end");
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
}
