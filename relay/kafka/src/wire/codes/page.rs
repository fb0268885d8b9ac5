//! Keeps the codes of docs/kafka.md and the table the same. After a change of the table, `UPDATE_DOCS=1 cargo test -p
//! kafka-producer page` writes them anew.

use std::{fmt::Write, fs};

use super::{CODES, Meaning};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kafka.md");
const BEGIN: &str = "<!-- codes: made from the code, see relay/kafka/src/wire/codes/page.rs -->\n";
const END: &str = "<!-- end of codes -->\n";

/// Codes after which a batch is sent again, and with which a broker answers a batch. The others of this meaning answer
/// other requests.
const SENT_AGAIN: &[i16] = &[-1, 2, 5, 6, 7, 13, 20, 56, 74, 75];

/// The meanings in the order of the page, and what each does to the events of the batch.
const DONE: &[(Meaning, &str)] = &[
    (Meaning::Taken, "Delivered (`SENT`)"),
    (Meaning::Refused, "Rejected (`FAILED`)"),
    (
        Meaning::Invalid,
        "The records that Kafka names are rejected (`FAILED`), and the others sent again. If it names none, the relay sends \
         them one by one",
    ),
    (
        Meaning::TooLarge,
        "The batch is halved and sent again. An event that is alone in its batch is rejected (`FAILED`)",
    ),
    (
        Meaning::NoTopic,
        "The relay looks for the topic once more after half a second. Then the events are rejected, or tried again later \
         with `unroutable = retry`",
    ),
    (Meaning::Unavailable, "Tried again later, as `retry_for` and `max_attempts` say"),
    (Meaning::Unknown, "Sent again unchanged until Kafka answers otherwise. Kafka takes the batch once"),
    (Meaning::Gap, "Sent again behind the batch before it; under a new identity, if that one was taken"),
    (Meaning::Replaced, "The relay connects again under a new identity, and publishes again what has no verdict"),
    (Meaning::Closed, "The connection is given up; no event is at fault"),
];

/// Whether the page names a code. A batch gets no other.
fn is_named(code: i16, meaning: Meaning) -> bool {
    meaning != Meaning::Unknown || SENT_AGAIN.contains(&code)
}

fn made() -> String {
    let mut codes = CODES.to_vec();
    codes.push((0, "NONE", Meaning::of(0)));
    codes.sort_by_key(|(code, ..)| *code);
    let mut page = "\n".to_owned();
    for (meaning, done) in DONE {
        let of_meaning = codes.iter().filter(|(code, _, other)| other == meaning && is_named(*code, *other));
        let names: Vec<String> = of_meaning.map(|(code, name, _)| format!("{code} {name}")).collect();
        let _ = writeln!(page, "- {done}: {}.", names.join(", "));
    }
    page.push_str(
        "\nKafka's other codes answer other requests. A batch that gets one is sent again unchanged, too.\n\n",
    );
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
    for (code, name, meaning) in CODES {
        let count = made.matches(&format!(" {code} {name}")).count();
        assert_eq!(count, usize::from(is_named(*code, *meaning)), "{code} {name}");
    }
}
