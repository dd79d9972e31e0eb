package middleware_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// A page of dead jobs shows what their payloads were before they were compressed and encrypted.
func ExampleEncrypt_Open() {
	type Invoice struct{ IBAN string }
	var pay = queue.NewKind[Invoice]("invoice.pay")
	ctx := context.Background()
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys: middleware.Keys{"2026-07": []byte("sixteen bytes...")}, Current: "2026-07",
	})
	if err != nil {
		log.Fatal(err)
	}
	compress := middleware.Compress{}
	q := queuetest.New(queuetest.Options{})
	enqueuer := queue.ChainEnqueuer(q, compress.Enqueuer, secret.Enqueuer)
	if err := enqueuer.Enqueue(ctx, nil, pay.New(Invoice{IBAN: "DE75512108001245126199"})); err != nil {
		log.Fatal(err)
	}
	refuse := queue.HandlerFunc(func(context.Context, *queue.Job) error { return queue.Discard(errors.New("no such bank")) })
	if _, err := q.Drain(ctx, queue.Chain(refuse, secret.Handler, compress.Handler)); err != nil {
		log.Fatal(err)
	}

	dead, _, err := q.Jobs(ctx, queue.Filter{Status: queue.StatusDead})
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range dead {
		opened, err := secret.Open(&record.Job)
		if err == nil {
			opened, err = compress.Open(opened)
		}
		if err != nil {
			fmt.Println(record.ID, err) // for example a key that is gone: the page shows why
			continue
		}
		fmt.Println(record.ID, record.LastError, string(opened.Payload))
	}
	// Output: 1 no such bank {"IBAN":"DE75512108001245126199"}
}

// OnDead alerts with what the job was about. After a crash the job has no payload, so the record is
// read first.
func ExampleEncrypt_Open_onDead() {
	type Invoice struct{ IBAN string }
	var pay = queue.NewKind[Invoice]("invoice.pay")
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{
		Keys: middleware.Keys{"2026-07": []byte("sixteen bytes...")}, Current: "2026-07",
	})
	if err != nil {
		log.Fatal(err)
	}
	q := queuetest.New(queuetest.Options{})
	alert := func(ctx context.Context, job *queue.Job, cause error) {
		if errors.Is(cause, queue.ErrLost) { // it died of a crash
			record, ok, err := q.Job(ctx, job.ID)
			if err != nil || !ok {
				fmt.Println("dead:", job.ID, cause, "not read:", err)
				return
			}
			job = &record.Job
		}
		opened, err := secret.Open(job)
		if err != nil {
			fmt.Println("dead:", job.ID, cause, "not opened:", err)
			return
		}
		fmt.Println("dead:", opened.ID, cause, string(opened.Payload))
	}

	ctx, stop := context.WithCancel(context.Background())
	mux := queue.NewMux()
	refuse := func(context.Context, *queue.Job, Invoice) error { return queue.Discard(errors.New("no such bank")) }
	pay.Handle(mux, refuse, secret.Handler)
	worker := engine.Worker{
		Backend: q, Handler: mux, Logger: slog.New(slog.DiscardHandler),
		OnDead: func(ctx context.Context, job *queue.Job, cause error) {
			alert(ctx, job, cause)
			stop()
		},
	}
	if err := queue.ChainEnqueuer(q, secret.Enqueuer).Enqueue(ctx, nil, pay.New(Invoice{IBAN: "DE75512108001245126199"})); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: dead: 1 no such bank {"IBAN":"DE75512108001245126199"}
}

// openQueues are the real components that records come from.
func openQueues(t *testing.T) map[string]queue.Queue {
	t.Helper()
	queues := map[string]queue.Queue{"memory": queuetest.New(queuetest.Options{})}
	for _, driver := range []string{"sqlite", "sqlite3"} {
		_, queues[driver] = openSQLite(t, driver)
	}
	dsn := postgrestest.DSN(t)
	for _, driver := range []string{"pgx", "postgres"} {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if queues[driver], err = postgres.New(db, postgres.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return queues
}

// openBoth opens a job as a page does.
func openBoth(c *middleware.Encrypt, compress middleware.Compress, job *queue.Job) (*queue.Job, error) {
	opened, err := c.Open(job)
	if err != nil {
		return nil, err
	}
	return compress.Open(opened)
}

// TestOpenRecords: what a table holds opens with an older key, and record and table stay as they
// are.
func TestOpenRecords(t *testing.T) {
	compress := middleware.Compress{Min: 1}
	before, after := newCodecEncrypt(t, "old", "old"), newCodecEncrypt(t, "new", "new", "old")
	for name, q := range openQueues(t) {
		order := newCodecOrder(3000, 1)
		job := codecKind.New(order)
		job.Headers = map[string]string{"trace": "abc"}
		if err := queue.ChainEnqueuer(q, compress.Enqueuer, before.Enqueuer).Enqueue(t.Context(), nil, job); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		inspector, _ := driver.As[driver.Inspector](q)
		record, ok, err := inspector.Job(t.Context(), job.ID)
		if err != nil || !ok {
			t.Fatalf("%s: record: %v, %v", name, ok, err)
		}
		payload, headers := string(record.Payload), maps.Clone(record.Headers)
		opened, err := openBoth(after, compress, &record.Job)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(opened.Payload) != string(codecKind.New(order).Payload) || !maps.Equal(opened.Headers, job.Headers) || opened.ID != job.ID {
			t.Errorf("%s: got job %d with %.80s and headers %v", name, opened.ID, opened.Payload, opened.Headers)
		}
		if args, err := codecKind.Args(opened); err != nil || args.ID != order.ID {
			t.Errorf("%s: arguments: got %v, %v", name, args.ID, err)
		}
		if string(record.Payload) != payload || !maps.Equal(record.Headers, headers) {
			t.Errorf("%s: Open has changed the record", name)
		}
	}
}

// TestOpenFails: each error says what is wrong, and is no answer to a worker.
func TestOpenFails(t *testing.T) {
	compress := middleware.Compress{Min: 1}
	c := newCodecEncrypt(t, "k1", "k1")
	plain := codecKind.New(newCodecOrder(2000, 1))
	encrypted, both := codecStored(t, plain, c.Enqueuer), codecStored(t, plain, compress.Enqueuer, c.Enqueuer)
	otherBytes, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k1": codecKey("k2")}, Current: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	moved := *encrypted
	moved.Queue = "another"
	unreadable := &queue.Job{Unreadable: errors.New("too many digits")}
	corrupt := &queue.Job{Kind: "k", Payload: json.RawMessage(`"AAAA"`), Headers: map[string]string{middleware.EncodingHeader: "gzip"}}
	for name, tt := range map[string]struct {
		open func(*queue.Job) (*queue.Job, error)
		job  *queue.Job
		want string
	}{
		"plain":           {c.Open, plain, "the payload is not encrypted"},
		"other bytes":     {otherBytes.Open, encrypted, `does not open with the key "k1": either the key of that id was another one`},
		"other queue":     {c.Open, &moved, `does not open with the key "k1"`},
		"no such key":     {newCodecEncrypt(t, "k2", "k2").Open, encrypted, `encrypted with the key "k1", which Encrypt does not have`},
		"nil":             {c.Open, nil, "Job: nil"},
		"compress of nil": {compress.Open, nil, "Job: nil"},
		"unreadable":      {c.Open, unreadable, "too many digits"},
		"wrong order":     {compress.Open, both, "Encrypt.Open is called before Compress.Open"},
		"corrupt":         {compress.Open, corrupt, "cannot be decompressed"},
	} {
		opened, err := tt.open(tt.job)
		if opened != nil || err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), codecMarker) {
			t.Errorf("%s: got %v, want an error with %q and no payload", name, err, tt.want)
		}
		if action, ok := queue.ActionOf(err); ok {
			t.Errorf("%s: the error is the answer %v", name, action)
		}
	}
	wantPanic(t, "make it with NewEncrypt", func() { _, _ = (*middleware.Encrypt)(nil).Open(plain) })
	wantPanic(t, "Compress.Level", func() { _, _ = middleware.Compress{Level: 10}.Open(plain) })
}

// TestOpenPlain: a job that is not encoded comes back as it is, where that is allowed.
func TestOpenPlain(t *testing.T) {
	lenient := codecEncryptWith(t, middleware.EncryptOptions{Current: "k1", AllowPlain: true}, "k1")
	plain := codecKind.New(newCodecOrder(2000, 1))
	opened, err := openBoth(lenient, middleware.Compress{}, plain)
	if err != nil || string(opened.Payload) != string(plain.Payload) {
		t.Errorf("got %v, %v; want the job", opened, err)
	}
}

// TestOpenAbsent: a job that has come without its payload is not called plain.
func TestOpenAbsent(t *testing.T) {
	_, err := newCodecEncrypt(t, "k1", "k1").Open(&queue.Job{ID: 1, Kind: "k"})
	if err == nil || !strings.Contains(err.Error(), "no payload") {
		t.Errorf("got %v, want that there is no payload", err)
	}
}

// TestHandlerMissing: a worker without the Handler does not make encrypted jobs dead. A later one
// that has it runs them.
func TestHandlerMissing(t *testing.T) {
	secret := newCodecEncrypt(t, "k1", "k1")
	for name, q := range openQueues(t) {
		job := pay.New(payment{Order: 7})
		if err := queue.ChainEnqueuer(q, secret.Enqueuer).Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int64
		mux := queue.NewMux()
		pay.Handle(mux, func(_ context.Context, _ *queue.Job, p payment) error { ran.Store(int64(p.Order)); return nil })
		claim := func() *queue.Job {
			jobs, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "w"})
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%s: claimed %d jobs, %v; want 1", name, len(jobs), err)
			}
			return jobs[0]
		}
		claimed := claim()
		outcome, _ := queue.OutcomeOf(t.Context(), claimed, mux.HandleJob(t.Context(), claimed))
		const want = `: its header errand-encoding is "aes-gcm;key=k1", and no middleware has decoded it`
		if outcome.Action != queue.Retry || !strings.Contains(queue.ErrorText(outcome.Err), want) {
			t.Errorf("%s: got %v, %v; want a retry, with %q", name, outcome.Action, outcome.Err, want)
		}
		outcome.Delay = 0
		if _, err := q.Settle(t.Context(), nil, outcome); err != nil {
			t.Fatal(err)
		}
		if err := queue.Chain(mux, secret.Handler).HandleJob(t.Context(), claim()); err != nil || ran.Load() != 7 {
			t.Errorf("%s: with the Handler: %v, ran order %d; want 7", name, err, ran.Load())
		}
	}
}

// TestSQLFunctionIsPlain: what docs/middleware.md says of jobs that the SQL function enqueues.
func TestSQLFunctionIsPlain(t *testing.T) {
	db := postgrestest.Open(t)
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strict := newCodecEncrypt(t, "k1", "k1")
	lenient := codecEncryptWith(t, middleware.EncryptOptions{Current: "k1", AllowPlain: true}, "k1")
	for name, tt := range map[string]struct {
		handle []queue.Middleware
		want   queue.Status
	}{
		"strict":                  {[]queue.Middleware{strict.Handler}, queue.StatusDead},
		"AllowPlain":              {[]queue.Middleware{lenient.Handler, middleware.Compress{}.Handler}, queue.StatusCompleted},
		"no Encrypt for the kind": {nil, queue.StatusCompleted},
	} {
		var id int64
		if err := db.QueryRowContext(t.Context(), `SELECT errand.enqueue('default', $1, '{"Order": 7}')`, pay.Name).Scan(&id); err != nil {
			t.Fatal(err)
		}
		mux := queue.NewMux()
		pay.Handle(mux, func(_ context.Context, _ *queue.Job, p payment) error {
			if p.Order != 7 {
				t.Errorf("%s: order %d, want 7", name, p.Order)
			}
			return nil
		}, tt.handle...)
		work(t.Context(), db, q, mux)
		rec, _, err := q.Job(t.Context(), id)
		if err != nil || rec.Status != tt.want || rec.Attempt != 1 {
			t.Errorf("%s: %s after %d attempts (%v), want %s after 1", name, rec.Status, rec.Attempt, err, tt.want)
		}
		if tt.want == queue.StatusDead && !strings.Contains(rec.LastError, "not encrypted") {
			t.Errorf("%s: died of %q", name, rec.LastError)
		}
	}
}
