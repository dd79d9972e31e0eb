package sqlite_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestBrokenSchedules: schedules that cannot be fired are named, and do not keep others from being
// fired: their rows are no schedules, or their jobs cannot be enqueued.
func TestBrokenSchedules(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, b := fresh(t, driver, sqlite.Options{})
		for i := range 12 {
			s := queue.Schedule{Name: fmt.Sprintf("s%d", i), Spec: "@every 1h", Job: &queue.Job{Queue: "q", Kind: fmt.Sprintf("k%d", i)}}
			if err := b.SetSchedules(t.Context(), nil, s); err != nil {
				t.Fatal(err)
			}
		}
		execute(t, db, `UPDATE errand_schedules SET spec = 'x' WHERE name = 's1'`)
		execute(t, db, `UPDATE errand_schedules SET zone = 'Mars/Phobos' WHERE name = 's2'`)
		execute(t, db, `UPDATE errand_schedules SET spec = '*/90 * * * *' WHERE name = 's6'`) // taken once
		execute(t, db, `UPDATE errand_schedules SET zone = 'localtime' WHERE name = 's7'`)
		execute(t, db, `UPDATE errand_schedules SET job = 'no JSON' WHERE name = 's3'`)
		execute(t, db, `UPDATE errand_schedules SET job = '{}' WHERE name = 's4'`)
		execute(t, db, `CREATE TRIGGER no_k5 BEFORE INSERT ON errand_jobs WHEN new.kind = 'k5' BEGIN SELECT raise(ABORT, 'no k5'); END`)
		execute(t, db, `UPDATE errand_schedules SET next_at = 1`)
		var problems []string
		for range 20 {
			sqlite.ForgetTick(b)
			if _, _, err := b.FireSchedules(t.Context()); err != nil {
				problems = append(problems, err.Error())
			}
		}
		all := strings.Join(problems, "\n")
		for _, name := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7"} {
			if !strings.Contains(all, `"`+name+`"`) {
				t.Errorf("no error names schedule %s: %s", name, all)
			}
		}
		jobs, err := b.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"q"}, Limit: 20, Lease: time.Minute, Worker: "w"})
		if err != nil || len(jobs) != 5 {
			t.Errorf("jobs of five schedules beside seven broken ones: got %d, error %v", len(jobs), err)
		}
		if records, err := b.Schedules(t.Context()); err != nil || len(records) != 12 {
			t.Errorf("Schedules: got %d, error %v; want 12", len(records), err)
		}
		for i := 1; i <= 7; i++ {
			if changed, err := b.Pause(t.Context(), nil, queue.Target{Schedule: "s" + strconv.Itoa(i)}, true); !changed || err != nil {
				t.Errorf("Pause of the broken schedule %d: got %v, error %v", i, changed, err)
			}
		}
	})
}

// TestManyMissedTicks: however many ticks were missed, and however long their payloads are, the
// write lock is held for at most a thousand jobs and eight megabytes. What is left stays due. Ticks
// are a month apart: none comes while the test fires them.
func TestManyMissedTicks(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		for _, c := range []struct{ schedules, bytes, calls int }{{25, 0, 3}, {3, 100_000, 4}} {
			db, b := fresh(t, driver, sqlite.Options{})
			payload := json.RawMessage(`"` + strings.Repeat("x", c.bytes) + `"`)
			for i := range c.schedules {
				s := queue.Schedule{Name: fmt.Sprintf("s%d", i), Spec: "0 0 1 * *", Missed: queue.MissedAll, Job: &queue.Job{Queue: "q", Kind: "k", Payload: payload}}
				if err := b.SetSchedules(t.Context(), nil, s); err != nil {
					t.Fatal(err)
				}
			}
			execute(t, db, `UPDATE errand_schedules SET next_at = next_at - 473385600000000`)
			calls, jobs, bytes := 0, 0, 0
			for next := time.Duration(0); next == 0; calls++ {
				var err error
				if _, next, err = b.FireSchedules(t.Context()); err != nil {
					t.Fatal(err)
				}
				var n, size int
				if err := db.QueryRowContext(t.Context(), `SELECT count(*), coalesce(sum(length(payload)), 0) FROM errand_jobs`).Scan(&n, &size); err != nil {
					t.Fatal(err)
				}
				if n-jobs > 1000 || size-bytes > 8<<20 {
					t.Errorf("call %d: got %d jobs with %d bytes, want at most 1000 with %d", calls, n-jobs, size-bytes, 8<<20)
				}
				jobs, bytes = n, size
			}
			if jobs != 100*c.schedules || calls > c.calls {
				t.Errorf("%d schedules with %d bytes: got %d jobs in %d calls, want %d in %d", c.schedules, c.bytes, jobs, calls, 100*c.schedules, c.calls)
			}
		}
	})
}
