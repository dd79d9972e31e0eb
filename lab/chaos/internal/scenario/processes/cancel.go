package processes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

var cancel = scenario.Scenario{
	Number: 36,
	Name:   "cancel",
	What:   "jobs that run and jobs that wait are cancelled while their worker is frozen, for less than its lease and for more, and while the server is paused",
	Run:    cancelFrozen,
}

const (
	leaseOfCancelled = 2 * time.Second
	// cancelledRunning and cancelledWaiting are the jobs of a round that run, and that wait.
	cancelledRunning = 16
	cancelledWaiting = 8
)

// cancelCase is what is frozen while jobs are cancelled.
type cancelCase struct {
	name   string
	freeze func(ctx context.Context, c *cancelling, holder *child.Process) error
	// cause is the cause with which the handlers' contexts end; nil if it may be ErrLost, too: the
	// worker cannot extend its leases.
	cause error
}

var cancelCases = []cancelCase{
	{"the worker is frozen for a quarter of its lease", freezeBriefly, queue.ErrCancelled},
	{"the worker is frozen until a rival has reclaimed its jobs", freezePastLease, queue.ErrLost},
	{"the server is paused for a quarter of a lease", pauseFor(leaseOfCancelled / 4), nil},
	{"the server is paused for two leases", pauseFor(2 * leaseOfCancelled), nil},
}

// cancelling is what the rounds of the scenario share.
type cancelling struct {
	h       *harness.Harness
	q       *postgres.Backend
	ids     []int64 // of the jobs of this round
	numbers []int
	causes  []string       // causes of handlers that are not the wanted ones
	slowest time.Duration  // from the return of Cancel, or from the end of the fault, until the last job is cancelled
	before  map[int]string // the rows before a worker that was frozen past its lease goes on
	changed []string       // rows that a late worker has changed
	counted []string       // calls of Cancel that returned a wrong count
}

func cancelFrozen(ctx context.Context, h *harness.Harness) error {
	db, err := sql.Open("pgx", h.DSN())
	if err != nil {
		return err
	}
	defer db.Close()
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	c := &cancelling{h: h, q: q}
	rounds := harness.Size(h, 10, 1)
	for round := range rounds * len(cancelCases) {
		if err := c.round(ctx, round, cancelCases[round%len(cancelCases)]); err != nil {
			return fmt.Errorf("round %d, %s: %w", round+1, cancelCases[round%len(cancelCases)].name, err)
		}
	}
	return c.audit(ctx, rounds)
}

// round cancels jobs of which some run and some wait, while something is frozen.
func (c *cancelling) round(ctx context.Context, round int, k cancelCase) error {
	const size = cancelledRunning + cancelledWaiting
	jobs := make([]*queue.Job, size)
	c.ids, c.numbers = nil, nil
	for i := range jobs {
		c.numbers = append(c.numbers, round*size+i)
		jobs[i] = peer.PlainJob(round*size + i)
		if i >= cancelledRunning {
			jobs[i].Delay = time.Second // they wait behind the others, and become due while something is frozen
		}
	}
	if err := c.q.Enqueue(ctx, nil, jobs...); err != nil {
		return err
	}
	if err := c.h.RecordAcks(c.numbers...); err != nil {
		return err
	}
	for _, j := range jobs {
		c.ids = append(c.ids, j.ID)
	}
	work := child.Work{Worker: peer.Worker{Concurrency: cancelledRunning, Lease: leaseOfCancelled}, Handler: "waiting"}
	holder, err := c.h.Worker(fmt.Sprintf("holder%d", round+1), work)
	if err != nil {
		return err
	}
	if err := c.h.WaitUntil(ctx, time.Minute, func() (bool, error) { return startedBy(ctx, c.h, holder.Name, cancelledRunning) }); err != nil {
		return fmt.Errorf("%s does not start its jobs: %w", holder.Name, err)
	}
	if err := k.freeze(ctx, c, holder); err != nil {
		return err
	}
	if err := errors.Join(c.awaitCause(ctx, holder.Name, k.cause), scenario.Stop(holder)); err != nil {
		return err
	}
	return c.compare(ctx)
}

// freezeBriefly cancels while the worker is frozen for less than its lease.
func freezeBriefly(ctx context.Context, c *cancelling, holder *child.Process) error {
	if _, err := c.h.Freeze(ctx, holder); err != nil {
		return err
	}
	if err := c.cancel(ctx); err != nil {
		return err
	}
	if err := c.h.Sleep(ctx, leaseOfCancelled/4); err != nil {
		return err
	}
	if err := holder.Thaw(); err != nil {
		return err
	}
	return c.awaitCancelled(ctx)
}

// freezePastLease cancels while the worker is frozen, until the worker of a rival has reclaimed the
// jobs. The frozen one changes nothing when it goes on.
func freezePastLease(ctx context.Context, c *cancelling, holder *child.Process) error {
	rival, err := c.h.Worker("rival of "+holder.Name, child.Work{Worker: peer.Worker{Concurrency: 1, Lease: leaseOfCancelled}, Handler: "waiting"})
	if err != nil {
		return err
	}
	if _, err := c.h.Freeze(ctx, holder); err != nil {
		return err
	}
	if err := c.cancel(ctx); err != nil {
		return err
	}
	if err := c.awaitCancelled(ctx); err != nil {
		return err
	}
	if c.before, err = rowsByNumber(ctx, c.h); err != nil {
		return err
	}
	return errors.Join(scenario.Stop(rival), holder.Thaw())
}

// compare notes which rows a worker has changed that was frozen past its lease.
func (c *cancelling) compare(ctx context.Context) error {
	after, err := rowsByNumber(ctx, c.h)
	for number, row := range c.before {
		if after[number] != row {
			c.changed = append(c.changed, fmt.Sprintf("job %d: %s", number, scenario.Difference(row, after[number])))
		}
	}
	c.before = nil
	return err
}

// pauseFor cancels while the server is paused for that long.
func pauseFor(d time.Duration) func(ctx context.Context, c *cancelling, _ *child.Process) error {
	return func(ctx context.Context, c *cancelling, _ *child.Process) error {
		f := audit.Fault{What: "server paused", At: time.Now()}
		if err := c.h.Server.Pause(); err != nil {
			return err
		}
		cancelled := make(chan error, 1)
		go func() { cancelled <- c.cancel(ctx) }()
		err := errors.Join(c.h.Sleep(ctx, d), c.h.Server.Resume())
		f.Until = time.Now()
		c.h.RecordFault(f)
		if err = errors.Join(err, <-cancelled); err != nil {
			return err
		}
		return c.awaitCancelled(ctx)
	}
}

// cancel cancels the jobs of this round.
func (c *cancelling) cancel(ctx context.Context) error {
	n, err := c.q.Cancel(ctx, nil, queue.Selection{IDs: c.ids})
	if n != len(c.ids) {
		c.counted = append(c.counted, fmt.Sprintf("%d of %d", n, len(c.ids)))
	}
	return err
}

// awaitCancelled waits until all jobs of this round are cancelled.
func (c *cancelling) awaitCancelled(ctx context.Context) error {
	begun := time.Now()
	live := 0
	err := c.h.WaitUntil(ctx, time.Minute, func() (ok bool, err error) {
		live, err = c.h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE status <> 'cancelled'`)
		return live == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d jobs are not cancelled: %w", live, err)
	}
	c.slowest = max(c.slowest, time.Since(begun))
	return nil
}

// awaitCause waits until the contexts of all handlers of the worker have ended, and notes the
// causes that are not the wanted one.
func (c *cancelling) awaitCause(ctx context.Context, worker string, cause error) error {
	causes, n := make(map[string]int), 0
	err := c.h.WaitUntil(ctx, 30*time.Second, func() (bool, error) {
		book, err := c.h.Ledger.Read(ctx)
		clear(causes)
		n = 0
		for _, entry := range book.Notes {
			if text, ok := strings.CutPrefix(entry.Text, child.ContextEnded); ok && entry.Worker == worker {
				causes[text]++
				n++
			}
		}
		return n == cancelledRunning, err
	})
	if err != nil {
		return fmt.Errorf("the contexts of %d handlers have ended, not of %d: %w", n, cancelledRunning, err)
	}
	if cause != nil && causes[cause.Error()] != n {
		c.causes = append(c.causes, fmt.Sprintf("%v instead of %q", causes, cause))
	}
	return nil
}

// audit fills in the row. A job that is cancelled is neither lost nor open.
func (c *cancelling) audit(ctx context.Context, rounds int) error {
	book, err := c.h.Ledger.Read(ctx)
	if err != nil {
		return err
	}
	cancelled, err := c.h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE status = 'cancelled' AND cancel_at IS NOT NULL AND finished_at IS NOT NULL`)
	if err != nil {
		return err
	}
	starts := make(map[int]int)
	for _, s := range book.Starts {
		starts[s.Number]++
	}
	twice, waited := 0, 0
	for number, n := range starts {
		twice += n - 1
		if number%(cancelledRunning+cancelledWaiting) >= cancelledRunning {
			waited++
		}
	}
	lasting := scenario.Count(book.Notes, func(n ledger.Entry) bool { return strings.HasPrefix(n.Text, child.ContextLasts) })
	r := c.h.Row
	r.Jobs, r.Faults, r.Duplicates, r.RecoveryMS = len(book.Acked), len(c.h.Faults()), twice, -1
	r.Lost = r.Jobs - cancelled
	r.Check(cancelled == r.Jobs, "jobs that are cancelled: all", "%d of %d", cancelled, r.Jobs)
	r.Check(len(c.counted) == 0, "calls of Cancel that returned a wrong count: 0", "%s", harness.FirstFew(c.counted))
	r.Check(twice == 0, "jobs that were started twice: 0", "%d", twice)
	r.Check(waited == 0, "jobs that were started although they waited when they were cancelled: 0", "%d", waited)
	r.Check(len(starts) == rounds*len(cancelCases)*cancelledRunning, "jobs that ran when they were cancelled", "%d", len(starts))
	r.Check(lasting == 0, "handlers whose contexts did not end: 0", "%d", lasting)
	r.CheckTime(len(c.causes) == 0, "causes other than ErrCancelled, and ErrLost after a reclaim: 0", "%s", harness.FirstFew(c.causes))
	r.Check(len(c.changed) == 0, "rows changed by those who came late: 0", "%s", harness.FirstFew(c.changed))
	r.CheckTime(c.slowest <= 2*leaseOfCancelled, "all are cancelled within 2 leases after the call, and after what was frozen goes on if that is later", "%.2f s at most; leases of %v", c.slowest.Seconds(), leaseOfCancelled)
	r.Note("a third of the jobs waited; the handlers of the others waited for the end of their contexts")
	return nil
}
