package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/pgbouncer"
	"github.com/errandhq/errand/queue"
)

// backends make an empty database for a script, and return its URL.
var backends = []struct {
	name string
	url  func(t testing.TB, dir string) string
}{
	{"sqlite", func(_ testing.TB, dir string) string {
		return "sqlite:" + filepath.ToSlash(filepath.Join(dir, "queue.db"))
	}},
	{"postgres", func(t testing.TB, _ string) string { return postgrestest.EmptyDSN(t) }},
	{"pgbouncer", func(t testing.TB, _ string) string {
		return pgbouncer.Start(t, postgrestest.EmptyDSN(t), "transaction")
	}},
}

// openWithJobs opens an empty database and puts n jobs of the kind shop.order into it.
func openWithJobs(t *testing.T, database string, n int) *dburl.Database {
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

// withJob makes a queue with a job at url, and returns a handle.
func withJob(t *testing.T, url string) *dburl.Database {
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

func claim(ctx context.Context, d *dburl.Database, n int) ([]*queue.Job, error) {
	return d.Queue.Claim(ctx, queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: n, Lease: time.Hour, Worker: "worker-1"})
}

func clicks(from, n int) (jobs []*queue.Job) {
	for i := range n {
		payload, _ := json.Marshal(from + i)
		jobs = append(jobs, &queue.Job{Queue: "clicks", Kind: "click", Payload: payload})
	}
	return jobs
}
