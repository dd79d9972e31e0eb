package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// task is the payload of these tests' jobs. Its note is a secret that no log may contain.
type task struct {
	N    int
	Note string
}

const secret = "s3cr3t-of-the-payload"

var work = queue.NewKind[task]("test.work")

func newTask(n int) *queue.Job { return work.New(task{N: n, Note: secret}) }

func newTasks(n int) []*queue.Job {
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = newTask(i)
	}
	return jobs
}

// newQueue returns a memory queue with n tasks.
func newQueue(t *testing.T, n int) *queuetest.Queue {
	t.Helper()
	q := queuetest.New(queuetest.Options{})
	enqueue(t, q, newTasks(n)...)
	return q
}

func enqueue(t *testing.T, q queue.Enqueuer, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
}

// meddled is the memory queue with a hook before every call of a worker. The hook may block. If it
// returns an error, the call fails with it.
type meddled struct {
	*queuetest.Queue
	before func(ctx context.Context, c call) error
}

// call is one call of the backend: its operation and the jobs that it names.
type call struct {
	operation string
	jobs      []*queue.Job
}

func (m *meddled) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	if err := m.before(ctx, call{operation: "claim"}); err != nil {
		return nil, err
	}
	return m.Queue.Claim(ctx, req)
}

func (m *meddled) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	if err := m.before(ctx, call{"extend", jobs}); err != nil {
		return nil, nil, err
	}
	return m.Queue.Extend(ctx, lease, jobs...)
}

func (m *meddled) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	jobs := make([]*queue.Job, len(outcomes))
	for i, o := range outcomes {
		jobs[i] = o.Job
	}
	if err := m.before(ctx, call{"settle", jobs}); err != nil {
		return nil, err
	}
	return m.Queue.Settle(ctx, db, outcomes...)
}

func (m *meddled) Sleep(ctx context.Context, worker string, queues []string) (time.Duration, error) {
	if err := m.before(ctx, call{operation: "sleep"}); err != nil {
		return 0, err
	}
	return m.Queue.Sleep(ctx, worker, queues)
}

func (m *meddled) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	if err := m.before(ctx, call{operation: "reclaim"}); err != nil {
		return nil, err
	}
	return m.Queue.Reclaim(ctx, limit)
}

func (m *meddled) Prune(ctx context.Context) (int, bool, error) {
	if err := m.before(ctx, call{operation: "prune"}); err != nil {
		return 0, false, err
	}
	return m.Queue.Prune(ctx)
}

// plain returns q without its capabilities.
func plain(q queue.Queue) queue.Queue { return struct{ queue.Queue }{q} }

var (
	errDown  = errors.New("connection refused")
	errPlain = errors.New("plain")
)

// running is a worker that a test has started.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *logs
}

// start runs w until the test stops it, or ends.
func start(t *testing.T, w engine.Worker) *running {
	t.Helper()
	r := &running{t: t, done: make(chan struct{}), log: newLogs(t)}
	if w.Logger == nil {
		w.Logger = slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// wait waits for Run to return. It returns Run's error and how long that took.
func (r *running) wait() (took time.Duration, err error) {
	from := time.Now()
	<-r.done
	return time.Since(from), r.err
}

// stop ends the worker's context and expects that Run returns nil.
func (r *running) stop() (took time.Duration) {
	r.t.Helper()
	r.cancel()
	took, err := r.wait()
	if err != nil {
		r.t.Errorf("Run: got %v, want nil", err)
	}
	return took
}

// until waits, in steps of a millisecond, until ok returns true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1_000_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never happened: %s", what)
}

// count returns how many jobs have that status.
func count(t *testing.T, q driver.Inspector, status queue.Status) (n int) {
	t.Helper()
	counts, err := q.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Status == status {
			n += int(c.Jobs)
		}
	}
	return n
}

func record(t *testing.T, q driver.Inspector, job *queue.Job) queue.Record {
	t.Helper()
	r, ok, err := q.Job(t.Context(), job.ID)
	if err != nil || !ok {
		t.Fatalf("job %d: found %v, error %v", job.ID, ok, err)
	}
	return r
}

// wantJob compares the status and the attempt of a job.
func wantJob(t *testing.T, q driver.Inspector, job *queue.Job, status queue.Status, attempt int) {
	t.Helper()
	if r := record(t, q, job); r.Status != status || r.Attempt != attempt {
		t.Errorf("job %d: got %s after attempt %d, want %s after attempt %d", job.ID, r.Status, r.Attempt, status, attempt)
	}
}

// wantCount compares how many jobs have that status.
func wantCount(t *testing.T, q driver.Inspector, status queue.Status, want int) {
	t.Helper()
	if got := count(t, q, status); got != want {
		t.Errorf("jobs %s: got %d, want %d", status, got, want)
	}
}

// logs has the records of a worker, as JSON lines.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// newLogs returns logs that fail the test at its end if they contain a payload.
func newLogs(t *testing.T) *logs {
	l := &logs{}
	t.Cleanup(func() {
		if strings.Contains(l.String(), secret) {
			t.Errorf("the log shows a payload:\n%s", l)
		}
	})
	return l
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find returns the records whose message contains that text.
func (l *logs) find(t *testing.T, msg string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var rec map[string]any
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rec[slog.MessageKey].(string), msg) {
			found = append(found, rec)
		}
	}
	return found
}

// wantLogged compares how many records have that text in their message.
func (l *logs) wantLogged(t *testing.T, want int, msg string) {
	t.Helper()
	if got := len(l.find(t, msg)); got != want {
		t.Errorf("records %q: got %d, want %d; the log:\n%s", msg, got, want, l)
	}
}

// wantReleased compares what the log says of the jobs that were released at shutdown.
func (r *running) wantReleased(interrupted, unstarted int) {
	r.t.Helper()
	found := r.log.find(r.t, "errand: jobs released at shutdown")
	if len(found) != 1 || found[0]["level"] != "INFO" ||
		found[0]["interrupted"] != float64(interrupted) || found[0]["unstarted"] != float64(unstarted) {
		r.t.Errorf("released at shutdown: got %v, want one record with %d interrupted and %d unstarted", found, interrupted, unstarted)
	}
}

// wantCounted compares how many failures have that text in their message: those with a record and
// those that were left out.
func (l *logs) wantCounted(t *testing.T, want int, msg string) {
	t.Helper()
	got := 0
	for _, rec := range l.find(t, msg) {
		if omitted, isSummary := rec["omitted"].(float64); isSummary {
			got += int(omitted)
		} else {
			got++
		}
	}
	if got != want {
		t.Errorf("failures %q: got %d, want %d; the log:\n%s", msg, got, want, l)
	}
}
