package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	osexec "os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// killedVariable is set for the process that TestReplaceBesideKills kills: it is the database.
const killedVariable = "ERRAND_KILLED_WORKER_DSN"

type reading struct{ Device, N int }

var record = queue.NewKind[reading]("reading.record")

// TestReplaceBesideKills: the last job that each writer has enqueued with Replace runs, although
// the process of the workers is killed again and again.
func TestReplaceBesideKills(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	const writers, kills = 8, 3
	dsn := postgrestest.DSN(t)
	db, _ := ways[0].open(t, dsn)
	q := backend(t, db, postgres.Options{})
	exec(t, db, `CREATE TABLE readings (device integer, n integer)`)
	var wg sync.WaitGroup
	var stop atomic.Bool
	var replaced atomic.Int64
	last := make([]int, writers)
	for device := range writers {
		wg.Go(func() {
			for !stop.Load() {
				last[device]++
				job := record.New(reading{Device: device, N: last[device]})
				job.Key, job.OnDuplicate, job.MaxAttempts = fmt.Sprint(device), queue.Replace, 1_000_000
				other := record.New(reading{Device: -1})
				other.Key, other.OnDuplicate, other.MaxAttempts = "shared", queue.Replace, 1_000_000
				if err := q.Enqueue(t.Context(), nil, job, other); err != nil {
					t.Errorf("Enqueue with Replace beside kills: %v", err)
					return
				}
				if job.Replaced {
					replaced.Add(1)
				}
				// The 8 writers still replace faster than the 4 slots run.
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for range kills {
		worker := startKilled(t, dsn)
		const ran = `SELECT count(*) FROM readings`
		before := value[int](t, db, ran)
		eventually(t, "jobs run", func() bool { return value[int](t, db, ran) > before+20 })
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}
	stop.Store(true)
	wg.Wait()
	worker := startKilled(t, dsn)
	defer func() { _ = worker.Process.Kill(); _ = worker.Wait() }()
	eventually(t, "no live job is left", func() bool {
		return value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running')`) == 0
	})
	for device, n := range last {
		if ran := value[int](t, db, `SELECT coalesce(max(n), 0) FROM readings WHERE device = $1`, device); ran != n {
			t.Errorf("device %d: the last job that ran is number %d of %d", device, ran, n)
		}
	}
	crashed := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE last_error LIKE 'errand: the lease of%'`)
	t.Logf("%d jobs enqueued by each writer, %d of all replaced others, %d were reclaimed after a kill", last[0], replaced.Load(), crashed)
	if replaced.Load() == 0 || crashed == 0 {
		t.Error("no job was replaced, or none was reclaimed")
	}
}

// startKilled starts a process that runs TestKilledWorker.
func startKilled(t *testing.T, dsn string) *osexec.Cmd {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWorker$")
	cmd.Env = append(os.Environ(), killedVariable+"="+dsn)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKilledWorker is the process that TestReplaceBesideKills kills, and nothing elsewhere.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv(killedVariable)
	if dsn == "" {
		t.Skip("started by TestReplaceBesideKills")
	}
	db, _ := ways[0].open(t, dsn)
	mux := queue.NewMux()
	record.Handle(mux, func(ctx context.Context, _ *queue.Job, r reading) error {
		_, err := db.ExecContext(ctx, `INSERT INTO readings SELECT $1, $2 FROM pg_sleep(0.01)`, r.Device, r.N)
		return err
	})
	w := engine.Worker{
		Backend: backend(t, db, postgres.Options{}), Handler: mux, Concurrency: 4, Lease: time.Second, Poll: 50 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
