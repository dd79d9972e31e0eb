// Sqlite is errand in one file, without a server: a user and the job of their letter are written in
// one transaction, and a worker sends the letter.
//
//	go run ./examples/sqlite
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// Welcome is the payload of the job.
type Welcome struct{ UserID int64 }

// WelcomeEmail ties the code that enqueues to the code that handles.
var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

func main() {
	dir, err := os.MkdirTemp("", "errand")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), filepath.Join(dir, "app.db"), os.Stdout)
	_ = os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string, out io.Writer) error {
	db, err := sqlite.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlite.Migrate(ctx, db, sqlite.Options{}); err != nil {
		return err
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT)`); err != nil {
		return err
	}

	// The user and the job are written in one transaction: both exist, or neither does.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	var user Welcome
	if err := tx.QueryRowContext(ctx, `INSERT INTO users (email) VALUES (?) RETURNING id`, "ada@example.com").Scan(&user.UserID); err != nil {
		return err
	}
	if err := q.Enqueue(ctx, tx, WelcomeEmail.New(user)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		stop() // so that this program ends; a real worker runs until SIGTERM
		_, err := fmt.Fprintf(out, "welcome, user %d (attempt %d)\n", w.UserID, job.Attempt)
		return err // an error would run the job again later
	})
	return queue.Worker{Backend: q, Handler: mux, Concurrency: 50}.Run(ctx)
}
