package middleware_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// payment is a kind of job whose effect is a row of the table payments.
type payment struct{ Order int }

var pay = queue.NewKind[payment]("payment.charge")

// receipt is what a payment is followed by.
var receipt = queue.NewKind[payment]("payment.receipt")

// bank is a real database with a queue and a table of effects.
type bank struct {
	t  *testing.T
	db *sql.DB
	q  *postgres.Backend
}

func openBank(t *testing.T) bank {
	t.Helper()
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := bank{t, db, q}
	b.exec(`CREATE TABLE payments (job bigint NOT NULL)`) // no unique key: what happens twice is seen
	return b
}

func (b bank) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.db.ExecContext(b.t.Context(), query, args...); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

// enqueue writes n payments.
func (b bank) enqueue(n int) {
	b.t.Helper()
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		jobs[i] = pay.New(payment{Order: i})
	}
	if err := b.q.Enqueue(b.t.Context(), nil, jobs...); err != nil {
		b.t.Fatal(err)
	}
}

// claimOne claims a job, of which there must be one.
func (b bank) claimOne() *queue.Job {
	b.t.Helper()
	return b.claimFor(time.Minute)
}

func (b bank) claimFor(lease time.Duration) *queue.Job {
	b.t.Helper()
	jobs, err := b.q.Claim(b.t.Context(), queue.ClaimRequest{
		Queues: []string{queue.DefaultQueue}, Kinds: []string{pay.Name}, Limit: 1, Lease: lease, Worker: "tester"})
	if err != nil || len(jobs) != 1 {
		b.t.Fatalf("claimed %d jobs (%v), want 1", len(jobs), err)
	}
	return jobs[0]
}

// reclaimed waits until the job's lease has expired and the job is reclaimed.
func (b bank) reclaimed() {
	b.t.Helper()
	for {
		jobs, err := b.q.Reclaim(b.t.Context(), 1)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(jobs) == 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// handle is a payment's work.
func handle(_ context.Context, tx *sql.Tx, job *queue.Job) error {
	_, err := tx.Exec(`INSERT INTO payments (job) VALUES ($1)`, job.ID)
	return err
}

// handler runs fn, which gets the transaction of Tx.
func handler(fn func(ctx context.Context, tx *sql.Tx, job *queue.Job) error) queue.Handler {
	mux := queue.NewMux()
	pay.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, _ payment) error {
		return fn(ctx, tx, job)
	}))
	return mux
}

func (b bank) count(query string, args ...any) (n int) {
	b.t.Helper()
	if err := b.db.QueryRowContext(b.t.Context(), query, args...).Scan(&n); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// want compares how many effects there are, and how many jobs have that status.
func (b bank) want(payments int, status queue.Status, jobs int) {
	b.t.Helper()
	if got := b.count(`SELECT count(*) FROM payments`); got != payments {
		b.t.Errorf("effects: got %d, want %d", got, payments)
	}
	if got := b.count(`SELECT count(*) FROM errand.jobs WHERE status = $1`, string(status)); got != jobs {
		b.t.Errorf("jobs %s: got %d, want %d", status, got, jobs)
	}
}

// quiet is for workers whose handlers fail on purpose.
var quiet = slog.New(slog.DiscardHandler)

// wantPanic expects fn to panic with a text that contains part.
func wantPanic(t *testing.T, part string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), part) {
			t.Errorf("got panic %v, want one with %q", v, part)
		}
	}()
	fn()
}
