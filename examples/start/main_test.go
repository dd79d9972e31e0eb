package main

import (
	"bufio"
	"context"
	"database/sql"
	"io"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

func TestSignUp(t *testing.T) {
	url := postgrestest.DSN(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := signUp(t.Context(), db, q, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	queuetest.WantJob(t, q, WelcomeEmail, Welcome{Address: "ada@example.com"}, queuetest.Times(1))
}

// TestRun goes through docs/start.md: the three commands, and a job that is dead.
func TestRun(t *testing.T) {
	url := postgrestest.DSN(t)
	for _, command := range []string{"migrate", "signup ada", "signup ada@example.com"} {
		if err := run(t.Context(), strings.Fields(command), url, io.Discard); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	out, letters := io.Pipe()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"work"}, url, letters) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if want := "letter to ada@example.com (job 2, attempt 1)\n"; line != want || err != nil {
		t.Errorf("got %q, %v; want %q", line, err, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("work: %v", err)
	}
	wantStatuses(t, url, queue.StatusDead, queue.StatusCompleted)
}

// wantStatuses checks what became of the jobs, in the order of their ids.
func wantStatuses(t *testing.T, url string, want ...queue.Status) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, status := range want {
		var got queue.Status
		if err := db.QueryRow(`SELECT status FROM errand.jobs WHERE id = $1`, i+1).Scan(&got); err != nil || got != status {
			t.Errorf("job %d: got %s, %v; want %s", i+1, got, err, status)
		}
	}
}
