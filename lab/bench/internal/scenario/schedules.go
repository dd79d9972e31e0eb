package scenario

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/server"
	"github.com/errandhq/errand/queue"
)

// A timetable is schedules that have ticks for a minute.
type timetable struct {
	name      string
	processes int
	every     time.Duration // between two ticks of a schedule
	over      time.Duration // the schedules' ticks are spread over this time
}

var timetables = []timetable{
	{name: "spread over a minute, 8 processes", processes: 8, every: time.Minute, over: time.Minute},
	{name: "all in one second, 8 processes", processes: 8, every: 6 * time.Second, over: time.Second},
	{name: "all at one moment, 8 processes", processes: 8, every: 6 * time.Second},
	{name: "all at one moment, 1 process", processes: 1, every: 6 * time.Second},
}

const (
	scheduleCount = 10_000
	// timetableStart is when the first tick comes, after the schedules are set.
	timetableStart = 5 * time.Second
	// killAfter is how long after the full second a process is killed.
	killAfter = 100 * time.Millisecond
	// lagTarget is the most that 99 % of the ticks may lag, in milliseconds.
	lagTarget = 200
)

var schedules = Scenario{
	Name:  "schedules",
	Title: "10,000 schedules have ticks for a minute, while a process is killed each second",
	Note: "The lag is the time from a tick until the statement that enqueues its job, by the database's clock. Each second the longest-lived " +
		"process is killed with SIGKILL, 0.1 s after a tick, and replaced; the single process is not killed. \"until started\" is the " +
		"time from a tick to the start of its job, for jobs whose process was not killed meanwhile. Twice: ticks with two jobs. Missed: " +
		"ticks without a job.",
	Cases:   timetableNames(),
	Systems: []string{"errand"},
	Rounds:  1,
	Chart:   []result.Metric{result.P99},
	Targets: timetableTargets(),
	Measure: measureSchedules,
}

func timetableNames() (names []string) {
	for _, t := range timetables {
		names = append(names, t.name)
	}
	return names
}

func timetableTargets() (targets []result.Target) {
	for _, t := range timetables {
		targets = append(targets, errandAtMost(lagTarget, result.P99, t.name),
			errandAtMost(0, result.Twice, t.name), errandAtMost(0, result.Missed, t.name))
	}
	return targets
}

func measureSchedules(ctx context.Context, h *harness.Harness, system peer.System, name string) (figures []result.Figure, err error) {
	var t timetable
	for _, t = range timetables {
		if t.name == name {
			break
		}
	}
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	crew, err := h.StartWorkers(ctx, harness.Drainage{System: system, Workers: t.processes})
	defer func() { crew.Kill() }()
	if err != nil {
		return nil, err
	}
	if err := crew.Begin(); err != nil {
		return nil, err
	}
	before, err := h.Read(ctx, system)
	if err != nil {
		return nil, err
	}
	first := time.Now().Truncate(time.Second).Add(max(h.Duration(timetableStart), 2*time.Second))
	if err := t.set(ctx, h, first); err != nil {
		return nil, err
	}
	var last time.Time // the ticks up to here are measured
	for second := range max(int(h.Duration(time.Minute)/time.Second), 1) {
		last = first.Add(time.Duration(second)*time.Second + killAfter)
		time.Sleep(time.Until(last))
		if t.processes == 1 {
			continue
		}
		crew[0].Kill()
		next, err := h.StartWorkers(ctx, harness.Drainage{System: system})
		crew = append(crew[1:], next...)
		if err == nil {
			err = next.Begin()
		}
		if err != nil {
			return nil, err
		}
	}
	if err := awaitTicks(ctx, h, last); err != nil {
		return nil, err
	}
	if _, err := crew.Stop(); err != nil {
		return nil, err
	}
	after, err := h.ReadLate(ctx, system)
	if err != nil {
		return nil, err
	}
	return t.audit(ctx, h, first, last, before, after)
}

// awaitTicks waits until every tick up to last is fired and every job has run, but no longer than
// ten seconds: a worker that was killed leaves jobs. It deletes each schedule after those ticks.
func awaitTicks(ctx context.Context, h *harness.Harness, last time.Time) error {
	end := fmt.Sprintf(`DELETE FROM errand.schedules WHERE next_at > to_timestamp(%d / 1e6)`, last.UnixMicro())
	const left = `SELECT (SELECT count(*) FROM errand.schedules)
		+ (SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running'))`
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err := h.Postgres.Exec(ctx, end); err != nil {
			return err
		}
		n, err := h.Postgres.Number(ctx, left)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// step returns how long after a schedule's first tick that of the next schedule comes.
func (t timetable) step(schedules int) time.Duration {
	return (t.over / time.Duration(schedules)).Truncate(time.Microsecond)
}

// ticks returns how many ticks the schedules have from first until last.
func (t timetable) ticks(schedules int, first, last time.Time) (n int) {
	for i := range schedules {
		if since := last.Sub(first.Add(time.Duration(i) * t.step(schedules))); since >= 0 {
			n += 1 + int(since/t.every)
		}
	}
	return n
}

// set sets the schedules, and commits when their first ticks are known.
func (t timetable) set(ctx context.Context, h *harness.Harness, first time.Time) error {
	n := h.Jobs(scheduleCount)
	var all []queue.Schedule
	for i := range n {
		all = append(all, queue.Schedule{
			Name: strconv.Itoa(i), Spec: "@every " + t.every.String(), Missed: queue.MissedAll,
			Job: &queue.Job{Kind: "bench.order", Payload: []byte(`{"order": 0, "to": "alice@example.com"}`)},
		})
	}
	return onBackend(h, func(db *sql.DB, b *postgres.Backend) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := b.SetSchedules(ctx, tx, all...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE errand.schedules SET next_at = $1::timestamptz + name::integer * $2::integer * interval '1 microsecond'`,
			first, t.step(n).Microseconds())
		if err != nil {
			return err
		}
		return tx.Commit()
	})
}

// audit compares the jobs in the table with the ticks that there were from first until last.
func (t timetable) audit(ctx context.Context, h *harness.Harness, first, last time.Time, before, after server.Reading) (figures []result.Figure, err error) {
	fired := fmt.Sprintf(`WITH fired AS (
		SELECT * FROM (
			SELECT headers->>'errand-schedule' AS name, (headers->>'errand-tick')::timestamptz AS tick, scheduled_at, started_at, attempts
			FROM errand.jobs) AS j
		WHERE tick <= to_timestamp(%d / 1e6)) `, last.UnixMicro())
	ticks := t.ticks(h.Jobs(scheduleCount), first, last)
	began, err := h.Postgres.Number(ctx, fired+`SELECT count(*) FROM fired WHERE attempts = 1 AND started_at IS NOT NULL`)
	if err == nil && began == 0 {
		all, _ := h.Postgres.Number(ctx, fired+`SELECT count(*) FROM fired`)
		err = fmt.Errorf("no lag: ten seconds after the last of %d ticks, %d were fired, and none of their jobs had started", ticks, all)
	}
	if err != nil {
		return nil, err
	}
	lag := func(share float64, until, where string) string {
		return fmt.Sprintf(`SELECT (percentile_disc(%v) WITHIN GROUP (ORDER BY extract(epoch FROM %s - tick)) * 1000000)::bigint
			FROM fired WHERE %s`, share, until, where)
	}
	for _, q := range []struct {
		metric result.Metric
		query  string
		unit   float64
	}{
		{result.P50, lag(0.5, "scheduled_at", "true"), 1000},
		{result.P99, lag(0.99, "scheduled_at", "true"), 1000},
		{result.Slowest, lag(1, "scheduled_at", "true"), 1000},
		{result.StartedP99, lag(0.99, "started_at", "attempts = 1"), 1000},
		{result.Ticks, `SELECT count(*) FROM fired`, 1},
		{result.Twice, `SELECT count(*) FROM (SELECT FROM fired GROUP BY name, tick HAVING count(*) > 1) AS t`, 1},
		{result.Missed, fmt.Sprintf(`SELECT %d - count(DISTINCT (name, tick)) FROM fired`, ticks), 1},
	} {
		n, err := h.Postgres.Number(ctx, fired+q.query)
		if err != nil {
			return nil, err
		}
		figures = append(figures, result.NewFigure(q.metric, float64(n)/q.unit))
		if q.metric == result.Ticks {
			figures = append(figures,
				result.NewFigure(result.ServerCPU, float64((after.CPU-before.CPU).Microseconds())/float64(n)),
				result.NewFigure(result.Commits, float64(after.Commits-before.Commits)/float64(n)))
		}
	}
	return figures, nil
}
