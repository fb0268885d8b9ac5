//! The crate's example does what it says.

#[allow(dead_code)] // its `main`
#[path = "../../../relay/replication/examples/follow.rs"]
mod follow;

use harness::SOON;
use tokio::{select, sync::mpsc::channel, time::timeout};

use super::Source;

#[tokio::test]
async fn the_example_prints_every_row_and_acknowledges_it() {
    let source = Source::new().await;
    let server = source.db.url().parse().unwrap();
    let (sender, mut lines) = channel(10);
    let following = follow::follow(&server, source.name(), source.name(), |line| sender.try_send(line).unwrap());
    let before = source.confirmed().await;
    let check = async {
        source.insert(1..=2).await;
        for _ in 0..2 {
            let line = timeout(SOON, lines.recv()).await.unwrap().unwrap();
            assert_eq!(line, "t: [Binary(4 bytes), Binary(5 bytes)]");
        }
        harness::eventually("the rows are acknowledged", SOON, async || {
            let confirmed = source.confirmed().await;
            if confirmed > before { Ok(()) } else { Err(confirmed) }
        })
        .await;
    };
    select! {
        ended = following => panic!("{ended:?}"),
        () = check => {}
    }
}
