// Writes an invoice for each order, once, however often its message arrives. amqp091-go, pgx.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	firstDelay   = 500 * time.Millisecond
	longestDelay = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	delay := firstDelay
	for ctx.Err() == nil {
		handled, err := consume(ctx)
		if err == nil {
			return
		}
		if handled > 0 {
			delay = firstDelay
		}
		log.Printf("%v; connecting again in %v", err, delay)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, longestDelay)
	}
}

// Handles messages until ctx is done, which is no error, or until a connection is lost. The broker then delivers again
// what is not acknowledged.
func consume(ctx context.Context) (handled int, err error) {
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.Background())
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return 0, err
	}
	defer broker.Close()
	channel, err := broker.Channel()
	if err != nil {
		return 0, err
	}
	if err := channel.Qos(10, 0, false); err != nil {
		return 0, err
	}
	deliveries, err := channel.Consume("billing", "", false, false, false, false, nil)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return handled, nil
		case delivery, open := <-deliveries:
			if !open {
				return handled, errors.New("the broker has closed the channel")
			}
			// A message that was begun is finished: it has a context of its own.
			err := bill(context.WithoutCancel(ctx), conn, delivery)
			if isFinal(err) {
				log.Printf("rejecting message %s: %v", delivery.MessageId, err)
				err = delivery.Reject(false) // without requeue: the queue's dead-letter exchange has it
			} else if err == nil {
				err = delivery.Ack(false)
			}
			if err != nil {
				return handled, err
			}
			handled++
		}
	}
}

var errNoOrder = errors.New("no order")

// Says whether the message will fail every time: it is no order, or PostgreSQL does not take its values (class 22) or
// a constraint forbids them (23). Anything else is a fault of the moment.
func isFinal(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		class := refused.Code[:2]
		return class == "22" || class == "23"
	}
	return errors.Is(err, errNoOrder)
}

func bill(ctx context.Context, conn *pgx.Conn, delivery amqp.Delivery) error {
	var id pgtype.UUID
	var order struct {
		ID    int64
		Total string // an amount of money is text: a JSON number would pass through a float
	}
	if err := errors.Join(id.Scan(delivery.MessageId), json.Unmarshal(delivery.Body, &order)); err != nil {
		return fmt.Errorf("%w: %v", errNoOrder, err)
	}
	// Commits when the function returns nil; any error rolls back the invoice and the inbox.
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var isNew bool
		err := tx.QueryRow(ctx, "SELECT inbox.receive('billing', $1)", delivery.MessageId).Scan(&isNew)
		if err != nil || !isNew {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO invoices (order_id, total) VALUES ($1, $2)", order.ID, order.Total)
		return err
	})
}
