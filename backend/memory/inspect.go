package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// slice is the most jobs that one call of Prune, or Drain's Reclaim, ends.
const slice = 1000

// Check implements [driver.Checker]. A queue in memory is always able to serve.
func (q *Queue) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return failed("check", err)
	}
	return nil
}

// Counts implements [driver.Inspector]. All its counts are exact.
func (q *Queue) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed("count", err)
	}
	return q.count(func(*queue.Record) bool { return true }), nil
}

// Tally implements [driver.Inspector]. It looks at all jobs.
func (q *Queue) Tally(ctx context.Context, which queue.Selection) ([]queue.StatusCount, error) {
	if err := cmp.Or(which.Check(driver.Statuses()...), ctx.Err()); err != nil {
		return nil, failed("tally", err)
	}
	statuses := which.Of(driver.Statuses()...)
	if which.IDs == nil {
		return q.count(func(r *queue.Record) bool { return slices.Contains(statuses, r.Status) && which.Matches(r) }), nil
	}
	ids := make(map[int64]bool, len(which.IDs))
	for _, id := range which.IDs {
		ids[id] = true
	}
	which.IDs = nil
	return q.count(func(r *queue.Record) bool {
		return ids[r.ID] && slices.Contains(statuses, r.Status) && which.Matches(r)
	}), nil
}

// count counts the committed rows for which want is true.
func (q *Queue) count(want func(*queue.Record) bool) []queue.StatusCount {
	q.mu.Lock()
	defer q.mu.Unlock()
	type group struct {
		queue  string
		status queue.Status
	}
	n := make(map[group]int64)
	for _, r := range q.rows {
		if r.committed.Status != "" && want(&r.committed) {
			n[group{r.committed.Queue, r.committed.Status}]++
		}
	}
	counts := make([]queue.StatusCount, 0, len(n))
	for g, jobs := range n {
		counts = append(counts, queue.StatusCount{Queue: g.queue, Status: g.status, Jobs: jobs, Exact: true})
	}
	return driver.SumCounts(counts)
}

// Jobs implements [driver.Inspector]. The zero Filter returns the newest hundred jobs.
func (q *Queue) Jobs(ctx context.Context, f queue.Filter) (page []queue.Record, next int64, err error) {
	f, err = f.Checked()
	if err != nil {
		return nil, 0, failed("list", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, failed("list", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	found := q.sorted(func(r *queue.Record) bool { return matches(f, r, at) })
	slices.Reverse(found)
	page = make([]queue.Record, 0, min(len(found), f.Limit))
	for _, r := range found[:cap(page)] {
		rec := shown(r)
		if f.Bare || f.NoPayload {
			rec.Payload, rec.Headers = nil, nil
		}
		if f.Bare {
			rec.Key, rec.LastError = "", ""
		}
		page = append(page, rec)
	}
	return page, f.Next(page), nil
}

func matches(f queue.Filter, r *queue.Record, at time.Time) bool {
	return (f.Queue == "" || f.Queue == r.Queue) &&
		(f.Kind == "" || f.Kind == r.Kind) &&
		(f.Status == "" || f.Status == r.Status) &&
		(f.Key == "" || f.Key == r.Key) &&
		(f.Group == "" || f.Group == r.Group) &&
		r.Attempt >= f.MinAttempts &&
		(!f.Expired || r.LeaseEnds.Before(time.Now())) &&
		(f.RunningFor == 0 || at.Sub(r.StartedAt) >= f.RunningFor) &&
		r.ID <= f.UpTo() &&
		isBetween(r.CreatedAt, f.CreatedFrom, f.CreatedTo) &&
		isBetween(r.FinishedAt, f.FinishedFrom, f.FinishedTo)
}

// isBetween reports whether t is at or after from, and before to; zero means no bound. The zero t
// is within no bound.
func isBetween(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.IsZero() && t.Before(to))
}

// sorted returns the committed rows for which want is true, in the order of their IDs.
func (q *Queue) sorted(want func(*queue.Record) bool) []*row {
	var found []*row
	for _, r := range q.rows {
		if r.committed.Status != "" && want(&r.committed) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, byID)
	return found
}

func byID(a, b *row) int { return cmp.Compare(a.id, b.id) }

// shown returns a copy of the row as Jobs lists it.
func shown(r *row) queue.Record {
	rec := r.committed
	rec.Job = copyOf(rec.Job)
	rec.History = nil
	rec.LeaseEnds = rec.LeaseEnds.Round(0)
	return rec
}

// Job implements [driver.Inspector].
func (q *Queue) Job(ctx context.Context, id int64) (rec queue.Record, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return rec, false, failed("look up", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.rows[id]
	if r == nil || r.committed.Status == "" {
		return rec, false, nil
	}
	rec = shown(r)
	rec.History = slices.Clone(r.committed.History)
	return rec, true, nil
}

// Prune implements [driver.Reclaimer].
func (q *Queue) Prune(ctx context.Context) (removed int, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, failed("prune", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := now()
	for r := q.ended.firstDue(at); r != nil && removed < slice; r = q.ended.firstDue(at) {
		q.ended.remove(r)
		q.remove(r)
		removed++
	}
	q.pruneBuckets(at)
	q.pruneWorkers(at)
	q.pruneStats(at)
	return removed, q.ended.firstDue(at) != nil, nil
}
