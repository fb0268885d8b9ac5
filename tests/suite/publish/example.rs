//! The crate's example does what it says.

#[allow(dead_code)] // its `main`
#[path = "../../../relay/amqp/examples/publish.rs"]
mod publish;

use harness::RabbitMq;

#[tokio::test]
async fn the_example_prints_what_became_of_each_message() {
    let vhost = RabbitMq::shared().await.vhost().await;
    let consumer = vhost.consumer("amq.topic", "greetings.#").start().await;
    let texts = ["hello".to_owned(), "world".to_owned()];
    let mut lines = Vec::new();
    for key in ["greetings.all", "nobody"] {
        let url = vhost.url().parse().unwrap();
        publish::publish(url, key, &texts, |line| lines.push(line)).await.unwrap();
    }
    let returned = "Returned { code: 312, text: \"NO_ROUTE\" }";
    let expected = ["hello: Acked", "world: Acked", &format!("hello: {returned}"), &format!("world: {returned}")];
    assert_eq!(lines, expected);
    let bodies: Vec<_> = consumer.wait_for(2).await.into_iter().map(|delivery| delivery.body).collect();
    assert_eq!(bodies, [b"hello", b"world"]);
}
