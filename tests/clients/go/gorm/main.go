// Places an order and inserts an event about it, in GORM's transaction. A second one is rolled back.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/google/uuid"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

type Order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Total    string `json:"total"` // text: a JSON number would pass through a float
}

// Event has the columns that an application may write; the others are the relay's, and have defaults.
type Event struct {
	ID            uuid.UUID // chosen here: a role that cannot read the table cannot ask for RETURNING
	Topic         string
	Payload       string
	AggregateType string
	AggregateID   string
}

func (Event) TableName() string { return "outbox.events" }

// Inserts an event in the transaction of tx. Events of one key (type and id of the aggregate) keep their order.
func emit(tx *gorm.DB, topic, aggregateType, aggregateID string, payload any) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, err
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return id, err
	}
	return id, tx.Create(&Event{id, topic, string(body), aggregateType, aggregateID}).Error
}

func placeOrder(tx *gorm.DB, customer, total string) (uuid.UUID, error) {
	order := Order{Customer: customer, Total: total}
	if err := tx.Create(&order).Error; err != nil {
		return uuid.Nil, err
	}
	return emit(tx, "orders.created", "order", strconv.FormatInt(order.ID, 10), order)
}

var errDeclined = errors.New("the payment was declined")

func main() {
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var eventID uuid.UUID
	// Commits when the function returns nil; any error rolls back the order and its event.
	err = db.Transaction(func(tx *gorm.DB) error {
		eventID, err = placeOrder(tx, "Ada", "42.50")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(eventID)

	err = db.Transaction(func(tx *gorm.DB) error {
		if _, err := placeOrder(tx, "Bob", "13.00"); err != nil {
			return err
		}
		return errDeclined
	})
	if !errors.Is(err, errDeclined) {
		log.Fatal(err)
	}
}
