package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestListenersLeaveConnections: two workers that listen work through a pool of two connections.
func TestListenersLeaveConnections(t *testing.T) {
	t.Parallel()
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			db, listen := w.open(t, postgrestest.DSN(t))
			db.SetMaxOpenConns(2)
			q := backend(t, db, postgres.Options{Listen: listen})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			ran := make(chan string, 100)
			for i := range 2 {
				name := fmt.Sprint("queue", i)
				handler := queue.HandlerFunc(func(context.Context, *queue.Job) error { ran <- name; return nil })
				worker := engine.Worker{Backend: q, Queues: []string{name}, Handler: handler, Logger: slog.New(slog.DiscardHandler)}
				go func() { ended <- worker.Run(ctx) }()
			}
			for range 5 {
				enqueue(t, q, &queue.Job{Kind: "test", Queue: "queue0"}, &queue.Job{Kind: "test", Queue: "queue1"})
				<-ran
				<-ran
			}
			stop()
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	db, listen := ways[0].open(t, postgrestest.DSN(t))
	other := new(sql.DB)
	for _, c := range []struct {
		name   string
		most   int
		listen postgres.Listen
		dbs    []*sql.DB
		left   int
	}{
		{"no limit", 0, listen, []*sql.DB{db}, math.MaxInt},
		{"nothing held", 10, nil, nil, 10},
		{"listening", 10, listen, nil, 9},
		{"one connection does not listen", 1, listen, nil, 1},
		{"handlers of another pool", 10, nil, []*sql.DB{other}, 10},
		{"handlers", 10, nil, []*sql.DB{other, db}, 3},
		{"handlers and listening", 10, listen, []*sql.DB{db}, 2},
		{"too many handlers", 7, listen, []*sql.DB{db}, -1},
		{"handlers, of one connection", 1, listen, []*sql.DB{db}, -7},
	} {
		db.SetMaxOpenConns(c.most)
		q := backend(t, db, postgres.Options{Listen: c.listen})
		for range 2 { // once released, it can be reserved again
			left, release := q.Reserve(7, c.dbs...)
			if left != c.left {
				t.Errorf("%s: got %d left, want %d", c.name, left, c.left)
			}
			release()
			release() // changes nothing
		}
	}
}

// TestExtendNamesThePool: if handlers hold all connections of the pool, the error of Extend says
// so. A pool of pgx has a limit that database/sql does not know; there it says how many are in use.
func TestExtendNamesThePool(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.DSN(t)
	limited, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	limited.SetMaxOpenConns(2)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	unlimited := stdlib.OpenDBFromPool(pool)
	defer unlimited.Close()
	for _, c := range []struct {
		db   *sql.DB
		want string
	}{
		{limited, "postgres: extend: all 2 connections of the pool are in use: context deadline exceeded"},
		{unlimited, "postgres: extend: no connection of the pool was free in time, 2 are in use or being opened: context deadline exceeded"},
	} {
		q := backend(t, c.db, postgres.Options{})
		enqueue(t, q, &queue.Job{Kind: "test"})
		jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		for range 2 {
			tx, err := c.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _, err = q.Extend(ctx, time.Minute, jobs...)
		cancel()
		if err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
