package postgrestest_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
)

// In a test, two lines are enough for a queue of its own.
func ExampleOpen() {
	_ = func(t *testing.T) { // func TestSignup(t *testing.T) {
		db := postgrestest.Open(t)
		q, err := postgres.New(db, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// Hand q and db to the code under test.
		_ = q
	}
}

// A program that is no test, such as an example or a benchmark, starts a server
// for itself.
func ExampleStart() {
	ctx := context.Background()
	server, err := postgrestest.Start(ctx, postgrestest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	log.Print(server.Description)

	db, err := sql.Open("pgx", server.DSN)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := postgres.Migrate(ctx, db, postgres.Options{}); err != nil {
		log.Fatal(err)
	}
	var jobs int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM errand.jobs").Scan(&jobs); err != nil {
		log.Fatal(err)
	}
	fmt.Println(jobs, "jobs")
	// Output: 0 jobs
}
