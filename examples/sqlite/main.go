// Sqlite is errand in one file, without a server: a user and the job of their letter are written in
// one transaction, and a worker sends the letter. README shows all of it.
//
//	go run ./examples/sqlite
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

type Welcome struct{ UserID int64 } // the payload

var WelcomeEmail = queue.NewKind[Welcome]("email.welcome")

func main() {
	ctx, stop := context.WithCancel(context.Background())
	dir := must(os.MkdirTemp("", "errand"))
	db := must(sqlite.Open("sqlite", dir+"/app.db"))
	check(sqlite.Migrate(ctx, db, sqlite.Options{}))
	q := must(sqlite.New(db, sqlite.Options{}))
	must(db.ExecContext(ctx, `CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT)`))

	tx := must(db.BeginTx(ctx, nil)) // the user and the job: both exist, or neither does
	user := must(tx.ExecContext(ctx, `INSERT INTO users (email) VALUES ('ada@example.com')`))
	check(q.Enqueue(ctx, tx, WelcomeEmail.New(Welcome{UserID: must(user.LastInsertId())})))
	check(tx.Commit())

	mux := queue.NewMux()
	WelcomeEmail.Handle(mux, func(ctx context.Context, job *queue.Job, w Welcome) error {
		fmt.Printf("welcome, user %d (attempt %d)\n", w.UserID, job.Attempt)
		stop()     // so that this program ends; a real worker runs until SIGTERM
		return nil // an error would run the job again later
	})
	check(engine.Worker{Backend: q, Handler: mux, Concurrency: 50}.Run(ctx))
	check(os.RemoveAll(dir))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}
