//! `outbox-servers`: private PostgreSQL (with the extension, if it is installed) and RabbitMQ to play with, until
//! Ctrl-C.

use std::future::pending;

use harness::{Postgres, RabbitMq, places};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if std::env::args().len() > 1 {
        eprintln!(
            "outbox-servers takes no arguments: it starts both servers, prints their addresses, and ends them at Ctrl-C"
        );
        std::process::exit(2);
    }
    let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), RabbitMq::private().start());
    let vhost = rabbitmq.vhost().await;
    let database =
        if places::extension_installed() { postgres.database().await } else { postgres.empty_database().await };

    println!("DATABASE_URL={}", database.url());
    println!("AMQP_URL={}", vhost.url());
    println!("RabbitMQ's web pages: http://127.0.0.1:{} (guest, guest)", rabbitmq.http_port());
    println!("Files: {}", postgres.socket_folder().parent().unwrap_or(places::checkout()).display());
    println!("Ctrl-C ends them.");
    pending::<()>().await;
}
