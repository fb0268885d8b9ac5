package main

import (
	"log"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Publishes over one channel, with confirms.
type publisher struct {
	channel *amqp.Channel
}

// What was published together.
type batch struct {
	ids      []int64
	confirms []*amqp.DeferredConfirmation
}

func open(url string) publisher {
	conn, err := amqp.Dial(url)
	if err != nil {
		log.Fatal(err)
	}
	channel, err := conn.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		log.Fatal(err)
	}
	returned := channel.NotifyReturn(make(chan amqp.Return))
	go func() {
		for message := range returned {
			log.Fatalf("no queue is bound for %s", message.RoutingKey)
		}
	}()
	return publisher{channel}
}

func (p publisher) publish(events []event) batch {
	b := batch{make([]int64, 0, len(events)), make([]*amqp.DeferredConfirmation, 0, len(events))}
	for i := range events {
		e := &events[i]
		confirm, err := p.channel.PublishWithDeferredConfirm("outbox", e.topic, true, false, amqp.Publishing{
			MessageId:    e.messageID(),
			Type:         e.eventType,
			ContentType:  "application/json",
			Timestamp:    e.createdAt,
			DeliveryMode: amqp.Persistent,
			AppId:        "outbox-relay",
			Headers:      amqp.Table{"x-outbox-seq": e.id, "aggregate_type": e.aggregateType, "aggregate_id": e.aggregateID},
			Body:         e.payload,
		})
		if err != nil {
			log.Fatal(err)
		}
		b.ids = append(b.ids, e.id)
		b.confirms = append(b.confirms, confirm)
	}
	return b
}

// Waits until the broker has each message.
func (b batch) confirmed() {
	for _, confirm := range b.confirms {
		if !confirm.Wait() {
			log.Fatal("the broker refused a message")
		}
	}
}
