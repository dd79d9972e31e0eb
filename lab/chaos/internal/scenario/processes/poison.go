package processes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

var poison = scenario.Scenario{
	Number: 6,
	Name:   "poison",
	What:   "1,000 jobs at max attempts at the head, and poison jobs that kill their process",
	Alone:  true, // beside 8, whose payloads have 300 MB, the machine itself causes waits of a second
	Run:    poisonWorkers,
}

const (
	leaseOfPoisoned = time.Second
	// spent jobs have the numbers from 1 on, poison jobs those from firstPoison, and the others
	// those from firstOther.
	spent       = 1000
	firstPoison = 1_000_000
	firstOther  = 2_000_000
)

func poisonWorkers(ctx context.Context, h *harness.Harness) error {
	if err := enqueueSpent(ctx, h); err != nil {
		return err
	}
	crew, err := h.Crew(4, child.Work{
		Worker:  peer.Worker{Concurrency: 8, Lease: leaseOfPoisoned},
		Handler: "poison",
		Least:   50 * time.Millisecond, // 32 handlers could run some 320 jobs a second
		Most:    150 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	crew.Supervise()
	// The rate is fixed, so that waiting jobs do not hide in a backlog.
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{First: firstOther, Batch: 8, Rate: 180})
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 3*time.Second, time.Second)); err != nil {
		return err
	}
	p := phases{calm: time.Now()}
	if err := h.Sleep(ctx, harness.Size(h, 20*time.Second, 4*time.Second)); err != nil {
		return err
	}
	if err := p.play(ctx, h); err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	h.Row.Note("leases of %v; %d processes killed themselves", leaseOfPoisoned, h.Row.Faults)
	p.check(h, book)
	return checkDead(ctx, h, book)
}

// phases are the times at which the phases began.
type phases struct{ calm, head, poison, end time.Time }

// play puts the 1,000 spent jobs to the head, and then enqueues the poison jobs in waves.
func (p *phases) play(ctx context.Context, h *harness.Harness) error {
	p.head = time.Now()
	if err := h.Exec(ctx, `UPDATE errand.jobs SET locked_until = statement_timestamp() WHERE locked_by = 'gone'`); err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, 6*time.Second)); err != nil {
		return err
	}
	p.poison = time.Now()
	next := firstPoison
	for range harness.Size(h, 8, 1) {
		numbers := make([]int, harness.Size(h, 4, 2))
		for i := range numbers {
			numbers[i] = next + i
		}
		next += len(numbers)
		if err := h.Enqueue(ctx, peer.Poison, numbers...); err != nil {
			return err
		}
		if err := h.WaitUntil(ctx, time.Minute, func() (bool, error) { return poisonEnded(ctx, h) }); err != nil {
			return fmt.Errorf("the poison jobs do not end: %w", err)
		}
	}
	p.end = time.Now()
	return nil
}

// enqueueSpent makes 1,000 jobs as dead workers leave them: running, in their last attempt, more
// urgent and older than all others. Their leases last until play ends them.
func enqueueSpent(ctx context.Context, h *harness.Harness) error {
	numbers := make([]int, spent)
	for i := range numbers {
		numbers[i] = 1 + i
	}
	if err := h.Enqueue(ctx, peer.Plain, numbers...); err != nil {
		return err
	}
	return h.Exec(ctx, `UPDATE errand.jobs SET status = 'running', attempts = max_attempts, fence = nextval('errand.fences'), priority = -1,
		scheduled_at = scheduled_at - interval '1 hour', locked_by = 'gone', locked_at = now() - interval '1 minute', locked_until = now() + interval '1 day'`)
}

func poisonEnded(ctx context.Context, h *harness.Harness) (bool, error) {
	n, err := h.Count(ctx, `SELECT count(*) FROM errand.jobs WHERE kind = $1 AND status IN ('pending', 'running')`, peer.Poison)
	return n == 0, err
}

// share is the share of the usual rate that is demanded while there is poison. About once in a
// lease a poison job kills a worker, and its place is empty until a new process works. So one or
// two of the four workers are missing at a time, and half of them are left.
const share = 0.5

// check demands that the other jobs keep their rate.
func (p *phases) check(h *harness.Harness, book ledger.Book) {
	before, head, poisoned := audit.Rate(book.Effects, p.calm, p.head), audit.Rate(book.Effects, p.head, p.poison), audit.Rate(book.Effects, p.poison, p.end)
	h.Row.CheckTime(head >= 0.8*before, "≥ 80 % of the rate while the 1,000 are at the head", "%.0f of %.0f jobs/s", head, before)
	usual, behind := waits(book, p.calm, p.head), waits(book, p.head, p.poison)
	h.Row.CheckTime(behind <= time.Second, "p99 from acknowledgement to start ≤ 1 s behind the 1,000", "%.3f s, %.3f s before", behind.Seconds(), usual.Seconds())
	h.Row.CheckTime(poisoned >= share*before, "≥ 50 % of the rate while poison is about", "%.0f of %.0f jobs/s", poisoned, before)
	h.Row.Note("p99 from acknowledgement to start while poison is about: %.3f s", waits(book, p.poison, p.end).Seconds())
}

// waits returns the 99th percentile of the time from acknowledgement to first start, for jobs that
// were acknowledged between two times. A job that was never started has waited until now.
func waits(book ledger.Book, from, to time.Time) time.Duration {
	started := make(map[int]time.Time)
	for _, s := range slices.Backward(book.Starts) {
		started[s.Number] = s.At
	}
	var all []time.Duration
	for number, acked := range book.Acked {
		if number < firstOther || acked.Before(from) || !acked.Before(to) {
			continue
		}
		all = append(all, cmp.Or(started[number], time.Now()).Sub(acked))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*99/100]
}

// checkDead demands that exactly the spent and the poison jobs are dead, after as many attempts as
// they may have.
func checkDead(ctx context.Context, h *harness.Harness, book ledger.Book) error {
	jobs, err := h.Peer.Jobs(ctx, "")
	if err != nil {
		return err
	}
	starts := make(map[int]int)
	for _, s := range book.Starts {
		starts[s.Number]++
	}
	unstarted := notStarted(h.Faults(), book)
	var odd, innocent, alive []string
	poisoned, besides := 0, 0
	for _, j := range jobs {
		dead := j.State == peer.GivenUp && strings.Contains(j.Reason, "lease") && strings.Contains(j.Reason, "expired")
		said := fmt.Sprintf("job %d: %s in attempt %d of %d starts, %q", j.Number, j.State, j.Attempt, starts[j.Number], j.Reason)
		switch {
		case j.Number >= firstOther:
			if j.State != peer.Ended {
				innocent = append(innocent, said)
			}
		case j.Number >= firstPoison:
			poisoned++
			besides += unstarted[j.Number]
			if n := peer.PoisonAttempts(j.Number); !dead || j.Attempt != n || starts[j.Number]+unstarted[j.Number] != n {
				odd = append(odd, said)
			}
		case !dead || starts[j.Number] > 0:
			alive = append(alive, said)
		}
	}
	h.Row.Check(len(alive) == 0, "of the 1,000 dead with a reason, and never started again: all", "not so: %s", harness.FirstFew(alive))
	h.Row.Check(len(odd) == 0, "poison jobs dead with a reason after exactly 3 starts, or 5: all", "not so: %s of %d", harness.FirstFew(odd), poisoned)
	h.Row.Note("attempts of poison jobs that another poison job ended before their start, counted as starts: %d", besides)
	h.Row.Check(len(innocent) == 0, "other jobs that are not done: 0", "%s", harness.FirstFew(innocent))
	return nil
}

// notStarted counts each job's attempts without a start: another job had killed the process that
// held it.
func notStarted(faults []audit.Fault, book ledger.Book) map[int]int {
	started := make(map[run]bool)
	for _, s := range book.Starts {
		started[run{s.Number, s.Attempt}] = true
	}
	n := make(map[int]int)
	for _, f := range faults {
		for _, j := range f.Held {
			if !started[run{j.Number, j.Attempt}] {
				n[j.Number]++
			}
		}
	}
	return n
}
