package memory_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func TestMemory(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		q := memory.New(memory.Options{})
		return backendtest.Harness{Queue: q, Begin: q.Begin, Hold: q.Hold, Rewind: func(_ *testing.T, by time.Duration) { q.Rewind(by) }}
	})
}

// TestBare runs the suite over a backend without capabilities, except that it is a Waiter that
// cannot wake: the suite must not need them.
func TestBare(t *testing.T) {
	extent.Long(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		return backendtest.Harness{Queue: bare{memory.New(memory.Options{})}, Polls: true}
	})
}

type bare struct{ q *memory.Queue }

func (b bare) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	return b.q.Enqueue(ctx, db, jobs...)
}

func (b bare) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if _, err := b.q.Reclaim(ctx, 1000); err != nil {
		return nil, err
	}
	return b.q.Claim(ctx, req)
}

func (b bare) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	return b.q.Extend(ctx, lease, jobs...)
}

func (b bare) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	return b.q.Settle(ctx, db, outcomes...)
}

func (b bare) Listen(context.Context, string, []string, func(driver.Signal)) error {
	return errors.New("cannot wake")
}

func (b bare) Sleep(ctx context.Context, worker string, queues []string) (time.Duration, error) {
	return b.q.Sleep(ctx, worker, queues)
}

func job(kind string) *queue.Job { return &queue.Job{Kind: kind} }

func request(limit int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: limit, Lease: time.Hour, Worker: "w"}
}

func enqueue(t testing.TB, q *memory.Queue, db queue.DB, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), db, jobs...); err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
}

// claim claims and checks how many jobs that was.
func claim(t testing.TB, q *memory.Queue, limit, want int) []*queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), request(limit))
	if err != nil || len(jobs) != want {
		t.Fatalf("Claim with limit %d: got %d jobs, error %v; want %d", limit, len(jobs), err, want)
	}
	return jobs
}

func settle(t testing.TB, q *memory.Queue, db queue.DB, o queue.Outcome) {
	t.Helper()
	if lost, err := q.Settle(t.Context(), db, o); err != nil || len(lost) != 0 {
		t.Fatalf("Settle %v: lost %d, error %v; want neither", o.Action, len(lost), err)
	}
}

// foreign is a handle of another database.
type foreign struct{}

func (foreign) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errors.New("not called")
}

func (foreign) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errors.New("not called")
}

func TestForeignDBHasCommitted(t *testing.T) {
	q := memory.New(memory.Options{})
	enqueue(t, q, foreign{}, job("k"))
	enqueue(t, q, new(sql.Tx), job("k"))
	jobs := claim(t, q, 10, 2)
	settle(t, q, foreign{}, queue.Outcome{Job: jobs[0]})
	if r, _, _ := q.Job(t.Context(), jobs[0].ID); r.Status != queue.StatusCompleted {
		t.Errorf("status after Settle through a foreign DB: got %q, want completed", r.Status)
	}
}

func TestJobsAreCopied(t *testing.T) {
	q := memory.New(memory.Options{})
	j := &queue.Job{Kind: "k", Payload: []byte(`"abc"`), Headers: map[string]string{"a": "b"}}
	spoil := func(j *queue.Job) {
		j.Payload[1], j.Headers["a"], j.Kind = 'X', "X", "X"
	}
	check := func(when string, j *queue.Job) {
		t.Helper()
		if string(j.Payload) != `"abc"` || j.Headers["a"] != "b" || j.Kind != "k" {
			t.Errorf("%s: got payload %s, headers %v, kind %q; want what was enqueued", when, j.Payload, j.Headers, j.Kind)
		}
		spoil(j)
	}
	enqueue(t, q, nil, j)
	spoil(j)
	claimed := claim(t, q, 1, 1)[0]
	held := *claimed
	check("claimed after the caller's job was changed", claimed)
	r, _, _ := q.Job(t.Context(), j.ID)
	check("looked up after the claimed job was changed", &r.Job)
	all, _, _ := q.Jobs(t.Context(), queue.Filter{})
	check("listed after the record was changed", &all[0].Job)
	settle(t, q, nil, queue.Outcome{Job: &held, Action: queue.Release})
	check("claimed again", claim(t, q, 1, 1)[0])
}

func TestMaxPayload(t *testing.T) {
	q := memory.New(memory.Options{MaxPayload: 10})
	var invalid *queue.InvalidError
	err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "k", Payload: []byte(`"` + strings.Repeat("x", 9) + `"`)})
	if !errors.As(err, &invalid) || invalid.Field != "Payload" {
		t.Errorf("Enqueue of 11 bytes where 10 may be: got error %v, want an InvalidError about Payload", err)
	}
	enqueue(t, q, nil, &queue.Job{Kind: "k", Payload: []byte(`"` + strings.Repeat("x", 8) + `"`)})
}

// BenchmarkQueue is a job's whole way, in batches of 100 with 100,000 behind it.
func BenchmarkQueue(b *testing.B) {
	q := memory.New(memory.Options{Retention: queue.Retention{Completed: -1}})
	batch := make([]*queue.Job, 100)
	for i := range batch {
		batch[i] = job("k")
	}
	for range 1000 {
		enqueue(b, q, nil, batch...)
	}
	for b.Loop() {
		enqueue(b, q, nil, batch...)
		var outcomes []queue.Outcome
		for _, j := range claim(b, q, 100, 100) {
			outcomes = append(outcomes, queue.Outcome{Job: j})
		}
		if lost, err := q.Settle(b.Context(), nil, outcomes...); err != nil || len(lost) != 0 {
			b.Fatalf("Settle: lost %d, error %v", len(lost), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/job")
}
