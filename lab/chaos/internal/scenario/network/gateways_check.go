package network

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/queue"
)

// finish waits until all jobs are done, and checks what the faults have done to them.
func (f *fleet) finish(ctx context.Context, enqueuer *child.Process, begun, ended time.Time) error {
	found, book, err := scenario.Finish(ctx, f.h, f.crew, enqueuer)
	if err != nil {
		return err
	}
	cutsMade := f.cuts.total()
	f.h.CheckDuplicates(found)
	r := f.h.Row
	r.Faults += cutsMade
	gap, name := f.longestGap(book.Starts, begun, ended)
	r.CheckTime(gap <= remoteLease, "the workers of each process go on during the faults: no gap longer than a lease",
		"%.1f s at most, in %s", gap.Seconds(), name)
	r.Note("leases of %v; gateways frozen for %v; %d connections cut at requests to enqueue, claim, extend and settle: before they arrived, before they were answered, and with their answers",
		remoteLease, gatewayFrozen, cutsMade)
	return f.checkEnqueued(ctx, book)
}

// longestGap returns the longest time without a start in a process, and the process.
func (f *fleet) longestGap(starts []ledger.Entry, begun, ended time.Time) (gap time.Duration, name string) {
	last := make(map[string]time.Time)
	for _, worker := range f.crew.Names() {
		last[worker] = begun
	}
	see := func(worker string, at time.Time) {
		if took := at.Sub(last[worker]); took > gap {
			gap, name = took, worker
		}
		last[worker] = at
	}
	for _, s := range starts {
		if s.At.Before(ended) {
			see(s.Worker, s.At)
		}
	}
	for worker := range last {
		see(worker, ended)
	}
	return gap, name
}

// checkEnqueued compares what the enqueuer was told with the table: acknowledged jobs are there
// once, refused ones are not, and of a call in doubt all are there once, or none.
func (f *fleet) checkEnqueued(ctx context.Context, book ledger.Book) error {
	jobs, err := f.h.Peer.Jobs(ctx, "")
	if err != nil {
		return err
	}
	rows := make(map[int]int)
	for _, j := range jobs {
		rows[j.Number]++
	}
	var twice, refused, parts []string
	doubts, refusals := 0, 0
	for number := range rows {
		if rows[number] > 1 {
			twice = append(twice, fmt.Sprintf("job %d, %d rows", number, rows[number]))
		}
	}
	for _, n := range book.Notes {
		if !strings.HasPrefix(n.Text, child.Refused) {
			continue
		}
		written := 0
		for i := range n.Attempt {
			written += rows[n.Number+i]
		}
		text := fmt.Sprintf("job %d, %d rows of %d: %s", n.Number, written, n.Attempt, n.Text)
		switch {
		case !strings.Contains(n.Text, queue.ErrUnknown.Error()):
			if refusals++; written > 0 {
				refused = append(refused, text)
			}
		default:
			if doubts++; written > 0 && written < n.Attempt {
				parts = append(parts, text)
			}
		}
	}
	r := f.h.Row
	r.Check(len(twice) == 0, "jobs that were written twice: 0", "%s", harness.FirstFew(twice))
	r.Check(len(refused) == 0, "calls of Enqueue that failed for certain and have written a job: 0", "%s of %d", harness.FirstFew(refused), refusals)
	r.Check(len(parts) == 0, "calls with ErrUnknown: all jobs of the call are written, or none", "others: %s of %d", harness.FirstFew(parts), doubts)
	return nil
}
