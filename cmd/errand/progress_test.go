package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/queue"
)

// TestProgressOfJobs: an action on many jobs that takes long says how far it is.
func TestProgressOfJobs(t *testing.T) {
	t.Parallel()
	d := openWithJobs(t, backends[0].url(t, t.TempDir()), 1)
	jobs := make([]queue.Record, 3*batch)
	for i := range jobs {
		jobs[i].ID, jobs[i].Status = int64(i+1), queue.StatusPending
	}
	slow := &operation{name: "cancel", statuses: live, change: func(_ context.Context, _ *dburl.Database, _ queue.DB, which queue.Which) (int, error) {
		time.Sleep(time.Second)
		return len(which.IDs), nil
	}}
	var out strings.Builder
	done, err := (&app{err: &out, timeout: time.Minute}).change(t.Context(), d, slow, selection{}, jobs)
	if err != nil || done != len(jobs) {
		t.Errorf("%d jobs done, %v", done, err)
	}
	if want := regexp.MustCompile(`^cancel: [12]000 of 3000, \d+s\n(.*\n)*cancel: 3000 of 3000, \d+s\n$`); !want.MatchString(out.String()) {
		t.Errorf("it said %q, want %s", &out, want)
	}
}

// TestProgressOfMigrations: migrate up says how far it is while it waits.
func TestProgressOfMigrations(t *testing.T) {
	t.Parallel()
	database := backends[1].url(t, "")
	d, err := dburl.Open(database, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := known(dburl.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.DB.BeginTx(t.Context(), nil) // another tool migrates, slowly
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), list[0].sql); err != nil {
		t.Fatal(err)
	}
	type result struct {
		code int
		text string
	}
	ended := make(chan result, 1)
	go func() {
		code, text := runOn(t, database, "migrate", "up")
		ended <- result{code, text}
	}()
	for waiting(t, d.DB) == 0 {
		select {
		case r := <-ended:
			t.Fatalf("it has not waited: exit code %d: %s", r.code, r.text)
		case <-time.After(10 * time.Millisecond):
		}
	}
	time.Sleep(6 * time.Second) // a line of progress is shown after two, later on a busy machine
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r := <-ended
	code, text := r.code, r.text
	if code != exitDone || !strings.Contains(text, "migrate: 0 of ") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
