package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue/driver"
)

// Reports of workers.
//
// Problem: a thousand workers report themselves a hundred times a second, also while there is
// nothing to do. Each of these reports would be a statement.
// Rule: the gateway gathers reports, and writes them in one call of the backend, one call a second
// on average. A client is answered when its report is written. So it learns of a failure, and sends
// its next report as it would without a gateway. It also sends no stop before its last report is
// written: a report that is written after the stop would list the worker for an hour. For the same
// reason, calls follow each other in the order in which their reports came, and the report of a
// client that has hung up is not written.
// Ends: a stop is written within reportGather, with all reports that wait, and so is a report that
// comes while the gateway drains. Calls that were not needed are saved up for ten seconds, so
// reports of a few workers do not wait longer either. If a call fails, or does not end, its reports
// are written in two calls, and so on: a worker whose row is locked fails no others.
// Bounds: maxReports and maxReportBytes a call; one call at a time; maxSplits and reportPatience
// for the reports of a failed call.
// Shown by: TestIdleClients, TestReports*.

const (
	// reportPause is how long it takes from one call that writes reports to the next, on average.
	reportPause = time.Second
	// reportGather is how long each call waits for reports that come at the same time.
	reportGather = 10 * time.Millisecond
	// reportPatience is how long reports may take to be written: workers wait for three seconds.
	reportPatience = 3 * time.Second
	// severalTimeout is how long a call may take that writes reports of several workers, and
	// partTimeout one that writes some of these again.
	severalTimeout = time.Second
	partTimeout    = 200 * time.Millisecond
	// maxReports is how many reports one call writes, and maxReportBytes how much text they may have
	// together. A longer report has a call of its own.
	maxReports     = 1000
	maxReportBytes = 4 << 20
	// maxSplits is how many failed calls are repeated in halves: one report among maxReports takes
	// ten.
	maxSplits = 16
)

// reports are those that wait to be written.
type reports struct {
	mu   sync.Mutex
	next *reportBatch    // takes further reports; nil: the next report begins one
	last <-chan struct{} // closed when the batch that was begun last is written; nil: there was none
	paid time.Time       // when the next call is due
}

// reportBatch is the reports that one call writes.
type reportBatch struct {
	all      []*clientReport // in the order in which they came
	bytes    int
	wait     time.Duration // for further reports
	isUrgent bool
	urgent   chan struct{}   // closed when it does not wait any longer
	before   <-chan struct{} // closed when the batch before it is written; nil: there was none
	written  chan struct{}   // closed after the last call for it
}

// clientReport is a report that waits to be written.
type clientReport struct {
	driver.WorkerReport
	q       *request
	written chan struct{} // closed when err is valid
	err     error
}

// errUnwritten is the error of a report that was not written, because its client has hung up, or
// because the backend has panicked.
var errUnwritten = errors.New("not written")

// add adds a report to those that wait. If it is the first of a batch, the caller has to write
// that.
func (s *reports) add(c *clientReport) (b *reportBatch, isFirst bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := sizeOfReport(c.WorkerReport)
	if s.next != nil && (len(s.next.all) >= maxReports || s.next.bytes+size > maxReportBytes) {
		s.next.hurry()
		s.next = nil
	}
	if isFirst = s.next == nil; isFirst {
		s.begin()
	}
	b = s.next
	b.all = append(b.all, c)
	b.bytes += size
	if c.Stopped {
		b.hurry()
	}
	return b, isFirst
}

// begin begins a batch. The caller holds s.mu.
func (s *reports) begin() {
	written := make(chan struct{})
	s.next = &reportBatch{wait: s.pause(time.Now()), urgent: make(chan struct{}), before: s.last, written: written}
	s.last = written
}

// pause counts one call, and returns how long to wait before it. The caller holds s.mu.
func (s *reports) pause(now time.Time) time.Duration {
	if earliest := now.Add(-driver.ReportInterval); s.paid.Before(earliest) {
		s.paid = earliest
	}
	wait := min(s.paid.Sub(now), reportPause)
	s.paid = now.Add(wait + reportPause)
	return wait
}

// hurry ends the wait for further reports. The caller holds the mutex of the reports.
func (b *reportBatch) hurry() {
	if !b.isUrgent {
		b.isUrgent = true
		close(b.urgent)
	}
}

// sizeOfReport returns how many bytes of text a report has.
func sizeOfReport(r driver.WorkerReport) int {
	size := len(r.Name) + len(r.Host) + len(r.Version) + len(r.ClaimError)
	for _, o := range r.Refused {
		size += len(o.Error)
	}
	for _, names := range [][]string{r.Queues, r.Kinds} {
		for _, name := range names {
			size += len(name)
		}
	}
	return size
}

// await waits until it is time to write the batch.
func (b *reportBatch) await(draining <-chan struct{}) {
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.urgent:
	case <-draining:
	}
	time.Sleep(reportGather)
	if b.before != nil {
		<-b.before
	}
}

// take keeps further reports out of a batch. It returns those whose clients still wait, ordered by
// worker, and those of one worker in the order in which they came.
func (s *reports) take(b *reportBatch) []*clientReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == b {
		s.next = nil
	}
	all := slices.DeleteFunc(b.all, func(c *clientReport) bool { return c.q.Context().Err() != nil })
	slices.SortStableFunc(all, func(a, b *clientReport) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// writeReports writes a batch when it is time to, whether or not the client that came first still
// waits.
func (h *Handler) writeReports(fleet driver.Fleet, b *reportBatch) {
	defer close(b.written)
	b.await(h.draining.Done())
	ctx, cancel := context.WithTimeout(context.Background(), reportPatience)
	defer cancel()
	if failed, err := writeInParts(ctx, fleet, h.reports.take(b)); err != nil {
		h.options.Logger.Error("errand: gateway: reports of workers not written", "reports", failed, "error", err)
	}
}

// writeInParts writes reports in one call. It repeats a call that has failed in two halves. It
// returns how many reports were not written, and one of the errors.
func writeInParts(ctx context.Context, fleet driver.Fleet, all []*clientReport) (failed int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	parts, splits, timeout := [][]*clientReport{all}, 0, reportPatience
	if middle(all) > 0 {
		timeout = severalTimeout
	}
	for len(parts) > 0 {
		part, half := parts[0], middle(parts[0])
		parts = parts[1:]
		problem := writePart(ctx, fleet, part, timeout)
		timeout = partTimeout
		if problem != nil && half > 0 && splits < maxSplits && ctx.Err() == nil {
			splits++
			parts = append(parts, part[:half], part[half:])
			continue
		}
		if problem != nil {
			failed, err = failed+len(part), problem
		}
		for _, c := range part {
			c.err = problem
			close(c.written)
		}
	}
	return failed, err
}

// middle returns where to split reports that are ordered by worker, so that each worker's stay
// together; 0 for nowhere.
func middle(part []*clientReport) int {
	name := part[len(part)/2].Name
	if i := slices.IndexFunc(part, func(c *clientReport) bool { return c.Name == name }); i > 0 {
		return i
	}
	return max(slices.IndexFunc(part, func(c *clientReport) bool { return c.Name != name }), 0)
}

// writePart writes reports in one call.
func writePart(ctx context.Context, fleet driver.Fleet, part []*clientReport, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reports := make([]driver.WorkerReport, len(part))
	for i, c := range part {
		reports[i] = c.WorkerReport
	}
	return fleet.ReportWorkers(ctx, reports...)
}

// writeReport writes a report together with those of other clients. An error of the backend is in
// the log already.
func (q *request) writeReport(fleet driver.Fleet, r driver.WorkerReport) error {
	c := &clientReport{WorkerReport: r, q: q, written: make(chan struct{}), err: errUnwritten}
	b, isFirst := q.h.reports.add(c)
	if isFirst {
		q.h.writeReports(fleet, b)
	}
	select {
	case <-c.written:
	case <-b.written: // without it
	case <-q.Context().Done():
		return context.Cause(q.Context())
	}
	if c.err == nil {
		return nil
	}
	e := *q.h.explain(c.err)
	e.logged = nil
	return &e
}

// report records what a worker tells about itself.
func (q *request) report() (any, error) {
	fleet, err := has[driver.Fleet](q.h.queue, "Fleet")
	if err != nil {
		return nil, err
	}
	var in wire.ReportRequest
	if err := q.read(&in); err != nil {
		return nil, err
	}
	r := in.Report()
	if err := r.Check(); err != nil {
		return nil, err
	}
	for i, name := range in.Queues {
		if err := q.checkQueue(fmt.Sprintf("queues[%d]", i), name); err != nil {
			return nil, err
		}
	}
	if err := q.checkWorker("name", in.Name); err != nil {
		return nil, err
	}
	q.h.claimants.noteReport(in.Name)
	return wire.ReportAnswer{}, q.writeReport(fleet, r)
}
