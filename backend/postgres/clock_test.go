package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// freshClock returns a queue of a fresh database whose server's clock set changes: functions that
// hide those of pg_catalog add a stored interval to the time.
func freshClock(t *testing.T, o postgres.Options) (q *postgres.Backend, db *sql.DB, set func(off string)) {
	t.Helper()
	db, err := sql.Open("pgx", postgrestest.DSN(t)+"&search_path=clock,pg_catalog,public")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	exec(t, db, `CREATE SCHEMA clock; CREATE TABLE clock.shift (by interval); INSERT INTO clock.shift VALUES ('0')`)
	for _, name := range []string{"statement_timestamp", "clock_timestamp", "now", "transaction_timestamp"} {
		exec(t, db, `CREATE FUNCTION clock.`+name+`() RETURNS timestamptz STABLE LANGUAGE sql
			AS 'SELECT pg_catalog.`+name+`() + by FROM clock.shift'`)
	}
	return backend(t, db, o), db, func(off string) { exec(t, db, `UPDATE clock.shift SET by = $1::text::interval`, off) }
}

// wantReclaimed reclaims, and demands the jobs.
func wantReclaimed(t *testing.T, q driver.Reclaimer, when string, want ...*queue.Job) {
	t.Helper()
	got, err := q.Reclaim(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	id := func(all []*queue.Job) (ids []int64) {
		for _, j := range all {
			ids = append(ids, j.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if !slices.Equal(id(got), id(want)) {
		t.Errorf("reclaimed %s: got jobs %v, want %v", when, id(got), id(want))
	}
}

func claimFor(t *testing.T, q queue.Queue, n int, lease time.Duration) []*queue.Job {
	t.Helper()
	req := request(n)
	req.Lease = lease
	got, err := q.Claim(t.Context(), req)
	if err != nil || len(got) != n {
		t.Fatalf("Claim: got %d jobs, %v; want %d", len(got), err, n)
	}
	return got
}

// TestServerClockGoesForward: a jump beyond the lease takes no job from a worker that lives. The
// jobs of a dead worker are reclaimed when their lease would have ended without the jump.
func TestServerClockGoesForward(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	q, db, set := freshClock(t, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	enqueue(t, q, jobs(5)...)
	wantReclaimed(t, q, "before the jump")
	held := claimFor(t, q, 3, 30*time.Second)
	living, dead, guide := held[0], held[1], held[2]
	exec(t, db, `UPDATE errand.jobs SET locked_until = NULL WHERE id = $1`, guide.ID)

	set("1 hour")
	wantReclaimed(t, q, "by the statement that meets the jump")
	wantReclaimed(t, q, "after the jump")
	set("2 hours")
	wantReclaimed(t, q, "by the statement that meets a second jump")
	if lost, _, err := q.Extend(t.Context(), 30*time.Second, living); err != nil || len(lost) != 0 {
		t.Fatalf("Extend after the jump: lost %d, error %v", len(lost), err)
	}
	set("2 hours 5 seconds")
	wantReclaimed(t, q, "after a third jump")
	exec(t, db, `UPDATE errand.jobs SET locked_at = locked_at - interval '31 s', locked_until = locked_until - interval '31 s' WHERE id = $1`, dead.ID)
	exec(t, db, `UPDATE errand.jobs SET locked_at = locked_at - interval '9 minutes' WHERE id = $1`, guide.ID)
	wantReclaimed(t, q, "when a dead worker's lease is over", dead)

	late := claimFor(t, q, 1, 20*time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	wantReclaimed(t, q, "of what was claimed after the jump", late...)
	exec(t, db, `UPDATE errand.jobs SET locked_at = locked_at - interval '62 s' WHERE id = $1`, guide.ID)
	wantReclaimed(t, q, "when a guide's worker has not moved locked_at for ten minutes", guide)
	if n := strings.Count(log.String(), "the database's clock went forward"); n != 3 {
		t.Errorf("log: got %d records of three jumps:\n%s", n, log.String())
	}
}

// TestServerClockGoesBack: jobs that were claimed before do not wait for the clock to come to the
// end of their lease again, also if this process has not seen the jump.
func TestServerClockGoesBack(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	seen, db, set := freshClock(t, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	enqueue(t, seen, jobs(2)...)
	wantReclaimed(t, seen, "before the jump")
	set("2 seconds")
	wantReclaimed(t, seen, "before the jump, after a small one forward")
	held := claimFor(t, seen, 2, time.Second)
	set("-1 hour")
	started := backend(t, db, postgres.Options{})
	for _, q := range []*postgres.Backend{seen, started} {
		wantReclaimed(t, q, "as soon as the jump is seen")
	}
	if lost, _, err := seen.Extend(t.Context(), time.Minute, held[0]); err != nil || len(lost) != 0 {
		t.Fatalf("Extend after the jump: lost %d, error %v", len(lost), err)
	}
	time.Sleep(1100 * time.Millisecond)
	wantReclaimed(t, started, "when a dead worker's lease is over", held[1])
	exec(t, db, `UPDATE errand.jobs SET status = 'running', fence = 9, locked_by = 'w', locked_at = now() + interval '1 hour',
		locked_until = now() + interval '1 hour 50 milliseconds' WHERE id = $1`, held[1].ID)
	wantReclaimed(t, seen, "when a dead worker's lease is over, by the process that saw the jump", held[1])
	if n := strings.Count(log.String(), "the database's clock went back"); n != 1 {
		t.Errorf("log: got %d records of one jump:\n%s", n, log.String())
	}
}

// TestServerClockIsCorrected: the clock goes forward, and is put right, long after this process has
// begun. Leases that living workers have extended meanwhile begin in the future: the call that
// meets the jump back takes none of them.
func TestServerClockIsCorrected(t *testing.T) {
	t.Parallel()
	q, db, set := freshClock(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	other := backend(t, db, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	enqueue(t, q, jobs(2)...)
	both := []*postgres.Backend{q, other}
	const lease = 2 * time.Second
	for _, off := range []string{"0", "90 seconds"} {
		set(off)
		for _, b := range both {
			wantReclaimed(t, b, "at "+off)
		}
	}
	time.Sleep(lease + lease/2)
	held := claimFor(t, q, 2, lease)
	set("0")
	for _, b := range both {
		wantReclaimed(t, b, "by the call that meets the jump back")
	}
	if lost, _, err := q.Extend(t.Context(), time.Minute, held[0]); err != nil || len(lost) != 0 {
		t.Fatalf("Extend after the jump back: lost %d, error %v", len(lost), err)
	}
	time.Sleep(lease + lease/2)
	wantReclaimed(t, other, "when a dead worker's lease is over", held[1])
}

// TestDeadWorkerBeforeCorrection: a dead worker's job was claimed before the clock went forward and
// was put right. It is reclaimed when its lease is over.
func TestDeadWorkerBeforeCorrection(t *testing.T) {
	t.Parallel()
	q, _, set := freshClock(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	enqueue(t, q, jobs(1)...)
	for range 2 { // the first one may be slow
		wantReclaimed(t, q, "before the jumps")
	}
	dead := claimFor(t, q, 1, 2*time.Second)
	set("1 hour")
	wantReclaimed(t, q, "by the call that meets the jump")
	time.Sleep(50 * time.Millisecond) // the clock is put right to a time after the jump
	set("0")
	wantReclaimed(t, q, "by the call that meets the jump back")
	time.Sleep(2050 * time.Millisecond)
	wantReclaimed(t, q, "when the lease is over", dead...)
}

// TestServerClockIsCorrectedInPart: the clock goes back, and forward by less and then by more,
// before living workers have extended their leases.
func TestServerClockIsCorrectedInPart(t *testing.T) {
	t.Parallel()
	q, _, set := freshClock(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	enqueue(t, q, jobs(1)...)
	set("1 hour")
	wantReclaimed(t, q, "before the jumps")
	held := claimFor(t, q, 1, time.Minute)
	for _, off := range []string{"0", "30 minutes", "2 hours"} {
		set(off)
		wantReclaimed(t, q, "by the call that meets the jump to "+off)
		wantReclaimed(t, q, "after the jump to "+off)
	}
	if lost, _, err := q.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) != 0 {
		t.Fatalf("Extend after the jumps: lost %d, error %v", len(lost), err)
	}
}

// TestWorkerOverClockJumps: a job that runs while the server's clock goes forward by an hour,
// beside workers that reclaim, runs once and completes in its first attempt.
func TestWorkerOverClockJumps(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	q, db, set := freshClock(t, postgres.Options{Logger: quiet})
	enqueue(t, q, jobs(1)...)
	var runs atomic.Int32
	backends := []*postgres.Backend{q, backend(t, db, postgres.Options{Logger: quiet})}
	done := make(chan struct{})
	handler := queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		if runs.Add(1) > 1 {
			return nil
		}
		defer close(done)
		for i := range 10 { // as often as many workers would
			if i == 1 {
				set("1 hour")
			}
			for _, b := range backends {
				wantReclaimed(t, b, "while the job runs")
			}
			time.Sleep(30 * time.Millisecond)
		}
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, b := range backends {
		workers.Go(func() {
			if err := (engine.Worker{Backend: b, Handler: handler, Lease: 2 * time.Second, Logger: quiet}).Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	<-done
	cancel()
	workers.Wait()
	var status string
	var attempts int
	if err := db.QueryRow("SELECT status, attempts FROM errand.jobs").Scan(&status, &attempts); err != nil {
		t.Fatal(err)
	}
	if status != "completed" || attempts != 1 || runs.Load() != 1 {
		t.Errorf("got a job that is %s after %d attempts and %d runs, want completed after one", status, attempts, runs.Load())
	}
}

// TestSchedulesAfterClockGoesBack: an "@every" is not silent until the clock comes to its next tick
// again. A cron expression is: it has fired those ticks.
func TestSchedulesAfterClockGoesBack(t *testing.T) {
	t.Parallel()
	q, _, set := freshClock(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	err := q.SetSchedules(t.Context(), nil,
		queue.Schedule{Name: "every", Spec: "@every 5s", Job: &queue.Job{Kind: "k"}},
		queue.Schedule{Name: "minutely", Spec: "* * * * *", Job: &queue.Job{Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	fire := func(want int) (next time.Duration) {
		t.Helper()
		fired, next, err := q.FireSchedules(t.Context())
		if err != nil || fired != want {
			t.Fatalf("FireSchedules: got %d, %v; want %d", fired, err, want)
		}
		return next
	}
	wantReclaimed(t, q, "before the jump")
	set("-30 minutes")
	if next := fire(0); next < 29*time.Minute {
		t.Errorf("before the jump is known: next tick in %v, want in half an hour", next)
	}
	wantReclaimed(t, q, "by the call that meets the jump")
	if next := fire(0); next <= 0 || next > 5*time.Second {
		t.Errorf("after the jump: next tick in %v, want within 5 s", next)
	}
	all, err := q.Schedules(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("Schedules: got %d, %v", len(all), err)
	}
	if ahead := time.Until(all[1].Next); ahead < 0 || ahead > time.Minute {
		t.Errorf("a cron expression: next tick in %v by the old clock, want within a minute", ahead)
	}
	set("-29 minutes 54 seconds")
	postgres.ForgetTick(q)
	fire(1) // only "every"
}
