package doctor_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// threeHoursAgo is when the jobs of the schedule were enqueued.
const threeHoursAgo = `UPDATE errand.jobs SET created_at = created_at - interval '3 hours'`

// TestSchedules: doctor finds a schedule that skips ticks because of a job that has not ended, and
// one that nobody fires, and no healthy one.
func TestSchedules(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, db *sql.DB, q *postgres.Backend)
		level ops.Level
		says  []string // in the value or the advice
	}{
		{"healthy", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Done})
			opstest.Tick(t, db, 1)
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, threeHoursAgo+` WHERE status = 'completed'`)
		}, ops.OK, nil},
		{"has skipped a tick, and goes on", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			held := opstest.Claim(t, q, "", time.Minute)[0]
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
			opstest.Settle(t, q, queue.Outcome{Job: held, Action: queue.Done})
		}, ops.OK, nil},
		{"skips a tick only now", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Tick(t, db, 1)
		}, ops.OK, nil},
		{"overlaps", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
			opstest.Exec(t, db, `UPDATE errand.schedules SET overlap = true`)
		}, ops.OK, nil},
		{"behind a running job", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
		}, ops.Warn, []string{"hourly (job 1 is running)", "errand explain 1"}},
		{"behind a back-off", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Retry, Delay: time.Hour, Err: errors.New("no")})
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
		}, ops.Warn, []string{"hourly (job 1 is pending after 1 attempt)"}},
		{"behind a held job", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetRules(t, q, queue.Rule{OnDead: queue.HoldDead})
			opstest.SetSchedule(t, db, q, queue.Job{Group: "g", Ordered: true})
			opstest.Settle(t, q, queue.Outcome{Job: opstest.Claim(t, q, "", time.Minute)[0], Action: queue.Dead, Err: errors.New("no")})
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
		}, ops.Fail, []string{"hourly (job 1 is held)", "errand jobs redrive 1"}},
		{"nobody fires", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '2 minutes'`)
		}, ops.Warn, []string{"hourly (for 2m", "no worker is alive", "start workers"}},
		{"its workers cannot fire it", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Report(t, q, opstest.Idle)
			opstest.Exec(t, db, `UPDATE errand.schedules SET next_at = now() - interval '20 minutes'`)
		}, ops.Fail, []string{"hourly (for 20m)", "the log of a worker"}},
		{"of an older release, which took other times", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, `UPDATE errand.schedules SET spec = '*/90 * * * *'`)
		}, ops.Fail, []string{`this release refuses: hourly (Spec "*/90 * * * *"`}},
		{"of an older release, which took other zones", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, `UPDATE errand.schedules SET zone = 'localtime'`)
		}, ops.Fail, []string{`this release refuses: hourly (Zone "localtime"`}},
		{"paused", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			if _, err := q.Pause(t.Context(), nil, queue.Target{Schedule: "hourly"}, true); err != nil {
				t.Fatal(err)
			}
		}, ops.OK, nil},
		{"paused after it has skipped a tick", func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.SetSchedule(t, db, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Exec(t, db, threeHoursAgo)
			opstest.Tick(t, db, 1)
			if _, err := q.Pause(t.Context(), nil, queue.Target{Schedule: "hourly"}, true); err != nil {
				t.Fatal(err)
			}
		}, ops.OK, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.DSN(t)
			db := opstest.OpenPQ(t, dsn)
			prefix := opstest.Roles(t, db)
			q := opstest.Backend(t, db, postgres.Options{})
			c.make(t, db, q)
			observer := opstest.Backend(t, opstest.OpenPQ(t, dsn+"&role="+prefix+"observer"), postgres.Options{})
			for role, q := range map[string]*postgres.Backend{"owner": q, "observer": observer} {
				found := opstest.Examine(t, q, doctor.Options{})
				f := found["schedules"]
				if want := map[bool]int{true: 0, false: 1}[c.level == ops.OK]; len(found) != want || want == 1 && f.Level != c.level {
					t.Errorf("%s: found %v, want %s and nothing else", role, found, c.level)
				}
				for _, says := range c.says {
					if c.level != ops.OK && !strings.Contains(f.Value+" "+f.Advice, says) {
						t.Errorf("%s: got %q → %q, want %q", role, f.Value, f.Advice, says)
					}
				}
			}
		})
	}
}

// manySchedules is a queue with schedules whose last jobs all have that status. It counts the jobs
// that are read.
type manySchedules struct {
	*queuetest.Queue
	status queue.Status
	read   int
}

func (m *manySchedules) Schedules(context.Context) (all []queue.ScheduleRecord, err error) {
	for i := range 250 {
		all = append(all, queue.ScheduleRecord{
			Schedule: queue.Schedule{Name: fmt.Sprintf("s%03d", i), Spec: "@every 1m"},
			Next:     time.Now().Add(time.Minute), LastTick: time.Now(), LastJob: int64(1000 - i), Skipped: 1,
		})
	}
	return all, nil
}

func (m *manySchedules) Job(_ context.Context, id int64) (queue.Record, bool, error) {
	m.read++
	return queue.Record{Job: queue.Job{ID: id, CreatedAt: time.Now().Add(-time.Hour)}, Status: m.status}, true, nil
}

// TestManySkippingSchedules: of many schedules doctor reads the jobs of a hundred, the oldest ones,
// and says so.
func TestManySkippingSchedules(t *testing.T) {
	t.Parallel()
	const partly = "of the 250 that have ever skipped one, doctor looked at the 100 with the oldest jobs"
	for status, want := range map[queue.Status]doctor.Check{
		queue.StatusRunning:   {Level: ops.Warn, Value: "s249 (job 751 is running), s248 (job 752 is running)"},
		queue.StatusCompleted: {Level: ops.OK, Value: "250 schedules: none is late, none skips ticks"},
	} {
		q := &manySchedules{Queue: queuetest.New(queuetest.Options{}), status: status}
		report, err := doctor.Examine(t.Context(), q, doctor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Checks {
			if c.ID == "schedules" && (c.Level != want.Level || !strings.Contains(c.Value, want.Value) || !strings.HasSuffix(c.Value, partly)) {
				t.Errorf("%s: got %s, %q, want %s, %q, and %q", status, c.Level, c.Value, want.Level, want.Value, partly)
			}
		}
		if q.read != 100 {
			t.Errorf("%s: %d jobs were read, want 100", status, q.read)
		}
	}
}
