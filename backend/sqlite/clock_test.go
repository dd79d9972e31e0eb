package sqlite_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// wantReclaimed reclaims, and demands the jobs.
func wantReclaimed(t *testing.T, q driver.Reclaimer, when string, want ...int64) {
	t.Helper()
	got, err := q.Reclaim(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, j := range got {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, want) {
		t.Errorf("reclaimed %s: got jobs %v, want %v", when, ids, want)
	}
}

// TestServerClockGoesForward: a jump of this machine's clock beyond the lease, or a suspension of
// it, takes no job from a worker that lives. The jobs of a dead worker are reclaimed when their
// lease would have ended without the jump. The clock jumps in that the past moves back.
func TestServerClockGoesForward(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, driver string) {
		var log bytes.Buffer
		db, q := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		enqueue(t, q, jobs(3)...)
		held := claim(t, q, 2) // for a minute
		const hour int64 = 3_600_000_000
		sqlite.SeeClock(q, time.Now().UnixMicro()-hour)
		execute(t, db, "UPDATE errand_jobs SET locked_at = locked_at - ?, locked_until = locked_until - ? WHERE status = 'running'", hour, hour)
		wantReclaimed(t, q, "by the call that meets the jump")
		wantReclaimed(t, q, "after the jump")
		if lost, _, err := q.Extend(t.Context(), time.Minute, held[0]); err != nil || len(lost) != 0 {
			t.Fatalf("Extend after the jump: lost %d, error %v", len(lost), err)
		}
		execute(t, db, "UPDATE errand_jobs SET locked_at = locked_at - 61000000, locked_until = locked_until - 61000000 WHERE id = ?", held[1].ID)
		wantReclaimed(t, q, "when a dead worker's lease is over", held[1].ID)
		late := claim(t, q, 2)
		execute(t, db, "UPDATE errand_jobs SET locked_until = locked_at + 1 WHERE id IN (?, ?)", late[0].ID, late[1].ID)
		time.Sleep(time.Millisecond)
		wantReclaimed(t, q, "of what was claimed after the jump", late[0].ID, late[1].ID)
		if n := strings.Count(log.String(), "the database's clock went forward"); n != 1 {
			t.Errorf("log: got %d records of one jump:\n%s", n, log.String())
		}
	})
}

// TestServerClockGoesBack: jobs that were claimed before do not wait for the clock to come to the
// end of their lease again, also if this process has not seen the jump.
func TestServerClockGoesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, driver string) {
		var log bytes.Buffer
		db, seen := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		enqueue(t, seen, jobs(2)...)
		const hour int64 = 3_600_000_000
		for i, q := range []*sqlite.Backend{seen, backend(t, db, sqlite.Options{})} {
			held := claim(t, q, 2-i)
			if q == seen {
				sqlite.SeeClock(q, time.Now().UnixMicro()+hour)
			}
			execute(t, db, "UPDATE errand_jobs SET locked_at = locked_at + ?, locked_until = locked_at + ? + 20000 WHERE fence = ?", hour, hour, held[0].Fence)
			wantReclaimed(t, q, "as soon as the jump is seen")
			if q == seen {
				if lost, _, err := q.Extend(t.Context(), time.Minute, held[0]); err != nil || len(lost) != 0 {
					t.Fatalf("Extend after the jump: lost %d, error %v", len(lost), err)
				}
			}
			time.Sleep(25 * time.Millisecond)
			wantReclaimed(t, q, "when a dead worker's lease is over", held[len(held)-1].ID)
		}
		if n := strings.Count(log.String(), "the database's clock went back"); n != 1 {
			t.Errorf("log: got %d records of one jump:\n%s", n, log.String())
		}
	})
}

// TestServerClockIsCorrected: the clock goes forward, and is put right, long after this process has
// begun. Leases that living workers have extended meanwhile begin in the future: the call that
// meets the jump back takes none of them.
func TestServerClockIsCorrected(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		enqueue(t, q, jobs(2)...)
		sqlite.SeeClock(q, time.Now().Add(-10*time.Minute).UnixMicro()) // when the process began
		sqlite.SeeClock(q, time.Now().Add(90*time.Second).UnixMicro())
		held := claim(t, q, 2) // for a minute
		execute(t, db, "UPDATE errand_jobs SET locked_at = locked_at + 90000000, locked_until = locked_until + 90000000 WHERE status = 'running'")
		wantReclaimed(t, q, "by the call that meets the jump back")
		if lost, _, err := q.Extend(t.Context(), time.Minute, held...); err != nil || len(lost) != 0 {
			t.Fatalf("Extend after the jump back: lost %d, error %v", len(lost), err)
		}
		wantReclaimed(t, q, "after the jump back")
	})
}

// TestDeadWorkerBeforeCorrection: a dead worker's job was claimed before the clock went forward and
// was put right. It is reclaimed when its lease is over.
func TestDeadWorkerBeforeCorrection(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		enqueue(t, q, jobs(1)...)
		dead := claim(t, q, 1) // for a minute
		execute(t, db, "UPDATE errand_jobs SET locked_at = locked_at - 50000000, locked_until = locked_at - 49950000 WHERE status = 'running'")
		sqlite.SeeClock(q, time.Now().Add(-10*time.Second).UnixMicro())
		sqlite.SeeClock(q, time.Now().Add(time.Hour).UnixMicro())
		wantReclaimed(t, q, "by the call that meets the jump back", dead[0].ID)
	})
}

// TestSchedulesAfterClockGoesBack: an "@every" is not silent until the clock comes to its next tick
// again.
func TestSchedulesAfterClockGoesBack(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
		if err := q.SetSchedules(t.Context(), nil, queue.Schedule{Name: "a", Spec: "@every 5s", Job: &queue.Job{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		const hour int64 = 3_600_000_000
		sqlite.SeeClock(q, time.Now().UnixMicro()+hour)
		execute(t, db, "UPDATE errand_schedules SET next_at = next_at + ?", hour)
		sqlite.ForgetTick(q)
		if _, next, err := q.FireSchedules(t.Context()); err != nil || next < 59*time.Minute {
			t.Fatalf("before the jump is known: next tick in %v, %v; want in an hour", next, err)
		}
		wantReclaimed(t, q, "by the call that meets the jump")
		if _, next, err := q.FireSchedules(t.Context()); err != nil || next <= 0 || next > 5*time.Second {
			t.Errorf("after the jump: next tick in %v, %v; want within 5 s", next, err)
		}
	})
}
