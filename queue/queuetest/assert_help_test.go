package queuetest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// letter is what the jobs of these tests carry.
type letter struct {
	UserID int64
	Plan   string   `json:",omitempty"`
	Tags   []string `json:",omitempty"`
}

var letters = queue.NewKind[letter]("email.welcome")

// recorder is a test that fails without failing the one that it stands for.
type recorder struct {
	testing.TB
	said   []string
	helper bool
}

func (r *recorder) Helper()           { r.helper = true }
func (r *recorder) Error(args ...any) { r.said = append(r.said, "Error: "+fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.said = append(r.said, "Fatal: "+fmt.Sprint(args...))
	runtime.Goexit()
}

// messages returns what a test would have said that asserts that.
func messages(t *testing.T, assert func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert(r)
	}()
	<-done
	if !r.helper {
		t.Errorf("the assertion did not call Helper: its failures do not show the caller's line")
	}
	return strings.Join(r.said, "\n")
}

// wantMessage compares the whole of it.
func wantMessage(t *testing.T, want string, assert func(t testing.TB)) {
	t.Helper()
	if got := messages(t, assert); got != want {
		t.Errorf("messages:\n got %s\nwant %s", got, want)
	}
}

// newLetters returns a queue with jobs of those arguments, whose IDs are 1, 2, ….
func newLetters(t *testing.T, all ...letter) *queuetest.Queue {
	t.Helper()
	q := queuetest.New(queuetest.Options{})
	for _, l := range all {
		enqueue(t, q, nil, letters.New(l))
	}
	return q
}

// foreign is a handle of another database.
type foreign struct{}

func (foreign) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errors.New("foreign")
}

func (foreign) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errors.New("foreign")
}

func begin(t *testing.T, q *queuetest.Queue) queuetest.Tx {
	t.Helper()
	tx, err := q.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func enqueue(t testing.TB, q *queuetest.Queue, db queue.DB, jobs ...*queue.Job) {
	t.Helper()
	if err := q.Enqueue(t.Context(), db, jobs...); err != nil {
		t.Fatal(err)
	}
}

func request(limit int) queue.ClaimRequest {
	return queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: limit, Lease: time.Hour, Worker: "w"}
}

func claim(t testing.TB, q *queuetest.Queue, limit, want int) []*queue.Job {
	t.Helper()
	jobs, err := q.Claim(t.Context(), request(limit))
	if err != nil || len(jobs) != want {
		t.Fatalf("Claim with limit %d: got %d jobs, error %v; want %d", limit, len(jobs), err, want)
	}
	return jobs
}

func settle(t testing.TB, q *queuetest.Queue, db queue.DB, o queue.Outcome) {
	t.Helper()
	if lost, err := q.Settle(t.Context(), db, o); err != nil || len(lost) != 0 {
		t.Fatalf("Settle %v: lost %d, error %v; want neither", o.Action, len(lost), err)
	}
}

func job(kind string) *queue.Job { return &queue.Job{Kind: kind} }
