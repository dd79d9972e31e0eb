package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Ledger logs and counts the ends of runs, as a [Worker] does: with its messages, keys and levels,
// and its limit for floods of similar failures. It is for programs that settle jobs for workers
// that do not do so themselves, such as a gateway. [NewLedger] makes one. It is safe for concurrent
// use.
type Ledger struct {
	name     string
	failures failureLog
	started  time.Time

	mu      sync.Mutex
	tallies tallies
}

// NewLedger returns a Ledger that logs to logger; nil means [slog.Default]. name is the program's,
// for the log and for its reports: like the Name of a [Worker].
func NewLedger(name string, logger *slog.Logger) *Ledger {
	if logger == nil {
		logger = slog.Default()
	}
	return &Ledger{name: name, failures: failureLog{log: logger}, started: time.Now(), tallies: tallies{all: make(map[tallyKey]*queue.Stats)}}
}

// Ended counts a run whose outcome the backend has recorded, and logs it, unless its worker has.
// o.Job needs ID, Kind, Queue, Attempt, MaxAttempts and Worker. The run took ran, after the job had
// waited for a worker for waited.
func (l *Ledger) Ended(o queue.Outcome, ran, waited time.Duration, shouldLog bool) {
	e := eventOf(o, ran)
	if e.Err == nil {
		e.Err = withoutError(e)
	}
	if shouldLog {
		l.failures.writeEnd(e, "worker", o.Job.Worker)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies.addRun(l.minuteNow(), e, waited)
}

// withoutError returns the error of an event that has none, nil for a success.
func withoutError(e queue.Event) error {
	switch e.Type {
	case queue.EventDead:
		return queue.Discard(nil)
	case queue.EventReleased:
		return queue.Snooze(e.Delay)
	case queue.EventCancelled:
		return queue.ErrCancelled
	case queue.EventRetried:
		return queue.RetryAfter(e.Delay, nil)
	}
	return nil
}

// Reclaimed logs and counts jobs that Reclaim has returned. It returns those that are dead.
func (l *Ledger) Reclaimed(jobs ...*queue.Job) (dead []*queue.Job) {
	events := reclaimedEvents(jobs)
	for _, e := range events {
		l.failures.writeReclaimed(e, "worker", l.name)
		if e.Type == queue.EventDead {
			dead = append(dead, e.Job)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies.addReclaimed(l.minuteNow(), events)
	return dead
}

// Report adds what was counted since the last Report to the fleet's statistics, and logs how many
// similar failures have no record of their own. If it fails, the next Report has the counts, too. A
// nil fleet keeps no statistics.
func (l *Ledger) Report(ctx context.Context, fleet driver.Fleet) error {
	l.failures.summarize(time.Now())
	l.mu.Lock()
	counted := l.tallies.take()
	l.mu.Unlock()
	if counted == nil || fleet == nil {
		return nil
	}
	now := l.started.Add(time.Since(l.started))
	err := fleet.ReportWorkers(ctx, driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: l.name}, Stopped: true, Stats: statsOf(counted, now)})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tallies.putBack(counted)
	}
	return err
}

// End logs how many similar failures have no record of their own. The Ledger may be used on.
func (l *Ledger) End() { l.failures.end() }

// minuteNow is that of a run.
func (l *Ledger) minuteNow() int64 { return l.started.Add(time.Since(l.started)).Unix() / 60 }
