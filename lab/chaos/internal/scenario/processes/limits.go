package processes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var limits = scenario.Scenario{
	Number: 38,
	Name:   "limited",
	What:   "at most 40 jobs at once and 4 of each of 30 groups; 8 worker processes of 40 handlers, one of which is killed with SIGKILL and replaced each second",
	Alone:  true,
	Run:    runLimits,
}

const (
	limitedRunning  = 40
	limitedPerGroup = 4
	limitedGroups   = 30
	limitedBacklog  = 3000
	limitedWorkers  = 8
	// limitedTakes is how long a job takes. 400 jobs a second leave a slow machine time to start a
	// process each second.
	limitedTakes = 100 * time.Millisecond
)

func runLimits(ctx context.Context, h *harness.Harness) error {
	l, err := newLimitedLoad(ctx, h, queue.Rule{Running: limitedRunning, PerGroup: limitedPerGroup})
	if err != nil {
		return err
	}
	defer l.db.Close()
	crew, err := h.Crew(limitedWorkers, child.Work{
		Worker: peer.Worker{Concurrency: limitedRunning, Lease: leaseOfKilled},
		Least:  limitedTakes,
		Most:   limitedTakes,
	})
	if err != nil {
		return err
	}
	if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) { return l.isFull(ctx) }); err != nil {
		return fmt.Errorf("the limit is not reached: %w", err)
	}
	source := h.Source("kills")
	for range harness.Size(h, 600, 15) {
		if err := l.sampleFor(ctx, time.Second); err != nil {
			return err
		}
		victim := source.IntN(limitedWorkers)
		if err := crew.Kill(ctx, victim); err != nil {
			return err
		}
		if err := crew.Replace(victim); err != nil {
			return err
		}
	}
	f, _, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	used := float64(l.running) / float64(l.samples*limitedRunning)
	h.Row.Check(l.most <= limitedRunning, "jobs that run at once: at most 40", "%d, in %d samples", l.most, l.samples)
	h.Row.Check(l.mostOfGroup <= limitedPerGroup, "jobs of a group that run at once: at most 4", "%d", l.mostOfGroup)
	h.Row.CheckTime(used >= 0.9, "places that are used: at least 90 %", "%.1f %%", 100*used)
	return nil
}

// limitedLoad keeps a backlog of jobs in groups, and samples how many run. What runs is what the
// table says: the jobs of a killed process do until they are reclaimed.
type limitedLoad struct {
	h    *harness.Harness
	db   *sql.DB
	q    *postgres.Backend
	jobs int // enqueued

	samples, running  int // running is the sum over all samples
	most, mostOfGroup int
}

// newLimitedLoad sets the rule of the queue and enqueues the first jobs. The caller closes the db.
func newLimitedLoad(ctx context.Context, h *harness.Harness, rule queue.Rule) (*limitedLoad, error) {
	db, err := sql.Open("pgx", h.DSN())
	if err != nil {
		return nil, err
	}
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l := &limitedLoad{h: h, db: db, q: q}
	if err := errors.Join(q.SetRules(ctx, nil, rule), l.refill(ctx)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// refill enqueues jobs of all groups.
func (l *limitedLoad) refill(ctx context.Context) error {
	numbers := make([]int, limitedBacklog)
	jobs := make([]*queue.Job, len(numbers))
	for i := range numbers {
		numbers[i] = l.jobs + i
		jobs[i] = peer.PlainJob(numbers[i])
		jobs[i].Group = fmt.Sprintf("g%02d", numbers[i]%limitedGroups)
	}
	l.jobs += len(jobs)
	if err := l.q.Enqueue(ctx, nil, jobs...); err != nil {
		return err
	}
	return l.h.RecordAcks(numbers...)
}

// look returns how many jobs wait, how many run, and how many of one group do, at one moment.
func (l *limitedLoad) look(ctx context.Context) (pending, running, ofGroup int, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(sum(waits), 0), coalesce(sum(runs), 0), coalesce(max(runs), 0)
		FROM (
			SELECT count(*) FILTER (WHERE status = 'pending') AS waits, count(*) FILTER (WHERE status = 'running') AS runs
			FROM errand.jobs
			WHERE status IN ('pending', 'running')
			GROUP BY job_group
		) AS by_group`).Scan(&pending, &running, &ofGroup)
	return pending, running, ofGroup, err
}

func (l *limitedLoad) isFull(ctx context.Context) (bool, error) {
	_, running, _, err := l.look(ctx)
	return running >= limitedRunning, err
}

// sampleFor samples for d, every 50 ms, and refills the backlog.
func (l *limitedLoad) sampleFor(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		pending, running, ofGroup, err := l.look(ctx)
		if err != nil {
			return err
		}
		l.samples++
		l.running += running
		l.most, l.mostOfGroup = max(l.most, running), max(l.mostOfGroup, ofGroup)
		if pending < limitedBacklog {
			if err := l.refill(ctx); err != nil {
				return err
			}
		}
		if err := l.h.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
