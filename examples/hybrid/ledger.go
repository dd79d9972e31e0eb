package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// ledger is what the visitors were told, and what the handlers have done. It knows nothing of
// errand's tables and keys.
type ledger struct {
	mu sync.Mutex

	committed, declined []int64         // orders
	failed              []error         // of orders that should have been committed
	acknowledged        map[string]bool // clicks whose Enqueue has returned nil
	unanswered          map[string]bool // clicks whose Enqueue cannot tell whether they are written
	refused             int             // clicks that are not written, as their Enqueue has said
	runs                map[string][]time.Time

	lost           map[string]bool // clicks whose worker has lost the job's lease, or its claim
	killed, mended time.Time
}

func newLedger() *ledger {
	return &ledger{
		acknowledged: map[string]bool{}, unanswered: map[string]bool{}, runs: map[string][]time.Time{}, lost: map[string]bool{},
	}
}

// noteOrder notes what a visitor was told of an order, and of the click that belongs to it.
func (l *ledger) noteOrder(id int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.committed = append(l.committed, id)
		l.acknowledged[orderClick(id)] = true
	case errors.Is(err, errDeclined):
		l.declined = append(l.declined, id)
	default:
		l.failed = append(l.failed, err)
	}
}

// noteClick notes what a visitor was told of a click. Visitors do not click again.
func (l *ledger) noteClick(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.acknowledged[name] = true
	case errors.Is(err, queue.ErrUnknown):
		l.unanswered[name] = true
	default:
		l.refused++
	}
}

// noteRun notes that a click is handled.
func (l *ledger) noteRun(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[name] = append(l.runs[name], time.Now())
}

// observe notes jobs that the worker has lost: see [engine.Worker].Observe.
func (l *ledger) observe(e queue.Event) {
	if e.Type != queue.EventLost || e.Job.Kind != Clicked.Name {
		return
	}
	c, err := Clicked.Args(e.Job)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[c.Name] = true
}

func (l *ledger) noteKill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed = time.Now()
}

func (l *ledger) noteRecovery() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = time.Now()
}

// outage returns how long the cluster has lacked a master or a replica.
func (l *ledger) outage() time.Duration { return l.mended.Sub(l.killed) }

func (l *ledger) handledSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// soFar says how far the day has got.
func (l *ledger) soFar() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("orders %d, clicks acknowledged %d, handled %d", len(l.committed), len(l.acknowledged), len(l.runs))
}
