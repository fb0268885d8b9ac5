// Writes an invoice for each order, once, however often its message arrives. amqp091-go, pgx.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		log.Fatal(err)
	}
	channel, err := broker.Channel()
	if err != nil {
		log.Fatal(err)
	}
	if err := channel.Qos(10, 0, false); err != nil {
		log.Fatal(err)
	}
	deliveries, err := channel.Consume("billing", "", false, false, false, false, nil)
	if err != nil {
		log.Fatal(err)
	}
	for delivery := range deliveries {
		if err := bill(ctx, conn, delivery); err != nil {
			log.Fatal(err) // the message stays unacknowledged
		}
		if err := delivery.Ack(false); err != nil {
			log.Fatal(err)
		}
	}
}

func bill(ctx context.Context, conn *pgx.Conn, delivery amqp.Delivery) error {
	// Commits when the function returns nil; any error rolls back the invoice and the inbox.
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var isNew bool
		err := tx.QueryRow(ctx, "SELECT inbox.receive('billing', $1)", delivery.MessageId).Scan(&isNew)
		if err != nil || !isNew {
			return err
		}
		var order struct {
			ID    int64
			Total float64
		}
		if err := json.Unmarshal(delivery.Body, &order); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO invoices (order_id, total) VALUES ($1, $2)", order.ID, order.Total)
		return err
	})
}
