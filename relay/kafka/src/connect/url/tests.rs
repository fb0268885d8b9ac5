use super::*;

fn parse(text: &str) -> KafkaUrl {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    text.parse::<KafkaUrl>().unwrap_err().to_string()
}

#[test]
fn several_brokers_stand_in_one_url_with_one_login() {
    let url = parse("kafka://app:p%40ss@a,b:19092,[::1]:9093");
    assert_eq!(url.to_string(), "kafka://app@a:9092,b:19092,[::1]:9093");
    assert_eq!(url.login, Some(("app".to_owned(), "p@ss".to_owned())));
    assert_eq!((url.mechanism, url.tls), (Mechanism::Plain, None));
    assert_eq!(parse(" kafka://a/ ").login, None);
    let token = parse("kafkas://:token@a?sasl=oauthbearer").login;
    assert_eq!(token, Some((String::new(), "token".to_owned())));
}

#[test]
fn kafkas_is_encrypted_and_may_trust_an_authority_of_ones_own() {
    let url = parse("kafkas://app:x@a?cacertfile=%2Fca.pem&certfile=c&keyfile=k&sasl=SCRAM-SHA-512");
    let tls = url.tls.unwrap();
    assert_eq!((url.mechanism, tls.roots), (Mechanism::ScramSha512, Roots::File("/ca.pem".into())));
    assert!(tls.identity.is_some() && tls.verification == Verification::Full);
    assert!(parse("kafkas://a").tls.is_some_and(|tls| tls.roots == Roots::System));
}

#[test]
fn a_refusal_says_what_is_wrong_and_nothing_of_the_text() {
    for (text, why) in [
        ("amqp://a", "must start with kafka://"),
        ("kafka://u:ter2@a,v:ter2@b", "one login"),
        ("kafka://u:ter2@a/topic", "nothing but parameters"),
        ("kafka://u:ter2@a?x=ter2", "unknown parameter"),
        ("kafka://u:ter2@a?cacertfile=ter2", "with kafkas"),
        ("kafkas://a?certfile=c", "belong together"),
        ("kafka://a?sasl=plaintext", "sasl is plain"),
        ("kafka://a?sasl=scram-sha-256", "needs a login"),
        ("kafka://a?sasl=plain", "needs a login"),
        ("kafka://u@a", "has no password"),
        ("kafka://u:@a?sasl=oauthbearer", "has no password"),
        ("kafka://:ter2@a", "has no user"),
        ("kafka://a:0", "from 1 to 65535"),
        ("kafka://u:%zz@a", "hexadecimal"),
        ("kafka://a,,b", "no name"),
        ("kafka://a\nb", "line's end"),
    ] {
        let said = refused(text);
        assert!(said.contains(why) && !said.contains("ter2"), "{text}: {said}");
    }
}
