package migrating

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestRiverRunning: what a River worker runs is left to it, however often the script
// runs, and so is what somebody has locked.
func TestRiverRunning(t *testing.T) {
	h := withRiver(t)
	held := h.insert(t, "held", 1, &river.InsertOpts{Queue: "held"})
	begun, release := make(chan struct{}), make(chan struct{})
	await := h.start(t, "held", "held", func(context.Context, *river.Job[numbered]) error {
		close(begun)
		<-release
		return nil
	})
	wait(t, "River's worker", begun)
	tx, err := h.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM river_job WHERE id = $1 FOR UPDATE`, h.insert(t, "plain", 2, nil).ID); err != nil {
		t.Fatal(err)
	}
	h.insert(t, "plain", 3, nil)
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 1, inHand: 1, "left: running": 1})
	move(t, h.db, script(t, "river.sql")).check(t, report{inHand: 1, "left: running": 1})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	move(t, h.db, script(t, "river.sql")).check(t, report{"moved": 1, "left: running": 1})
	close(release)
	await(1)
	if got := h.get(t, held.ID).State; got != rivertype.JobStateCompleted {
		t.Errorf("the job that River held is %s, want completed", got)
	}
	if seen := workAll(t, h.db, "river.id"); len(seen) != 2 {
		t.Errorf("errand ran %d jobs, want 2", len(seen))
	}
}

// TestRiverLive: 600 jobs, River's workers and errand's at work, and the script
// run over and over until River has nothing left: each job runs once.
func TestRiverLive(t *testing.T) {
	h := withRiver(t)
	effects := newTally(t, h.db, liveJobs())
	params := make([]river.InsertManyParams, effects.want)
	for i := range params {
		params[i] = river.InsertManyParams{Args: numbered{i, "live"}}
	}
	if _, err := h.InsertMany(t.Context(), params); err != nil {
		t.Fatal(err)
	}

	old := h.client(t, river.Config{
		Queues:        map[string]river.QueueConfig{"default": {MaxWorkers: 20, FetchCooldown: 5 * time.Millisecond}},
		FetchCooldown: 5 * time.Millisecond,
		Workers: riverWorkers("live", func(ctx context.Context, job *river.Job[numbered]) error {
			effects.halt()
			return effects.note(ctx, h.db, job.Args.N, "River")
		}),
	})
	if err := old.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	mux := queue.NewMux()
	queue.NewKind[numbered]("live").Handle(mux, func(ctx context.Context, _ *queue.Job, v numbered) error {
		return effects.note(ctx, h.db, v.N, "errand")
	})
	worker := engine.Worker{Backend: backend(t, h.db), Handler: mux, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		stopped <- worker.Run(ctx)
	}()

	effects.moveAll(t, "river.sql")
	if err := old.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	effects.check(t, "River", "errand")
	if n := count(t, h.db, `SELECT count(*) FROM river_job WHERE state <> 'completed'`); n != 0 {
		t.Errorf("River still has %d jobs, want 0", n)
	}
	if n := count(t, h.db, `SELECT count(*) FROM errand.jobs WHERE status <> 'completed'`); n != 0 {
		t.Errorf("errand still has %d jobs, want 0", n)
	}
}
