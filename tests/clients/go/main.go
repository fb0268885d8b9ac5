// Places an order and emits an event about it, in one transaction. pgx.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	eventID, err := placeOrder(ctx, conn, "Ada", "42.50")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(eventID)
}

func placeOrder(ctx context.Context, conn *pgx.Conn, customer, total string) (eventID string, err error) {
	// Commits when the function returns nil; any error rolls back the order and its event.
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var orderID int64
		err := tx.QueryRow(ctx, "INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING id", customer, total).
			Scan(&orderID)
		if err != nil {
			return err
		}
		payload := map[string]any{"id": orderID, "customer": customer, "total": total}
		return tx.QueryRow(ctx,
			"SELECT outbox.emit('orders.created', $1::json, aggregate_type => 'order', aggregate_id => $2)",
			payload, strconv.FormatInt(orderID, 10)).Scan(&eventID)
	})
	return eventID, err
}
