use proptest::prelude::*;

use super::*;

const FULL: DestinationHash = DestinationHash(1);
const HEALTHY: DestinationHash = DestinationHash(2);

fn nack(availability: &mut Availability, id: u128, others_in_flight: bool, now: Instant) -> Attempt {
    let number = availability.publish();
    availability.unavailable(Uuid::from_u128(id), number, FULL, others_in_flight, now)
}

fn confirm(availability: &mut Availability, destination: DestinationHash) -> bool {
    let number = availability.publish();
    availability.confirmed(&Uuid::max(), number, |_| destination)
}

#[test]
fn a_nack_counts_once_a_later_message_was_taken_and_the_event_is_nacked_again() {
    let now = Instant::now();
    let mut availability = Availability::new(0);
    assert_eq!(nack(&mut availability, 1, true, now), Attempt::Uncounted, "others may be taken yet, or not");
    assert!(!confirm(&mut availability, HEALTHY));
    assert_eq!(nack(&mut availability, 1, true, now), Attempt::Counts);
    assert_eq!(nack(&mut availability, 1, true, now), Attempt::Uncounted, "nothing was taken since");
}

#[test]
fn a_full_queue_whose_events_are_all_the_traffic_is_found_by_the_first_event_of_another_destination() {
    let now = Instant::now();
    let mut availability = Availability::new(0);
    assert_eq!(nack(&mut availability, 1, false, now), Attempt::Uncounted);
    assert_eq!(availability.since(), Some(now));
    assert_eq!(nack(&mut availability, 2, false, now), Attempt::InOutage(now));
    assert!(availability.may_try(HEALTHY) && !availability.may_try(HEALTHY) && !availability.may_try(FULL));
    assert!(confirm(&mut availability, HEALTHY) && availability.since().is_none());
    assert_eq!(nack(&mut availability, 1, false, now), Attempt::Counts);
}

#[test]
fn a_nack_from_before_a_queue_came_back_or_over_another_connection_counts_for_nothing() {
    let now = Instant::now();
    let mut availability = Availability::new(0);
    nack(&mut availability, 1, false, now);
    assert!(confirm(&mut availability, FULL), "it was unavailable, and takes messages again");
    assert_eq!(nack(&mut availability, 1, true, now), Attempt::Uncounted);
    confirm(&mut availability, HEALTHY);
    availability.lost();
    assert_eq!(nack(&mut availability, 1, true, now), Attempt::Uncounted);
}

#[test]
fn the_broker_is_asked_often_at_first_and_never_less_than_every_five_seconds() {
    let start = Instant::now();
    let mut availability = Availability::new(0);
    nack(&mut availability, 1, false, start);
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let at = availability.next_round().unwrap();
        rounds.push((at.duration_since(start).as_millis(), availability.begin_round(at)));
    }
    assert_eq!(rounds[..4], [(100, 2), (300, 4), (700, 8), (1500, 16)]);
    assert_eq!(rounds[9].0 - rounds[8].0, LONGEST_PAUSE.as_millis());
}

proptest! {
    #[test]
    fn without_a_confirm_no_nack_ever_counts_and_probing_soon_begins(
        refused in prop::collection::vec((0_usize..20, any::<bool>()), MANY..300),
    ) {
        let now = Instant::now();
        let mut availability = Availability::new(0);
        for (event, others_in_flight) in refused {
            prop_assert_ne!(nack(&mut availability, event as u128, others_in_flight, now), Attempt::Counts);
        }
        prop_assert!(availability.since().is_some());
    }

    #[test]
    fn among_others_that_are_taken_every_nack_but_the_first_counts(
        others in prop::collection::vec(1_usize..5, 2..50),
    ) {
        let now = Instant::now();
        let mut availability = Availability::new(0);
        for (round, count) in others.into_iter().enumerate() {
            let expected = if round == 0 { Attempt::Uncounted } else { Attempt::Counts };
            prop_assert_eq!(nack(&mut availability, 1, true, now), expected);
            for _ in 0..count {
                confirm(&mut availability, HEALTHY);
            }
        }
    }
}
