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
)

// WantJob checks that a job of the kind with the arguments want has been
// enqueued, whatever has become of it since, and returns its record: of several,
// the newest. If there is none it ends the test, with a message that shows what
// the jobs most like it have instead.
//
// q is the queue that the code under test was given, in memory or in a database,
// or an Enqueuer around it: [queue.As] has to find a [queue.Inspector]. Jobs in an
// open transaction do not exist yet, except for [Through]. Arguments are compared
// by their JSON as it is stored: a number by its exact value, a time by its text, and
// what middleware has encrypted or compressed by what that has made of it.
func WantJob[T any](t testing.TB, q queue.Enqueuer, kind queue.Kind[T], want T, opts ...Option) queue.Record {
	t.Helper()
	rec, err := wantJob(context.WithoutCancel(t.Context()), q, kind.New(want), opts)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// WantNoJob checks that no job of the kind has been enqueued. If there are some the
// test has failed, and goes on; the message lists them. See [WantJob] for what q is.
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

// An Option narrows which jobs [WantJob] and [WantNoJob] mean.
type Option func(*search) error

// Through means jobs that were enqueued through db, that very handle: a [Tx], or
// the *sql.Tx that the code under test was given; nil is the queue's own handle. Where db is
// a Tx that is still open, the jobs that it has enqueued so far count, and after
// it has rolled back they are gone. Only the queue in memory remembers handles: over
// another, Through ends the test.
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

// InQueue means jobs of the queue of that name.
func InQueue(name string) Option {
	return Where(func(r queue.Record) error {
		if r.Queue != name {
			return fmt.Errorf("in queue %s, want %s", r.Queue, name)
		}
		return nil
	})
}

// DueIn means jobs that are due d after they were enqueued, give or take a second:
// code that sets ScheduledAt has looked at the clock a little earlier. A job
// that has failed, or snoozed, is due when it will be tried again.
func DueIn(d time.Duration) Option {
	return Where(func(r queue.Record) error {
		if got := r.ScheduledAt.Sub(r.CreatedAt); (got - d).Abs() > time.Second {
			return fmt.Errorf("due %v after it was enqueued, want %v", got.Round(time.Millisecond), d)
		}
		return nil
	})
}

// Where means jobs for which check returns nil. Its error says why a job is not
// the wanted one, and is shown in the message: "priority 0, want -1".
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

// Except leaves out of the comparison what is found at these paths of the
// arguments, or beneath: what a test cannot know, such as a random token. A path
// is written as in the messages: "Token", "Items[2].ID". It is for WantJob.
func Except(paths ...string) Option {
	return func(s *search) error {
		s.except = append(s.except, paths...)
		return s.needArguments("Except")
	}
}

// Times means exactly n such jobs; 0 is none. It is for WantJob.
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
}

// newSearch looks for jobs like this one; without a payload, for those of its kind.
func newSearch(q queue.Enqueuer, job *queue.Job, opts []Option) (*search, error) {
	if err := job.Check(math.MaxInt); err != nil {
		return nil, fmt.Errorf("queuetest: %w", err)
	}
	s := &search{q: q, kind: job.Kind, shown: string(job.Payload), times: -1}
	s.memory, _ = queue.As[inMemory](q)
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
	found, misses, err := s.sift(jobs)
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

// findJobs returns the jobs that are meant, newest first.
func findJobs(ctx context.Context, q queue.Enqueuer, job *queue.Job, opts []Option) ([]stored, error) {
	s, err := newSearch(q, job, opts)
	if err != nil {
		return nil, err
	}
	jobs, err := s.list(ctx, s.kind)
	if err != nil {
		return nil, err
	}
	found, _, err := s.sift(jobs)
	return found, err
}
