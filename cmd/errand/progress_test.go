package main

import (
	"bufio"
	"context"
	"io"
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
	slow := &operation{name: "cancel", statuses: live, change: func(_ context.Context, _ *dburl.Database, _ queue.DB, which queue.Selection) (int, error) {
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
	said, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		a := &app{in: strings.NewReader(""), out: out, err: out, getenv: func(string) string { return "" }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended <- run(ctx, a, []string{"migrate", "up", "--url", database})
		_ = out.Close()
	}()
	isTold := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if !isTold && strings.Contains(lines.Text(), "migrate: 0 of ") {
			isTold = true
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	}
	if code := <-ended; code != exitDone || !isTold {
		t.Errorf("exit code %d, told how far it is: %v", code, isTold)
	}
}
