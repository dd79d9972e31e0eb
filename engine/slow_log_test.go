package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// slowLog is a log that keeps the first record with that text waiting until it is opened.
type slowLog struct {
	text    string
	waiting chan struct{} // closed when the record has come
	opened  chan struct{}
}

func (l *slowLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.text) {
		close(l.waiting)
		<-l.opened
	}
	return nil
}

func (*slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *slowLog) WithGroup(string) slog.Handler { return l }

func (l *slowLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// TestSlowLog: a log that takes a record slowly holds up no claim, no handler and no settling. Each
// record is one that the worker writes about jobs that it holds.
func TestSlowLog(t *testing.T) {
	for text, extend := range map[string]error{
		"handler ignores that its context": nil,
		"lease could not be extended":      errDown,
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &slowLog{text, make(chan struct{}), make(chan struct{})}
				isLong := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
					if job.ID == 1 {
						<-log.opened
					}
					return nil
				})
				q := &meddled{newQueue(t, 1), func(_ context.Context, c call) error {
					if c.operation == "extend" {
						return extend
					}
					return nil
				}}
				w := start(t, engine.Worker{Backend: q, Handler: isLong, Timeout: time.Minute, Logger: slog.New(log)})
				<-log.waiting
				enqueue(t, q.Queue, newTasks(100)...)
				until(t, "the other jobs completed", func() bool { return count(t, q.Queue, queue.StatusCompleted) >= 100 })
				close(log.opened)
				w.stop()
			})
		})
	}
}
