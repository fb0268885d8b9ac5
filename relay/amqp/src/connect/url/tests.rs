use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> AmqpUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn listed(url: &AmqpUrl) -> Vec<String> {
    url.hosts.iter().map(Host::to_string).collect()
}

#[test]
fn what_is_left_out_has_rabbitmqs_defaults() {
    let url = parse("amqp://");
    assert_eq!((listed(&url), url.vhost.as_str()), (vec!["localhost:5672".to_owned()], "/"));
    assert_eq!((url.user.as_str(), url.password.as_str()), ("guest", "guest"));
    assert_eq!(listed(&parse("amqps://broker")), ["broker:5671"]);
    assert_eq!(listed(&parse("amqp://u:p@:1")), ["localhost:1"]);
    assert_eq!(parse("amqp://broker/").vhost, "/");
    assert_eq!(parse("amqp://broker/%2F").vhost, "/");
}

#[test]
fn every_part_is_read_and_decoded() {
    let url = parse("amqps://a%40b:p%3Aw%2F@[::1]:99/orders%20x?heartbeat=7&connection_timeout=1500&cacertfile=/a%26b");
    assert_eq!((url.user.as_str(), url.password.as_str()), ("a@b", "p:w/"));
    assert_eq!(url.hosts, [Host { name: "::1".to_owned(), port: 99 }]);
    assert_eq!((url.vhost.as_str(), url.heartbeat), ("orders x", Some(7)));
    assert_eq!(url.connection_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(url.tls.as_ref().and_then(|tls| tls.ca.clone()), Some("/a&b".into()));
    assert_eq!(url.to_string(), "amqps://a%40b@[::1]:99/orders%20x");
}

#[test]
fn white_space_around_a_url_is_no_part_of_it() {
    for text in ["amqp://u:p@broker/shop ", " amqp://u:p@broker/shop", "amqp://u:p@broker/shop\r\n"] {
        assert_eq!(parse(text).vhost, "shop", "{text:?}");
    }
}

#[test]
fn an_unknown_parameter_is_named_unless_it_may_be_part_of_a_password() {
    let why = |text: &str| text.parse::<AmqpUrl>().unwrap_err().to_string();
    for (text, named) in [
        ("amqp://u:p@broker/shop?pool=5", "unknown parameter pool;"),
        ("amqp://broker?colour=red&heartbeat=7", "unknown parameter colour;"),
        ("amqp://broker?cacertfile=/ca.pem", "unknown parameter cacertfile;"),
        ("amqp://u:s3cret@broker?s3cret=1", "unknown parameter;"),
        ("amqp://u:s3?cret=1@broker", "the port is a number"),
        ("amqp://u?cret=1@broker", "unknown parameter;"),
        ("amqp://broker?s%3Fcret=1", "unknown parameter;"),
    ] {
        assert!(why(text).contains(named) && !why(text).contains("cret"), "{text}: {}", why(text));
    }
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
        "amqp://a,,b",
        "amqp://a,",
        "amqp://,b",
        "amqp://a, b",
        "amqp://a%0Ab",
        "amqp://a:5672,b:x",
        "amqp://broker/a b",
        "amqp://broker/a\nb",
        "amqp://broker/a ?heartbeat=7",
        "amqp://broker/a?heartbeat= 7",
        "amqp://u:pass\nword@broker/a",
    ] {
        assert!(text.parse::<AmqpUrl>().is_err(), "{text}");
    }
}

#[test]
fn every_host_of_a_list_has_its_own_port_or_the_schemes() {
    assert_eq!(listed(&parse("amqp://u:p@a:1,b,c:3/v")), ["a:1", "b:5672", "c:3"]);
    assert_eq!(listed(&parse("amqps://a,[::1],[fe80::1%25eth0]:7/")), ["a:5671", "[::1]:5671", "[fe80::1%25eth0]:7"]);
    assert_eq!(parse("amqp://u:p@a:1,b/v").to_string(), "amqp://u@a:1,b:5672/v");
    assert_eq!(parse("amqp://u:p%2Cw@b/a,b").vhost, "a,b");
}

#[test]
fn several_urls_or_logins_are_refused_and_none_of_them_shown() {
    for text in [
        "amqp://u:hunter2@a/%2f,amqp://guest:hunter2@b/%2f",
        "amqp://u:hunter2@a,amqp://guest:hunter2@b",
        "amqp://u:hunter2@a:5672,guest:hunter2@b:5672/v",
        "amqp://u:hunter2,hunter2@a:5672/v",
        "amqp://a/?heartbeat=1,amqp://guest:hunter2@b/",
    ] {
        let error = text.parse::<AmqpUrl>().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("in one URL"), "{text}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
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

fn encoded(text: &str) -> String {
    encode(text).to_string()
}

fn host() -> impl Strategy<Value = (String, Option<u16>)> {
    let address = any::<std::net::Ipv6Addr>().prop_map(|address| format!("[{address}]"));
    let name = r"[^\s\p{C}]{1,12}".prop_map(|name| encoded(&name));
    (prop_oneof![Just("broker-1.example".to_owned()), name, address], prop::option::of(1..u16::MAX))
}

proptest! {
    #[test]
    fn any_list_of_hosts_reads_as_it_is_written_and_no_password_is_shown(
        hosts in prop::collection::vec(host(), 1..6),
        tls in any::<bool>(),
        user in r"\PC{1,8}",
        password in r"\PC{0,8}",
        vhost in r"\PC{1,8}",
    ) {
        let scheme = if tls { "amqps" } else { "amqp" };
        let list: Vec<String> = hosts
            .iter()
            .map(|(name, port)| port.map_or(name.clone(), |port| format!("{name}:{port}")))
            .collect();
        let secret = format!("hunter2{password}");
        let login = format!("{}:{}", encoded(&user), encoded(&secret));
        let url = parse(&format!("{scheme}://{login}@{}/{}", list.join(","), encoded(&vhost)));
        prop_assert_eq!((&url.user, &url.password, &url.vhost), (&user, &secret, &vhost));
        let ports: Vec<u16> = url.hosts.iter().map(|host| host.port).collect();
        let default = if tls { 5671 } else { 5672 };
        prop_assert_eq!(ports, hosts.iter().map(|(_, port)| port.unwrap_or(default)).collect::<Vec<_>>());

        let shown = url.to_string();
        prop_assert!(!format!("{shown} {url:?}").contains("hunter2"), "{}", shown);
        let again = AmqpUrl { password: secret, ..parse(&shown) };
        prop_assert!(again == url, "{} is not {}", again, shown);
    }

    #[test]
    fn no_text_makes_it_panic_or_shows_a_password_in_the_refusal(text in r"amqps?://[a-z:@,/?\[\]%]{0,12}(hunter2)[a-z:@,/?\[\]%]{0,12}") {
        if let Err(error) = text.parse::<AmqpUrl>() {
            prop_assert!(!format!("{error} {error:?}").contains("hunter2"), "{:?}", error);
        }
    }
}
