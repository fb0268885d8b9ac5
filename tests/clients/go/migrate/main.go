// Runs a script of the outbox, once, in the transaction that notes it. pgx.
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := migrate(ctx, conn, os.Getenv("OUTBOX_SQL")); err != nil {
		log.Fatal(err)
	}
}

func migrate(ctx context.Context, conn *pgx.Conn, path string) error {
	script, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS migrations (script text PRIMARY KEY)"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		note := "INSERT INTO migrations VALUES ($1) ON CONFLICT DO NOTHING"
		noted, err := tx.Exec(ctx, note, filepath.Base(path))
		if err != nil || noted.RowsAffected() == 0 {
			return err // it has run before
		}
		_, err = tx.Exec(ctx, string(script)) // several statements at once: without parameters
		return err
	})
}
