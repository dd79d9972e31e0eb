package data

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var head = scenario.Scenario{
	Number: 26,
	Name:   "head",
	What:   "jobs that no worker handles, or that are not yet due, stand at the head of the queue while others are enqueued in transactions of 50 ms",
	Alone:  true,
	Run:    standAtHead,
}

const (
	probePause     = 20 * time.Millisecond // 50 jobs a second
	probeHold      = 50 * time.Millisecond // how long the transaction of each probe stays open
	maxDelayBehind = 50 * time.Millisecond // how much later jobs may start than without a head
)

// probePriorities are the priorities of the measured jobs, in turns.
var probePriorities = []int32{0, 5}

// headSQL makes $1 jobs of a kind that no worker handles, with the priority $2, due after $3
// seconds.
const headSQL = `INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at)
	SELECT 'default', 'chaos.retired', '{"number": -1}', $2, now() + $3 * interval '1 second' FROM generate_series(1, $1::integer)`

// headCase describes the jobs at the head of the queue.
type headCase struct {
	what       string
	priority   int
	dueSeconds int
}

var headCases = []headCase{
	{"due jobs of a kind that nobody handles", 0, -3600},
	{"such jobs of a more urgent priority", -1, -3600},
	{"jobs of a more urgent priority that are due in a day", -1, 86400},
}

func standAtHead(ctx context.Context, h *harness.Harness) error {
	crew, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: 10}})
	if err != nil {
		return err
	}
	p, err := newProber(h)
	if err != nil {
		return err
	}
	defer p.db.Close()
	lasting := harness.Size(h, 30*time.Second, 4*time.Second)
	if _, err := p.probe(ctx, time.Second); err != nil { // opens connections and prepares plans
		return err
	}
	calm, err := p.probe(ctx, lasting)
	if err != nil {
		return err
	}
	for _, size := range harness.Size(h, []int{5_000, 1_000_000}, []int{5_000}) {
		for _, c := range headCases {
			found, err := p.probeBehind(ctx, c, size, lasting)
			if err != nil {
				return err
			}
			for _, priority := range probePriorities {
				p99, usual := percentile(found[priority], 99), percentile(calm[priority], 99)
				h.Row.CheckTime(p99 <= usual+maxDelayBehind, fmt.Sprintf("behind %d %s, priority %d: start p99 ≤ 50 ms above that behind nothing", size, c.what, priority),
					"%.0f ms, median %.0f; behind nothing %.0f", milliseconds(p99), milliseconds(percentile(found[priority], 50)), milliseconds(usual))
			}
		}
	}
	f, _, err := crew.Finish(ctx)
	h.CheckDuplicates(f)
	return err
}

// prober enqueues jobs and measures how long after their commit they start.
type prober struct {
	harness *harness.Harness
	db      *sql.DB
	q       *postgres.Backend
	next    int // the number of the next job
}

func newProber(h *harness.Harness) (*prober, error) {
	db, err := sql.Open("pgx", h.DSN("application_name", "prober"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &prober{harness: h, db: db, q: q, next: 1}, nil
}

// probeBehind probes behind a head of this size, and removes the head afterwards.
func (p *prober) probeBehind(ctx context.Context, c headCase, size int, lasting time.Duration) (map[int32][]time.Duration, error) {
	if _, err := p.db.ExecContext(ctx, headSQL, size, c.priority, c.dueSeconds); err != nil {
		return nil, err
	}
	found, err := p.probe(ctx, lasting)
	if err != nil {
		return nil, err
	}
	return found, p.harness.Exec(ctx, `DELETE FROM errand.jobs WHERE kind = 'chaos.retired'`, `VACUUM errand.jobs`)
}

// probe enqueues jobs for the time lasting. It returns, by priority, how long after their commits
// they started.
func (p *prober) probe(ctx context.Context, lasting time.Duration) (map[int32][]time.Duration, error) {
	begun, first := time.Now(), p.next
	var mu sync.Mutex
	var errs []error
	committed := make(map[int]time.Time)
	var all sync.WaitGroup
	for tick := time.NewTicker(probePause); time.Since(begun) < lasting; <-tick.C {
		number := p.next
		p.next++
		all.Go(func() {
			err := p.enqueue(ctx, number)
			mu.Lock()
			defer mu.Unlock()
			committed[number] = time.Now()
			errs = append(errs, err)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	numbers := make([]int, 0, len(committed))
	for number := range committed {
		numbers = append(numbers, number)
	}
	if err := p.harness.RecordAcks(numbers...); err != nil {
		return nil, err
	}
	started, err := p.awaitStarts(ctx, begun, first, len(numbers))
	found := make(map[int32][]time.Duration)
	for number, at := range committed {
		late := time.Since(at)
		if start, ok := started[number]; ok {
			late = start.Sub(at)
		}
		found[priorityOf(number)] = append(found[priorityOf(number)], late)
	}
	return found, err
}

func priorityOf(number int) int32 { return probePriorities[number%len(probePriorities)] }

// enqueue enqueues one job in a transaction that stays open for a while.
func (p *prober) enqueue(ctx context.Context, number int) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	job := peer.PlainJob(number)
	job.Priority = priorityOf(number)
	if err := p.q.Enqueue(ctx, tx, job); err != nil {
		return err
	}
	time.Sleep(probeHold)
	return tx.Commit()
}

// awaitStarts waits, half a minute at most, until n jobs have started, numbered from first on. It
// returns when each did.
func (p *prober) awaitStarts(ctx context.Context, since time.Time, first, n int) (map[int]time.Time, error) {
	started := make(map[int]time.Time)
	deadline := time.Now().Add(30 * time.Second)
	err := p.harness.WaitUntil(ctx, time.Minute, func() (bool, error) {
		entries, err := p.harness.Ledger.StartsSince(ctx, since)
		for _, e := range entries {
			if _, seen := started[e.Number]; !seen && e.Number >= first {
				started[e.Number] = e.At
			}
		}
		return len(started) >= n || time.Now().After(deadline), err
	})
	return started, err
}

// percentile returns a percentile of a list, or 0 if the list is empty. It sorts the list.
func percentile(list []time.Duration, of int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)-1)*of/100]
}
