// A poller as one writes it by hand, and writes it well: it reads what is not sent in batches, publishes it persistent and mandatory,
// awaits the confirms, and marks each batch with one UPDATE. Batches overlap: while one is read, another is on its way to the broker, and a
// third is marked.
//
// One poller is at work, by an advisory lock, so rows need not be locked: FOR UPDATE SKIP LOCKED would write to each row once more. A crash
// between confirm and mark repeats what was in flight. Unlike the outbox's relay it keeps no order when the broker refuses a message: it
// ends.
//
// DATABASE_URL and AMQP_URL are given. It says "ready" when it is connected, and ends when its standard input does.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// Rows of one SELECT, and of one UPDATE.
	batchSize = 500
	// Batches between the SELECT and the UPDATE.
	depth = 4
	// The pause after a batch that was not full.
	pause = 50 * time.Millisecond

	lock = "SELECT pg_advisory_lock(4711)"
	// The partial index brings the rows in order.
	read = `SELECT id, topic, event_type, aggregate_type, aggregate_id, payload::text, created_at
	        FROM bench.go_outbox WHERE sent_at IS NULL AND id > $1 ORDER BY id LIMIT $2`
	mark = "UPDATE bench.go_outbox SET sent_at = now() WHERE id = ANY ($1)"
)

type event struct {
	id                                           int64
	topic, eventType, aggregateType, aggregateID string
	payload                                      []byte
	createdAt                                    time.Time
}

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	ctx := context.Background()
	reader, marker := connect(ctx), connect(ctx)
	if _, err := reader.Exec(ctx, lock); err != nil {
		log.Fatal(err)
	}
	publisher := open(os.Getenv("AMQP_URL"))
	fmt.Println("ready")

	published := make(chan batch, depth)
	marked := make(chan struct{}, depth)
	go func() {
		for batch := range published {
			batch.confirmed()
			if _, err := marker.Exec(ctx, mark, batch.ids); err != nil {
				log.Fatal(err)
			}
			marked <- struct{}{}
		}
	}()

	after, unmarked := int64(0), 0
	for {
		events, err := next(ctx, reader, after)
		if err != nil {
			log.Fatal(err)
		}
		if len(events) > 0 {
			published <- publisher.publish(events)
			unmarked++
			after = events[len(events)-1].id
		}
		for ; unmarked == depth || unmarked > 0 && len(events) < batchSize; unmarked-- {
			<-marked
		}
		if len(events) < batchSize {
			// Everything is marked. A transaction with a lower id may have committed meanwhile, so the next look is from the start.
			after = 0
			time.Sleep(pause)
		}
	}
}

func connect(ctx context.Context) *pgx.Conn {
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func next(ctx context.Context, conn *pgx.Conn, after int64) ([]event, error) {
	rows, err := conn.Query(ctx, read, after, batchSize)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		err = row.Scan(&e.id, &e.topic, &e.eventType, &e.aggregateType, &e.aggregateID, &e.payload, &e.createdAt)
		return e, err
	})
}

// As long as a UUID: the broker has the same work with this message as with the outbox's.
func (e *event) messageID() string {
	return fmt.Sprintf("00000000-0000-7000-8000-%012x", e.id)
}
