package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/queue"
)

// freshRefusing returns a fresh queue whose database refuses to change jobs of the kind "bad".
func freshRefusing(t *testing.T) (*sql.DB, *postgres.Backend) {
	t.Helper()
	db, q := fresh(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	refuse(t, func(query string) { exec(t, db, query) })
	return db, q
}

// TestRefusedRowInSmallPool: claims that pass over a bad row do not wait for each other's
// connections in a circle. A claim may still meet the row that a different one is about to lock: it
// fails then, and is repeated, as a worker does.
func TestRefusedRowInSmallPool(t *testing.T) {
	t.Parallel()
	db, q := freshRefusing(t)
	db.SetMaxOpenConns(2)
	all := jobs(120)
	all[60].Kind = "bad"
	enqueue(t, q, all...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var claimed atomic.Int64
	var claimers sync.WaitGroup
	for range 4 {
		claimers.Go(func() {
			for claimed.Load() < 119 && ctx.Err() == nil {
				got, err := q.Claim(ctx, request(5))
				if err != nil && ctx.Err() != nil {
					t.Error(err)
				}
				claimed.Add(int64(len(got)))
			}
		})
	}
	claimers.Wait()
	if n := claimed.Load(); n != 119 {
		t.Errorf("%d jobs were claimed, want 119", n)
	}
}

// TestRefusedOrderedHead: a bad row at the head of an ordered group holds up its own group alone.
func TestRefusedOrderedHead(t *testing.T) {
	t.Parallel()
	_, q := freshRefusing(t)
	for i := range 12 {
		job := &queue.Job{Kind: "test", Group: fmt.Sprint("g", i%3), Ordered: true}
		if i == 1 {
			job.Kind = "bad"
		}
		enqueue(t, q, job)
	}
	groups := make(map[string]int)
	for range 4 {
		got, err := q.Claim(t.Context(), request(10))
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range got {
			groups[job.Group]++
			settle(t, q, queue.Outcome{Job: job})
		}
	}
	if groups["g0"] != 4 || groups["g1"] != 0 || groups["g2"] != 4 {
		t.Errorf("claimed %v, want 4 of g0 and g2 each", groups)
	}
}

// TestRefusedRowBehindJobs: a bad row in a limited queue is found although each claim finds jobs in
// an earlier queue.
func TestRefusedRowBehindJobs(t *testing.T) {
	t.Parallel()
	_, q := freshRefusing(t)
	setRules(t, q, queue.Rule{Queue: "b", Running: 1000})
	enqueue(t, q, &queue.Job{Kind: "bad", Queue: "b"}, &queue.Job{Kind: "test", Queue: "b"})
	found := 0
	for range 2 {
		enqueue(t, q, &queue.Job{Kind: "test", Queue: "a"})
		req := request(10)
		req.Queues = []string{"a", "b"}
		got, err := q.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		found += len(got)
	}
	if found != 3 {
		t.Errorf("two claims found %d jobs, want the good one of b and those of a: 3", found)
	}
}
