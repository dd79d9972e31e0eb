package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/errandhq/errand/queue"
)

// ledger has the accounts, and what went wrong with them.
type ledger struct {
	mu       sync.Mutex
	last     map[string]int // each account's last entry
	writing  map[string]bool
	written  int
	mistakes []string
}

var errBusy = errors.New("the ledger is busy")

// write writes an entry. Now and then it fails at the first attempt.
func (l *ledger) write(job *queue.Job, e Entry) error {
	l.begin(e)
	time.Sleep(5 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing[e.Account] = false
	if e.Number%failEvery == 0 && job.Attempt == 1 {
		return queue.RetryAfter(50*time.Millisecond, errBusy)
	}
	l.last[e.Account] = e.Number
	l.written++
	return nil
}

// begin notes a mistake if another entry of the account is being written, or if it is not the next.
func (l *ledger) begin(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, l.writing = make(map[string]int), make(map[string]bool)
	}
	if l.writing[e.Account] {
		l.mistakes = append(l.mistakes, fmt.Sprintf("two entries of %s at once", e.Account))
	}
	if last := l.last[e.Account]; e.Number != last+1 {
		l.mistakes = append(l.mistakes, fmt.Sprintf("%s: entry %d after %d", e.Account, e.Number, last))
	}
	l.writing[e.Account] = true
}

// pulses are the ticks of the schedule that have run.
type pulses struct {
	mu   sync.Mutex
	seen []time.Time
}

func (p *pulses) note(job *queue.Job) error {
	_, tick, ok := queue.TickOf(job)
	if !ok {
		return queue.Discard(errors.New("not enqueued by a schedule"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, tick)
	return nil
}
