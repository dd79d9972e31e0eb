package processes

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
)

var schedules = scenario.Scenario{
	Number: 34,
	Name:   "schedules",
	What:   "120 schedules each second, some of them edited, paused and declared anew all the time; 8 workers with four different clocks are killed with SIGKILL and replaced",
	Alone:  true, // building the program with the shifted clock uses the whole CPU
	Run:    fireSchedules,
}

const (
	steady = 100 // schedules that nobody edits
	edited = 20
)

func fireSchedules(ctx context.Context, h *harness.Harness) error {
	program, err := shiftedProgram(ctx, h)
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", h.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	crew, err := h.MixedCrew(8, func(place int) child.Work {
		return child.Work{Worker: peer.Worker{Concurrency: 8, Lease: leaseOfShifted}, Handler: "silent", Host: shiftedHost(program, place%len(shifts))}
	})
	if err != nil {
		return err
	}
	if err := b.SetSchedules(ctx, nil, eachSecond("steady", steady)...); err != nil {
		return err
	}
	source := h.Source("schedules")
	kills := harness.Size(h, 120, 12)
	for range kills {
		for range 3 {
			if err := h.Sleep(ctx, seed.Between(source, 50*time.Millisecond, 500*time.Millisecond)); err != nil {
				return err
			}
			if err := editSome(ctx, b, source); err != nil {
				return err
			}
		}
		place := source.IntN(8)
		if err := crew.Kill(ctx, place); err != nil {
			return err
		}
		if err := crew.Replace(place); err != nil {
			return err
		}
	}
	if err := h.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := crew.Stop(); err != nil {
		return err
	}
	return auditSchedules(ctx, h)
}

// eachSecond returns schedules with a tick each second, none of which may be left out.
func eachSecond(name string, n int) (all []queue.Schedule) {
	for i := range n {
		s := queue.Schedule{Name: fmt.Sprintf("%s-%03d", name, i), Spec: "@every 1s", Missed: queue.MissedAll, Job: peer.PlainJob(i)}
		all = append(all, s)
	}
	return all
}

// editSome changes some of the schedules that are edited, in one of four ways.
func editSome(ctx context.Context, b *postgres.Backend, source *rand.Rand) error {
	all := eachSecond("edited", edited)
	from := source.IntN(edited)
	some := all[from:min(from+5, edited)]
	var names []string
	for i := range some {
		names = append(names, some[i].Name)
		some[i].Spec = []string{"@every 1s", "@every 2s", "* * * * *"}[source.IntN(3)]
	}
	var err error
	switch source.IntN(4) {
	case 0:
		paused := source.IntN(2) == 0
		for i := 0; i < len(names) && err == nil; i++ {
			_, err = b.Pause(ctx, nil, queue.Target{Schedule: names[i]}, paused)
		}
	case 1:
		_, err = b.DeclareSchedules(ctx, nil, queue.Declaration{Schedules: some, Release: 1 + source.Int64N(1000)})
	default:
		err = b.SetSchedules(ctx, nil, some...)
	}
	return err
}

// auditSchedules compares the jobs in the table with the ticks that there were.
func auditSchedules(ctx context.Context, h *harness.Harness) error {
	const ticks = `WITH t AS (
		SELECT headers->>'errand-schedule' AS name, (headers->>'errand-tick')::timestamptz AS tick, scheduled_at FROM errand.jobs) `
	count := func(query string) (n int) {
		n, err := h.Count(ctx, ticks+query)
		if err != nil {
			h.Row.Check(false, "the audit", "%v", err)
		}
		return n
	}
	h.Row.Jobs = count(`SELECT count(*) FROM t`)
	twice := count(`SELECT count(*) FROM (SELECT FROM t GROUP BY name, tick HAVING count(*) > 1) AS d`)
	again := count(`SELECT sum(skipped) FROM errand.schedules`)
	silent := count(`SELECT count(*) FROM errand.schedules s WHERE name LIKE 'steady%' AND NOT EXISTS (SELECT FROM t WHERE t.name = s.name)`)
	gaps := count(`SELECT count(*) FROM (
		SELECT tick - lag(tick) OVER (PARTITION BY name ORDER BY tick) AS step FROM t WHERE name LIKE 'steady%') AS s
		WHERE step <> interval '1 second'`)
	behind := count(`SELECT count(*) FROM errand.schedules s WHERE name LIKE 'steady%'
		AND last_tick IS DISTINCT FROM (SELECT max(tick) FROM t WHERE t.name = s.name)`)
	lag := count(`SELECT round(1000 * percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM scheduled_at - tick)))::int FROM t WHERE name LIKE 'steady%'`)
	h.Row.Faults = len(h.Faults())
	r := h.Row
	r.Check(h.Row.Jobs > 0 && silent == 0, "steady schedules without a tick: 0", "%d, of %d jobs", silent, h.Row.Jobs)
	r.Check(twice == 0, "ticks with two jobs: 0", "%d", twice)
	r.Check(again == 0, "ticks that were fired again, and were duplicates: 0", "%d", again)
	r.Check(gaps == 0, "ticks that are missing: 0", "%d", gaps)
	r.Check(behind == 0, "schedules whose last tick has no job: 0", "%d", behind)
	r.Note("99 %% of the ticks of the schedules that nobody edits were fired within %d ms", lag)
	return nil
}
