package queue_test

import (
	"strings"
	"testing"

	"github.com/errandhq/errand/queue"
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

func enqueue(t *testing.T, q queue.Enqueuer, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Fatal(err)
	}
}

// count returns the number of jobs with that status.
func count(t *testing.T, q *queuetest.Queue, status queue.Status) (n int) {
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

func record(t *testing.T, q *queuetest.Queue, job *queue.Job) queue.Record {
	t.Helper()
	r, ok, err := q.Job(t.Context(), job.ID)
	if err != nil || !ok {
		t.Fatalf("job %d: found %t, error %v", job.ID, ok, err)
	}
	return r
}

func wantJob(t *testing.T, q *queuetest.Queue, job *queue.Job, status queue.Status, attempt int) {
	t.Helper()
	if r := record(t, q, job); r.Status != status || r.Attempt != attempt {
		t.Errorf("job %d: got %s in attempt %d, want %s in attempt %d", job.ID, r.Status, r.Attempt, status, attempt)
	}
}

func wantCount(t *testing.T, q *queuetest.Queue, status queue.Status, want int) {
	t.Helper()
	if got := count(t, q, status); got != want {
		t.Errorf("got %d %s jobs, want %d", got, status, want)
	}
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want it to contain %q", text, part)
		}
	}
}
