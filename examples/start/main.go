// Start is the program of docs/start.md: people sign up, and a worker sends each of them a letter.
//
//	start migrate          create the tables
//	start signup ADDRESS   write a user and the job of the letter
//	start work             send letters until SIGINT or SIGTERM
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// WelcomeEmail ties the code that enqueues to the code that handles.
var WelcomeEmail = queue.Kind[Welcome]{Name: "email.welcome", MaxAttempts: 10, Timeout: time.Minute}

// Welcome is its payload.
type Welcome struct {
	Address string `json:"address"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program
	if err := run(ctx, os.Args[1:], os.Getenv("DATABASE_URL"), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, url string, out io.Writer) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(20)
	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "migrate":
		return migrate(ctx, db)
	case len(args) == 2 && args[0] == "signup":
		return signUp(ctx, db, q, args[1])
	case len(args) == 1 && args[0] == "work":
		return work(ctx, q, out)
	}
	_, err = fmt.Fprintln(out, "usage: start migrate | signup ADDRESS | work")
	return err
}

func migrate(ctx context.Context, db *sql.DB) error {
	if err := postgres.Migrate(ctx, db, postgres.Options{}); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS users (address text PRIMARY KEY)`)
	return err
}

// signUp writes the user and the job, or neither.
func signUp(ctx context.Context, db *sql.DB, q queue.Enqueuer, address string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO users (address) VALUES ($1)`, address); err != nil {
		return err
	}
	if err := q.Enqueue(ctx, tx, WelcomeEmail.New(Welcome{Address: address})); err != nil {
		return err
	}
	return tx.Commit()
}

// work runs jobs until ctx ends.
func work(ctx context.Context, q queue.Queue, out io.Writer) error {
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		if !strings.Contains(w.Address, "@") {
			return queue.Discard(errors.New("not an address")) // no retry would help
		}
		_, err := fmt.Fprintf(out, "letter to %s (job %d, attempt %d)\n", w.Address, job.ID, job.Attempt)
		return err // nil: done; an error: again, after a delay
	})
	return engine.Worker{Backend: q, Handler: mux, Concurrency: 50}.Run(ctx)
}
