package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/middleware/telemetry"
	"github.com/errandhq/errand/queue"
)

// The marker is in payloads, headers, keys and the password, and in nothing that errand says. What
// a handler says is.
const (
	marker = "hush-hush-4711"
	said   = "said by the handler"
)

// ear hears all that is logged, traced and measured, and every error that errand returns.
type ear struct {
	mu      sync.Mutex
	text    bytes.Buffer
	logger  *slog.Logger
	tel     *telemetry.Telemetry
	spans   *tracetest.InMemoryExporter
	metrics *sdkmetric.ManualReader
}

func newEar(t *testing.T) *ear {
	t.Helper()
	e := &ear{spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
	e.logger = slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	before := slog.Default()
	slog.SetDefault(e.logger) // and with it package log's
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(os.Stderr)
		log.SetFlags(log.LstdFlags)
	})
	var err error
	e.tel, err = telemetry.New(telemetry.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(e.metrics)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *ear) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *ear) has(words string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Contains(e.text.String(), words)
}

// fails writes down an error of errand's, in the ways that programs do.
func (e *ear) fails(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error", what)
	}
	e.logger.Error(what, "error", err)
	fmt.Fprintf(e, "%s: %v; %+v; %q\n", what, err, err, err)
}

// export adds what telemetry has recorded.
func (e *ear) export(t *testing.T) {
	t.Helper()
	var metrics metricdata.ResourceMetrics
	if err := e.metrics.Collect(context.Background(), &metrics); err != nil {
		t.Error(err)
	}
	text, err := json.Marshal(metrics)
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(e, "metrics %s\n", text)
	if len(e.spans.GetSpans()) == 0 || len(metrics.ScopeMetrics) == 0 {
		t.Error("nothing was traced or measured")
	}
	for _, s := range e.spans.GetSpans() {
		text, err := json.Marshal([]any{s.Name, s.Attributes, s.Events, s.Status, s.Links})
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(e, "span %s\n", text)
	}
}

// wantSilence checks that the marker was heard nowhere.
func (e *ear) wantSilence(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(e.text.String()) {
		if strings.Contains(line, marker) {
			t.Errorf("the marker is in: %s", line)
		}
	}
}

// with is dsn with another user and password.
func with(t *testing.T, dsn, user, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestNothingSecretIsLogged runs a worker and enqueuers through failures of every kind.
func TestNothingSecretIsLogged(t *testing.T) {
	extent.Long(t)
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			e := newEar(t)
			dsn := postgrestest.DSN(t)
			root, _ := ways[0].open(t, dsn)
			user := value[string](t, root, `SELECT current_database()`) + "_secretive"
			exec(t, root, `CREATE ROLE `+user+` LOGIN PASSWORD '`+marker+`' IN ROLE `+value[string](t, root, `SELECT quote_ident(current_user)`))
			t.Cleanup(func() { _, _ = root.ExecContext(context.Background(), `DROP ROLE `+user) })
			db, listen := w.open(t, with(t, dsn, user, marker))

			badInput(t, e, db)
			refusedByServer(t, e, db, root)
			failingHandlers(t, e, backend(t, db, postgres.Options{Listen: listen}), root, user)
			unreachable(t, e, w, dsn, user)
			e.export(t)
			e.wantSilence(t)
			if !e.has(said) {
				t.Error("what the handler said is not there either: nothing was heard")
			}
		})
	}
}

// badInput is what Enqueue itself refuses.
func badInput(t *testing.T, e *ear, db *sql.DB) {
	q := e.tel.Queue(backend(t, db, postgres.Options{}))
	for field, job := range map[string]*queue.Job{
		"payload":      {Kind: "test", Payload: json.RawMessage(`{"` + marker + `": ` + marker + `}`)},
		"payload, NUL": {Kind: "test", Payload: json.RawMessage(`{"` + marker + `": "\u0000"}`)},
		"long payload": {Kind: "test", Payload: json.RawMessage(`"` + strings.Repeat(marker, 100_000) + `"`)},
		"key":          {Kind: "test", Key: marker + "\x00"},
		"long key":     {Kind: "test", Key: strings.Repeat(marker, 50)},
		"header":       {Kind: "test", Headers: map[string]string{marker: marker + "\xff"}},
		"header name":  {Kind: "test", Headers: map[string]string{marker + "\x00": marker}},
		"long headers": {Kind: "test", Headers: map[string]string{marker: strings.Repeat(marker, 10_000)}},
		"a channel":    queue.NewKind[any]("test").New(map[string]any{marker: make(chan int)}),
		"another kind": {Kind: "te\nst", Payload: json.RawMessage(`"` + marker + `"`), Key: marker},
	} {
		e.fails(t, field, q.Enqueue(t.Context(), nil, job))
	}
}

// secretive is a job with the marker wherever an application may put something of its own.
func secretive(kind string) *queue.Job {
	return &queue.Job{
		Kind: kind, Key: marker + kind, Payload: json.RawMessage(`{"n": "` + marker + `", "m": {"` + marker + `": "` + marker + `"}}`),
		Headers: map[string]string{marker: marker},
	}
}

// refusedByServer is what the server refuses, whose own report of it quotes the row.
func refusedByServer(t *testing.T, e *ear, db, root *sql.DB) {
	q := e.tel.Queue(backend(t, db, postgres.Options{}))
	exec(t, root, `ALTER TABLE errand.jobs ADD CONSTRAINT no CHECK (kind <> 'refused')`)
	unkeyed := secretive("refused")
	unkeyed.Key = ""
	e.fails(t, "refused, with a key", q.Enqueue(t.Context(), nil, secretive("refused")))
	e.fails(t, "refused, one", q.Enqueue(t.Context(), nil, unkeyed))
	e.fails(t, "refused, many", q.Enqueue(t.Context(), nil, unkeyed, unkeyed))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	e.fails(t, "cancelled", q.Enqueue(over, nil, secretive("test")))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tx.Rollback()
	e.fails(t, "in a transaction that is over", q.Enqueue(t.Context(), tx, secretive("test")))
}

// failingHandlers runs a worker whose handlers fail in every way, and then loses its connections.
func failingHandlers(t *testing.T, e *ear, q *postgres.Backend, root *sql.DB, user string) {
	mux := queue.NewMux()
	queue.NewKind[struct{ N time.Time }]("misfit").Handle(mux, func(context.Context, *queue.Job, struct{ N time.Time }) error { return nil })
	queue.NewKind[struct{ M map[int]int }]("misfit.map").Handle(mux, func(context.Context, *queue.Job, struct{ M map[int]int }) error { return nil })
	queue.Kind[any]{Name: "timeout", Timeout: time.Millisecond}.Handle(mux, func(ctx context.Context, _ *queue.Job, _ any) error {
		<-ctx.Done()
		return ctx.Err()
	})
	for kind, h := range map[string]queue.HandlerFunc{
		"done":     func(context.Context, *queue.Job) error { return nil },
		"plain":    func(context.Context, *queue.Job) error { return errors.New(said) },
		"again":    func(context.Context, *queue.Job) error { return queue.RetryAfter(time.Hour, errors.New(said)) },
		"discard":  func(context.Context, *queue.Job) error { return queue.Discard(errors.New(said)) },
		"snooze":   func(context.Context, *queue.Job) error { return queue.Snooze(time.Hour) },
		"panic":    func(context.Context, *queue.Job) error { panic(said) },
		"crash":    func(_ context.Context, j *queue.Job) error { return errors.New(string(j.Payload[1<<20])) },
		"lost":     func(ctx context.Context, _ *queue.Job) error { <-ctx.Done(); return context.Cause(ctx) },
		"unstored": func(context.Context, *queue.Job) error { return errors.New("unstored") },
	} {
		mux.Handle(kind, h)
	}
	exec(t, root, `ALTER TABLE errand.jobs ADD CONSTRAINT never CHECK (last_error <> 'unstored')`)
	for _, kind := range mux.Kinds() {
		enqueue(t, e.tel.Queue(q), secretive(kind))
	}
	exec(t, root, `INSERT INTO errand.jobs (kind, status, locked_by, locked_at, locked_until, payload) VALUES ('done', 'running', 'gone', now() - interval '1 h', now() - interval '30 min', '"`+marker+`"')`)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	worker := engine.Worker{
		Backend: e.tel.Queue(q), Logger: e.logger, Lease: 300 * time.Millisecond, Poll: 50 * time.Millisecond, Grace: time.Second,
		Handler: queue.Chain(mux, e.tel.Handler, middleware.Log(nil)),
	}
	go func() { ended <- worker.Run(ctx) }()
	eventually(t, "a job is lost while it runs", func() bool { // a run may just have ended, on a slow machine, because its lease had
		exec(t, root, `UPDATE errand.jobs SET fence = fence + 1000 WHERE kind = 'lost' AND status = 'running'`)
		return e.has(`"errand: lease lost, `)
	})
	for _, words := range []string{
		`"errand: job failed"`, `"errand: job is dead"`, `"errand: lease expired, job reclaimed"`, `"errand: job done"`,
		`"errand: job released"`, `error="panic: `, `violates check constraint`, `kind=timeout`, `index out of range`, `misfit.map`,
	} {
		eventually(t, words, func() bool { return e.has(words) })
	}
	exec(t, root, `ALTER TABLE errand.jobs DROP CONSTRAINT never`)
	exec(t, root, `ALTER ROLE `+user+` NOLOGIN`)
	exec(t, root, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, user)
	eventually(t, "claiming fails", func() bool { return e.has("errand: claim failed, will retry") })
	exec(t, root, `ALTER ROLE `+user+` LOGIN`)
	eventually(t, "claiming works again", func() bool { return e.has("errand: claim works again") })
	stop()
	if err := <-ended; err != nil {
		fmt.Fprintf(e, "Run: %v\n", err)
	}
}

// unreachable is a server that refuses the connection, one that refuses the password, and an
// address that is none.
func unreachable(t *testing.T, e *ear, w way, dsn, user string) {
	u, err := url.Parse(with(t, dsn, user, marker))
	if err != nil {
		t.Fatal(err)
	}
	nobody, nowhere := *u, *u
	nobody.Host, nowhere.Path = "127.0.0.1:1", "/none"
	for what, bad := range map[string]string{
		"connection refused": nobody.String(),
		"wrong password":     with(t, dsn, user, marker+marker),
		"no such database":   nowhere.String(),
	} {
		db, listen := w.open(t, bad)
		q := backend(t, db, postgres.Options{Listen: listen})
		e.fails(t, what+": Migrate", postgres.Migrate(t.Context(), db, postgres.Options{}))
		e.fails(t, what+": Enqueue", e.tel.Queue(q).Enqueue(t.Context(), nil, secretive("test")))
		_, err := q.Claim(t.Context(), request(1))
		e.fails(t, what+": Claim", err)
		_, err = q.Counts(t.Context())
		e.fails(t, what+": Counts", err)
		runUntil(t, e, q, what, "errand: claim failed, will retry")
	}
	if w.driver == "pgx" { // which reads the address when it is first used; lib/pq's sql.Open refuses it
		for _, bad := range []string{"postgres://x:" + marker + "%zz@127.0.0.1:1/x", "host=127.0.0.1 password=" + marker + " port=none", "password=" + marker + " nonsense"} {
			db, err := sql.Open("pgx", bad)
			if err != nil {
				e.fails(t, "sql.Open", err)
				continue
			}
			e.fails(t, "bad address", backend(t, db, postgres.Options{}).Enqueue(t.Context(), nil, secretive("test")))
			db.Close()
		}
	}
}

// runUntil runs a worker until it has logged those words.
func runUntil(t *testing.T, e *ear, q *postgres.Backend, what, words string) {
	t.Helper()
	var logs ear // of this worker alone
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	nothing := queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
	go func() {
		ended <- engine.Worker{Backend: q, Handler: nothing, Logger: slog.New(slog.NewTextHandler(&logs, nil))}.Run(ctx)
	}()
	eventually(t, what+": "+words, func() bool { return logs.has(words) })
	stop()
	fmt.Fprintf(e, "%s: Run: %v\n%s\n", what, <-ended, &logs.text)
}
