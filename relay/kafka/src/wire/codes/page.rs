//! Keeps the codes of docs/kafka.md and the table the same. After a change of the table, `UPDATE_DOCS=1 cargo test -p
//! kafka-producer page` writes them anew.

use std::{fmt::Write, fs};

use super::{CODES, Meaning};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kafka.md");
const BEGIN: &str = "<!-- codes: made from the code, see relay/kafka/src/wire/codes/page.rs -->\n";
const END: &str = "<!-- end of codes -->\n";

/// Codes after which a batch is sent again, and with which a broker answers a batch. The others of this meaning belong
/// to other requests.
const SENT_AGAIN: &[i16] = &[-1, 2, 5, 6, 7, 13, 20, 56, 74, 75];

fn what_is_done(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Taken => "delivered: `SENT`",
        Meaning::TooLarge => "halved and sent again; an event that is alone in its batch is rejected: `FAILED`",
        Meaning::Invalid => {
            "rejected, those that Kafka names, or else is asked about one by one: `FAILED`; the others are sent again"
        }
        Meaning::Refused => "rejected: `FAILED`",
        Meaning::NoTopic => {
            "looked for once more after half a second; then rejected, or tried again later with `unroutable = retry`"
        }
        Meaning::Unavailable => "unavailable: tried again later, as `retry_for` and `max_attempts` say",
        Meaning::Gap => "sent again behind the batch before it; a new identity, if that one was taken",
        Meaning::Unknown => "sent again as it was, until there is another answer: Kafka takes it once",
        Meaning::Replaced => "a new identity: the relay connects again, and publishes again what has no verdict",
        Meaning::Closed => "the connection is given up; no event is at fault",
    }
}

fn made() -> String {
    let mut page = "| code | what becomes of the events of the batch |\n|---|---|\n".to_owned();
    let mut codes = CODES.to_vec();
    codes.push((0, "NONE", Meaning::of(0)));
    codes.sort_by_key(|(code, ..)| *code);
    let mut others = Vec::new();
    for (code, name, meaning) in codes {
        if meaning == Meaning::Unknown && !SENT_AGAIN.contains(&code) {
            others.push(format!("{code} {name}"));
        } else {
            let _ = writeln!(page, "| {code} {name} | {} |", what_is_done(meaning));
        }
    }
    let others = others.join(", ");
    let _ =
        writeln!(page, "\nThe others belong to other requests. A batch that gets one is sent again, too: {others}.");
    page
}

#[test]
fn the_page_has_every_code_with_what_becomes_of_the_events() {
    let old = fs::read_to_string(PAGE).unwrap();
    let (head, rest) = old.split_once(BEGIN).expect("the page has a place for the codes");
    let (_, tail) = rest.split_once(END).expect("that place has an end");
    let made = format!("{head}{BEGIN}{}{END}{tail}", made());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, &made).unwrap();
    }
    assert!(fs::read_to_string(PAGE).unwrap() == made, "run: UPDATE_DOCS=1 cargo test -p kafka-producer page");
    for (code, name, _) in CODES {
        let count = made.matches(&format!(" {code} {name}")).count();
        assert_eq!(count, 1, "{code} {name}");
    }
}
