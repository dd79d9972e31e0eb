package processes

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/queue"
)

var ordered = scenario.Scenario{
	Number: 35,
	Name:   "ordered",
	What:   "ordered jobs of 200 groups, half of them in transactions that commit after later ones; 4 worker processes of 32 handlers are killed with SIGKILL and replaced",
	Run:    runOrdered,
}

const orderedGroups = 200

func runOrdered(ctx context.Context, h *harness.Harness) error {
	crew, err := h.Crew(4, child.Work{
		Worker:  peer.Worker{Concurrency: 32, Lease: leaseOfKilled},
		Handler: "ordered",
		Least:   2 * time.Millisecond,
		Most:    20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", h.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	e := &orderedEnqueuer{h: h, db: db, q: q, source: h.Source("enqueues"), jobs: make(map[int]*queue.Job)}
	defer e.rollback()
	for _, strike := range seed.Strikes(h.Source("kills"), harness.Size(h, 60, 6), 4, 500*time.Millisecond, 1500*time.Millisecond) {
		for until := time.Now().Add(strike.After); time.Now().Before(until); {
			if err := e.step(ctx); err != nil {
				return err
			}
			if err := h.Sleep(ctx, seed.Between(e.source, 0, 30*time.Millisecond)); err != nil {
				return err
			}
		}
		if err := crew.Kill(ctx, strike.Victim); err != nil {
			return err
		}
		if err := crew.Replace(strike.Victim); err != nil {
			return err
		}
	}
	if err := e.commitAll(); err != nil {
		return err
	}
	f, book, err := crew.Finish(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	return checkOrder(h, e, book)
}

// orderedEnqueuer enqueues ordered jobs, and keeps some of its transactions open for a while.
type orderedEnqueuer struct {
	h      *harness.Harness
	db     *sql.DB
	q      *postgres.Backend
	source *rand.Rand
	open   []lateCommit
	jobs   map[int]*queue.Job // by number
	late   int                // how many jobs were committed after jobs with higher IDs had been

	commits int
}

type lateCommit struct {
	tx      *sql.Tx
	numbers []int
	since   int // how many transactions had been committed before
}

// step enqueues up to 20 jobs: at once, or in a transaction that is committed some steps later.
func (e *orderedEnqueuer) step(ctx context.Context) error {
	numbers := make([]int, 1+e.source.IntN(20))
	jobs := make([]*queue.Job, len(numbers))
	for i := range numbers {
		numbers[i] = len(e.jobs)
		jobs[i] = peer.PlainJob(numbers[i])
		jobs[i].Group, jobs[i].Ordered = fmt.Sprintf("g%03d", e.source.IntN(orderedGroups)), true
		e.jobs[numbers[i]] = jobs[i]
	}
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	e.open = append(e.open, lateCommit{tx, numbers, e.commits})
	if err := e.q.Enqueue(ctx, tx, jobs...); err != nil {
		return err
	}
	if e.source.IntN(2) == 0 {
		return e.commit(len(e.open) - 1)
	}
	if len(e.open) > e.source.IntN(8) {
		return e.commit(0)
	}
	return nil
}

func (e *orderedEnqueuer) commit(i int) error {
	c := e.open[i]
	e.open = slices.Delete(e.open, i, i+1)
	if err := c.tx.Commit(); err != nil {
		return err
	}
	if e.commits > c.since {
		e.late += len(c.numbers)
	}
	e.commits++
	return e.h.RecordAcks(c.numbers...)
}

func (e *orderedEnqueuer) commitAll() error {
	for len(e.open) > 0 {
		if err := e.commit(0); err != nil {
			return err
		}
	}
	return nil
}

func (e *orderedEnqueuer) rollback() {
	for _, c := range e.open {
		_ = c.tx.Rollback()
	}
}

// orderedRun is one run of an ordered job.
type orderedRun struct {
	ledger.Entry
	id    int64
	claim time.Time // when its claim began
	until time.Time // when it had its effect, or its process had been killed
}

// checkOrder demands that no two runs of a group overlap, and that no job is claimed while a job of
// its group with a lower ID is committed and has not ended.
func checkOrder(h *harness.Harness, e *orderedEnqueuer, book ledger.Book) error {
	groups, err := orderedRuns(e, book, h.Faults())
	if err != nil {
		return err
	}
	var overlaps, inversions []string
	for group, runs := range groups {
		for i, r := range runs {
			if i > 0 && r.At.Before(runs[i-1].until) {
				overlaps = append(overlaps, fmt.Sprintf("group %s: job %d began %v before the end of job %d", group, r.Number, runs[i-1].until.Sub(r.At), runs[i-1].Number))
			}
			for _, later := range runs[i+1:] {
				if later.id < r.id && book.Acked[later.Number].Before(r.claim) {
					inversions = append(inversions, fmt.Sprintf("group %s: job %d ran before job %d", group, r.Number, later.Number))
				}
			}
		}
	}
	h.Row.Check(len(overlaps) == 0, "runs that overlap with another run of their group: 0", "%s", harness.FirstFew(overlaps))
	h.Row.Check(len(inversions) == 0, "jobs that ran before a job of their group with a lower ID that was committed: 0", "%s", harness.FirstFew(inversions))
	h.Row.Check(e.late > 0, "jobs that were committed after others with higher IDs: some", "%d of %d, in %d groups", e.late, len(e.jobs), len(groups))
	return nil
}

// orderedRuns returns the runs of each group, in the order in which they began.
func orderedRuns(e *orderedEnqueuer, book ledger.Book, faults []audit.Fault) (map[string][]orderedRun, error) {
	type key struct{ number, attempt int }
	ends, claims, killed := make(map[key]time.Time), make(map[key]time.Time), make(map[string]time.Time)
	for _, f := range faults {
		killed[f.Worker] = f.At
	}
	for _, entry := range book.Effects {
		ends[key{entry.Number, entry.Attempt}] = entry.At
	}
	for _, n := range book.Notes {
		if text, ok := strings.CutPrefix(n.Text, child.ClaimBegan); ok {
			at, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			claims[key{n.Number, n.Attempt}] = time.UnixMicro(at)
		}
	}
	groups := make(map[string][]orderedRun)
	for _, s := range book.Starts { // they are ordered by time
		k, job := key{s.Number, s.Attempt}, e.jobs[s.Number]
		r := orderedRun{Entry: s, id: job.ID, claim: claims[k], until: ends[k]}
		if r.until.IsZero() {
			r.until = killed[s.Worker]
		}
		if r.claim.IsZero() || r.until.IsZero() {
			return nil, fmt.Errorf("the run of job %d, attempt %d, has no claim or no end", s.Number, s.Attempt)
		}
		groups[job.Group] = append(groups[job.Group], r)
	}
	return groups, nil
}
