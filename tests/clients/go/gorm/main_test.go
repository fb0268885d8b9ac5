package main

import (
	"os"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// The role of DATABASE_URL may read events here: outbox.grant_operate().
func TestAPlacedOrderIsEmitted(t *testing.T) {
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tx := db.Begin()
	defer tx.Rollback() // no relay ever sees the event

	id, err := placeOrder(tx, "Eve", "7.00")
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	// created_at is the start of the transaction: these are the events of this one.
	if err := tx.Find(&events, "created_at = now()").Error; err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 {
		t.Fatalf("%d events instead of one", len(events))
	}
	order := events[0].AggregateID
	want := Event{id, "orders.created", `{"id":` + order + `,"customer":"Eve","total":"7.00"}`, "order", order}
	if events[0] != want {
		t.Errorf("emitted %+v instead of %+v", events[0], want)
	}
}
