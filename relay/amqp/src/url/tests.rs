use super::*;

fn parse(text: &str) -> AmqpUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn what_is_left_out_has_rabbitmqs_defaults() {
    let url = parse("amqp://");
    assert_eq!((url.host.as_str(), url.port, url.vhost.as_str()), ("localhost", 5672, "/"));
    assert_eq!((url.user.as_str(), url.password.as_str()), ("guest", "guest"));
    assert_eq!(parse("amqps://broker").port, 5671);
    assert_eq!(parse("amqp://broker/").vhost, "/");
    assert_eq!(parse("amqp://broker/%2F").vhost, "/");
}

#[test]
fn every_part_is_read_and_decoded() {
    let url = parse("amqps://a%40b:p%3Aw%2F@[::1]:99/orders%20x?heartbeat=7&connection_timeout=1500&cacertfile=/a%26b");
    assert_eq!((url.user.as_str(), url.password.as_str(), url.host.as_str(), url.port), ("a@b", "p:w/", "::1", 99));
    assert_eq!((url.vhost.as_str(), url.heartbeat), ("orders x", Some(7)));
    assert_eq!(url.connection_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(url.tls.as_ref().and_then(|tls| tls.ca.clone()), Some("/a&b".into()));
    assert_eq!(url.to_string(), "amqps://a%40b@[::1]:99/orders%20x");
}

#[test]
fn a_url_that_cannot_be_used_is_refused() {
    for text in [
        "",
        "broker:5672",
        "http://broker",
        "amqp://broker:0",
        "amqp://broker:70000",
        "amqp://[::1",
        "amqp://broker/%2",
        "amqp://broker/%ff",
        "amqp://broker?heartbeat=x",
        "amqp://broker?heartbeat=70000",
        "amqp://broker?frame_max=100",
        "amqp://broker?cacertfile=/ca.pem",
        "amqps://broker?verify=verify_none",
        "amqps://broker?certfile=/c.pem",
        "amqp://broker?unknown=1",
    ] {
        assert!(text.parse::<AmqpUrl>().is_err(), "{text}");
    }
}

#[test]
fn a_list_of_brokers_is_refused_and_none_of_it_shown() {
    for text in [
        "amqp://u:hunter2@a/%2f,amqp://guest:hunter2@b/%2f",
        "amqp://u:hunter2@a,amqp://guest:hunter2@b",
        "amqp://u:hunter2@a:5672,b:5672/%2f",
        "amqp://u:hunter2@a,b",
        "amqp://u:hunter2@a:5672,guest:hunter2@b:5672/v",
        "amqp://a,b",
        "amqp://a/?heartbeat=1,amqp://guest:hunter2@b/",
    ] {
        let error = text.parse::<AmqpUrl>().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("one broker"), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    assert_eq!(parse("amqp://u:p%2Cw@b/a,b").vhost, "a,b");
}

#[test]
fn a_password_is_never_shown() {
    let url = parse("amqp://app:hunter2@broker/v");
    assert!(!format!("{url} {url:?}").contains("hunter2"));
    for text in [
        "amqp://app:hun/ter2@broker/v",
        "amqp://app:hun?ter2@broker/v",
        "amqp://app:hun#ter2@broker:x/v",
        "amqp://app:5672/ter2@broker/v",
        "amqp://app/ter2@broker/v",
        "amqp://app:5672?heartbeat=1&ter2@broker/v",
        "amqp://app:5672?heartbeat=ter2@broker/v",
    ] {
        let error = text.parse::<AmqpUrl>().map(|_| ()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("ter2"), "{error:?}");
    }
}
