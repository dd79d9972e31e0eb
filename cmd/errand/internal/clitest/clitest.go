// Package clitest makes databases for the tests of the commands.
package clitest

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/machine"
	"github.com/errandhq/errand/queue"
)

// Backends make an empty database for a script, and return its URL.
var Backends = []struct {
	Name string
	URL  func(t testing.TB, dir string) string
}{
	{"sqlite", func(_ testing.TB, dir string) string {
		return "sqlite:" + filepath.ToSlash(filepath.Join(dir, "queue.db"))
	}},
	{"postgres", func(t testing.TB, _ string) string { return postgrestest.EmptyDSN(t) }},
	{"pgbouncer", func(t testing.TB, _ string) string {
		return machine.StartPgBouncer(t, postgrestest.EmptyDSN(t), "transaction")
	}},
}

// Env is an environment with the URL of the database alone.
func Env(database string) func(name string) string {
	return func(name string) string {
		if name == "DATABASE_URL" {
			return database
		}
		return ""
	}
}

// OpenWithJobs opens an empty database and puts n jobs of the kind shop.order into it.
func OpenWithJobs(t *testing.T, database string, n int) *dburl.Database {
	t.Helper()
	d, err := dburl.Open(database, dburl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := d.Queue.Enqueue(t.Context(), nil, &queue.Job{Kind: "shop.order"}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// WithJob makes a queue with a job at url, and returns a handle.
func WithJob(t *testing.T, url string) *dburl.Database {
	t.Helper()
	d, err := dburl.Open(url, dburl.Options{Application: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Queue.Enqueue(t.Context(), nil, &queue.Job{Kind: "kind"}); err != nil {
		t.Fatal(err)
	}
	return d
}

// Claim claims up to n jobs of the queue default for an hour.
func Claim(ctx context.Context, d *dburl.Database, n int) ([]*queue.Job, error) {
	return d.Queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: n, Lease: time.Hour, Worker: "worker-1"})
}

// Clicks returns n jobs of the queue clicks. Their payloads are the numbers beginning with from.
func Clicks(from, n int) (jobs []*queue.Job) {
	for i := range n {
		payload, _ := json.Marshal(from + i)
		jobs = append(jobs, &queue.Job{Queue: "clicks", Kind: "click", Payload: payload})
	}
	return jobs
}
