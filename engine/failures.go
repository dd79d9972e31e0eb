package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

// failureLog writes records about failed jobs, and leaves out most records of a flood.
//
//   - Problem: thousands of jobs may fail in a second, for one reason. A record for each would fill
//     disks and hide the other records.
//   - Rule: of similar failures, maxSimilar a second get a record of their own. The others are
//     counted, and every summaryInterval one record says how many they were. Failures are similar
//     if they have the same message and kind, and errors that differ in digits only.
//   - Bounds: maxFailures different failures are told apart within one summaryInterval. All others
//     of a message are similar to each other, whatever their kinds and errors are.
//   - Test: TestFloodOfFailures.
type failureLog struct {
	log *slog.Logger

	mu      sync.Mutex
	similar map[failure]*similar
	began   time.Time // when the first failure of similar came
}

const (
	maxSimilar      = 5
	maxFailures     = 50
	summaryInterval = 10 * time.Second
)

// failure is what similar failures have in common. The kind and the shape of the error are empty
// for the failures that are not told apart.
type failure struct{ msg, kind, shape string }

// similar counts the similar failures of one summaryInterval.
type similar struct {
	level    slog.Level
	second   time.Time // since when logged counts
	logged   int       // how many got a record within that second
	omitted  int       // how many got none
	hasStack bool      // a record has shown the stack of the panic
	error    string    // the last error without a record
}

// write logs a failure, or counts it.
func (l *failureLog) write(level slog.Level, msg string, job *queue.Job, err error, attrs ...any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := queue.ErrorText(err)
	p, isPanic := errors.AsType[*queue.PanicError](err)
	hasRecord, withStack := l.admit(level, failure{msg, job.Kind, upkeep.ShapeOf(text)}, text, isPanic)
	if !hasRecord {
		return
	}
	attrs = append(append(jobAttrs(job), "error", text), attrs...)
	if withStack {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	l.log.Log(context.Background(), level, msg, attrs...)
}

// admit reports whether a failure gets a record of its own, and whether that record shows the stack
// of its panic. If there is no record, admit counts the failure.
func (l *failureLog) admit(level slog.Level, f failure, text string, isPanic bool) (hasRecord, withStack bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.similar[f]
	if s == nil && len(l.similar) >= maxFailures {
		f = failure{msg: f.msg}
		s = l.similar[f]
	}
	if s == nil {
		if len(l.similar) == 0 {
			l.similar, l.began = make(map[failure]*similar), now
		}
		s = &similar{level: level, second: now}
		l.similar[f] = s
	}
	if now.Sub(s.second) >= time.Second {
		s.second, s.logged = now, 0
	}
	if s.logged == maxSimilar {
		s.omitted++
		s.error = text
		return false, false
	}
	s.logged++
	withStack = isPanic && !s.hasStack
	s.hasStack = s.hasStack || isPanic
	return true, withStack
}

// summarize logs how many failures got no record of their own, once every summaryInterval.
func (l *failureLog) summarize(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= summaryInterval {
		l.writeSummaries(now)
	}
}

// end logs how many failures since the last summary got no record of their own.
func (l *failureLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeSummaries(time.Now())
}

// writeSummaries begins anew. The caller holds l.mu.
func (l *failureLog) writeSummaries(now time.Time) {
	for f, s := range l.similar {
		if s.omitted > 0 {
			l.log.Log(context.Background(), s.level, f.msg+", similar records left out",
				"kind", cmp.Or(f.kind, "various"), "error", s.error, "omitted", s.omitted, "within", now.Sub(l.began))
		}
	}
	l.similar = nil
}
