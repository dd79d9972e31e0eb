package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/errandhq/errand/internal/handle"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// WantJob checks that a job of the kind with the arguments want has been enqueued, whatever its
// status is now, and returns its record: the newest, if there are several. If there is none it ends
// the test, with a message that shows how the jobs most like it differ.
//
// q is the queue that the code under test was given, in memory or in a database, or an Enqueuer
// around it: [driver.As] must find a [driver.Inspector] in it. Jobs in an open transaction do not
// exist yet, except for [Through]. Arguments are compared as the JSON that is stored: a number by
// its exact value, a time by its text, and what middleware has encrypted or compressed by what
// [Decoded] makes of it.
func WantJob[T any](t testing.TB, q queue.Enqueuer, kind queue.Kind[T], want T, opts ...Option) queue.Record {
	t.Helper()
	rec, err := wantJob(context.WithoutCancel(t.Context()), q, kind.New(want), opts)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// WantNoJob checks that no job of the kind has been enqueued. If there is one, the test fails and
// goes on; the message lists the jobs. See [WantJob] for q.
func WantNoJob[T any](t testing.TB, q queue.Enqueuer, kind queue.Kind[T], opts ...Option) {
	t.Helper()
	found, err := findJobs(context.WithoutCancel(t.Context()), q, &queue.Job{Kind: kind.Name}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		t.Error(unwanted(kind.Name, found))
	}
}

// Option narrows which jobs [WantJob] and [WantNoJob] look for.
type Option func(*search) error

// Through selects jobs that were enqueued through db, that very handle: a [Tx], or the *sql.Tx that
// the code under test was given; nil is the queue's own handle. Jobs that a Tx has enqueued count
// while it is open, and no longer after it has rolled back. Only the queue in memory remembers
// handles; with another, Through ends the test.
func Through(db queue.DB) Option {
	return func(s *search) error {
		if s.memory == nil {
			return fmt.Errorf("queuetest: Through: only the queue in memory remembers handles, not %T", s.q)
		}
		s.through = true
		s.checks = append(s.checks, func(j stored) string {
			if handle.Same(j.Through, db) {
				return ""
			}
			return throughAnother(j.Through, db)
		})
		return nil
	}
}

// InQueue selects jobs of the queue with that name.
func InQueue(name string) Option {
	return Where(func(r queue.Record) error {
		if r.Queue != name {
			return fmt.Errorf("in queue %s, want %s", r.Queue, name)
		}
		return nil
	})
}

// DueIn selects jobs that are due d after they were enqueued, give or take a second, because code
// that sets ScheduledAt has read the clock a little earlier. A job that has failed or snoozed is
// due when it will be retried.
func DueIn(d time.Duration) Option {
	return Where(func(r queue.Record) error {
		if got := r.ScheduledAt.Sub(r.CreatedAt); (got - d).Abs() > time.Second {
			return fmt.Errorf("due %v after it was enqueued, want %v", got.Round(time.Millisecond), d)
		}
		return nil
	})
}

// Where selects jobs for which check returns nil. The message shows check's error as the reason why
// a job is not the wanted one: "priority 0, want -1".
func Where(check func(queue.Record) error) Option {
	return func(s *search) error {
		s.checks = append(s.checks, func(j stored) string {
			if err := check(j.Record); err != nil {
				return err.Error()
			}
			return ""
		})
		return nil
	}
}

// Decoded compares jobs as a handler behind this middleware gets them. Give it the middleware that
// undoes what the enqueuer's has done, in the order of the worker's chain:
//
//	queuetest.Decoded(secret.Handler, compress.Handler)
//
// The record that WantJob returns is decoded, and so is what [Where] checks. A job that the
// middleware passes on to no handler is none that WantJob wants; for WantNoJob it ends the test.
func Decoded(middleware ...queue.Middleware) Option {
	return func(s *search) error {
		s.decoding = append(s.decoding, middleware...)
		return nil
	}
}

// Except leaves these paths of the arguments, and everything beneath them, out of the comparison:
// what a test cannot know, such as a random token. A path is written as in the messages: "Token",
// "Items[2].ID". It is for WantJob only.
func Except(paths ...string) Option {
	return func(s *search) error {
		s.except = append(s.except, paths...)
		return s.needArguments("Except")
	}
}

// Times wants exactly n such jobs; 0 means none. It is for WantJob only.
func Times(n int) Option {
	return func(s *search) error {
		if n < 0 {
			return fmt.Errorf("queuetest: Times: %d: at least 0", n)
		}
		s.times = n
		return s.needArguments("Times")
	}
}

// search is what one call looks for.
type search struct {
	q       queue.Enqueuer
	memory  inMemory // nil where q is another
	kind    string
	shown   string // the arguments as JSON; "" where any will do
	args    any    // the arguments, decoded
	except  []string
	checks  []func(stored) string // "" for a job that is meant, else why it is not
	through bool                  // jobs of open transactions count
	times   int                   // below 0: at least once

	decoding []queue.Middleware // what jobs are decoded with before anything else
}

// newSearch looks for jobs like this one; without a payload, for those of its kind.
func newSearch(q queue.Enqueuer, job *queue.Job, opts []Option) (*search, error) {
	if err := job.Check(math.MaxInt); err != nil {
		return nil, fmt.Errorf("queuetest: %w", err)
	}
	s := &search{q: q, kind: job.Kind, shown: string(job.Payload), times: -1}
	s.memory, _ = driver.As[inMemory](q)
	for _, opt := range opts {
		if err := opt(s); err != nil {
			return nil, err
		}
	}
	if s.shown == "" {
		return s, nil
	}
	args, err := decode(job.Payload)
	s.args = args
	return s, err
}

func (s *search) needArguments(option string) error {
	if s.shown == "" {
		return fmt.Errorf("queuetest: %s: it is for WantJob, which has arguments", option)
	}
	return nil
}

func wantJob(ctx context.Context, q queue.Enqueuer, job *queue.Job, opts []Option) (rec queue.Record, err error) {
	s, err := newSearch(q, job, opts)
	if err != nil {
		return rec, err
	}
	jobs, err := s.list(ctx, s.kind)
	if err != nil {
		return rec, err
	}
	found, misses, err := s.sift(ctx, jobs)
	switch {
	case err != nil:
		return rec, err
	case s.times == len(found), s.times < 0 && len(found) > 0:
		if len(found) > 0 {
			rec = found[0].Record
		}
		return rec, nil
	case len(jobs) > 0:
		return rec, errors.New(s.unlike(found, misses))
	}
	all, err := s.list(ctx, "")
	if err != nil {
		return rec, err
	}
	return rec, errors.New(noneOfKind(s.kind, all))
}

// findJobs returns the jobs that match, newest first.
func findJobs(ctx context.Context, q queue.Enqueuer, job *queue.Job, opts []Option) ([]stored, error) {
	s, err := newSearch(q, job, opts)
	if err != nil {
		return nil, err
	}
	jobs, err := s.list(ctx, s.kind)
	if err != nil {
		return nil, err
	}
	found, _, err := s.sift(ctx, jobs)
	return found, err
}
