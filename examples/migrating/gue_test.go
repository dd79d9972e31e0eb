package migrating

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// gueTable has the columns that gue v5 and v6 document, by their names and types.
// The module itself could not be had where this was written, so its worker is
// played by gueWork, which does what gue is documented to do: it locks a job's row
// with FOR UPDATE SKIP LOCKED, works with the transaction open, and then deletes
// the row, or writes the error to it, and commits.
const gueTable = `CREATE TABLE gue_jobs (
	job_id text PRIMARY KEY, queue text NOT NULL, job_type text NOT NULL, args bytea NOT NULL,
	priority smallint NOT NULL, run_at timestamptz NOT NULL, error_count integer NOT NULL DEFAULT 0, last_error text,
	created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)`

// gueJob is a row of it. Zero times mean now.
type gueJob struct {
	kind, queue string
	args        []byte
	priority    int
	runAt       time.Time
	errors      int
	lastError   sql.NullString
}

func (j gueJob) insert(t *testing.T, db *sql.DB) (id string, createdAt time.Time) {
	t.Helper()
	id = fmt.Sprintf("%026d", count(t, db, `SELECT count(*) FROM gue_jobs`)) // like a ULID, in order of insertion
	createdAt = time.Now().Truncate(time.Microsecond)
	if j.runAt.IsZero() {
		j.runAt = createdAt
	}
	if j.args == nil {
		j.args = []byte{} // as gue does it
	}
	exec(t, db, `INSERT INTO gue_jobs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`,
		id, j.queue, j.kind, j.args, j.priority, j.runAt, j.errors, j.lastError, createdAt)
	return id, createdAt
}

// gueWork works one job of gue's default queue; false if there is none.
func gueWork(ctx context.Context, db *sql.DB, work func(tx *sql.Tx, args []byte) error) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	var id string
	var args []byte
	err = tx.QueryRowContext(ctx, `SELECT job_id, args FROM gue_jobs WHERE queue = '' AND run_at <= now()
		ORDER BY priority LIMIT 1 FOR UPDATE SKIP LOCKED`).Scan(&id, &args)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := work(tx, args); err != nil {
		_, err = tx.ExecContext(ctx, `UPDATE gue_jobs SET error_count = error_count + 1, run_at = now() + interval '1 hour',
			last_error = $2, updated_at = now() WHERE job_id = $1`, id, err.Error())
		return true, errors.Join(err, tx.Commit())
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM gue_jobs WHERE job_id = $1`, id)
	return true, errors.Join(err, tx.Commit())
}

func withGue(t *testing.T) *sql.DB {
	t.Helper()
	db := postgrestest.Open(t)
	exec(t, db, gueTable)
	return db
}

// TestGueFields: whatever gue knows of a job, errand's handler sees.
func TestGueFields(t *testing.T) {
	db := withGue(t)
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	tests := []struct {
		name string
		was  gueJob
		want queue.Job
	}{
		{"plain", gueJob{kind: "plain", args: []byte(`{"b":1,"a":"é"}`)},
			queue.Job{Kind: "plain", Queue: "default", Payload: []byte(`{"a": "é", "b": 1}`), Attempt: 1, MaxAttempts: 25}},
		{"without args", gueJob{kind: "plain", queue: "mail", priority: -32768},
			queue.Job{Kind: "plain", Queue: "mail", Payload: []byte(`null`), Priority: -32768, Attempt: 1, MaxAttempts: 25}},
		{"failed", gueJob{kind: "plain", args: []byte(`[]`), priority: 7, runAt: later, errors: 30, lastError: sql.NullString{String: "no", Valid: true}},
			queue.Job{Kind: "plain", Queue: "default", Payload: []byte(`[]`), Priority: 7, Attempt: 31, MaxAttempts: 55, LastError: "no"}},
	}
	ids := make([]string, len(tests))
	due := map[string]time.Time{}
	for i := range tests {
		ids[i], tests[i].want.CreatedAt = tests[i].was.insert(t, db)
		tests[i].want.Headers = map[string]string{"gue.id": ids[i]}
		due[ids[i]] = tests[i].want.CreatedAt
		if !tests[i].was.runAt.IsZero() {
			due[ids[i]] = tests[i].was.runAt
		}
	}
	move(t, db, script(t, "gue.sql")).check(t, report{"moved": len(tests)})
	if n := count(t, db, `SELECT count(*) FROM gue_jobs`); n != 0 {
		t.Errorf("gue still has %d jobs, want 0", n)
	}
	for _, r := range jobs(t, backend(t, db)) {
		if id := r.Headers["gue.id"]; r.Status != queue.StatusPending || !r.ScheduledAt.Equal(due[id]) {
			t.Errorf("gue's job %s is %s and due %v, want pending and due %v", id, r.Status, r.ScheduledAt, due[id])
		}
	}
	seen := workAll(t, db, "gue.id", "default", "mail")
	for i, c := range tests {
		sameJob(t, c.name, seen[ids[i]], c.want)
	}
}

// TestGueStays: what cannot be moved is not touched, and what is not JSON moves if
// the script is told that it is bytes.
func TestGueStays(t *testing.T) {
	db := withGue(t)
	protobuf := []byte{0x08, 0x96, 0x01, 0x00, 0xff}
	for _, j := range []gueJob{
		{kind: "thumbnail", args: protobuf},
		{kind: "thumbnail", args: []byte(`17`)}, // JSON by chance
		{kind: "plain", args: []byte(`{"a":"\u0000"}`)},
		{kind: "plain", args: []byte(`{"a":`)},
		{kind: "plain", args: []byte(strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5))},
		{kind: "plain", args: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)},
		{kind: "größer", args: []byte(`1`)},
		{kind: strings.Repeat("x", 201), args: []byte(`1`)},
		{kind: "plain", queue: "grün", args: []byte(`1`)},
	} {
		j.insert(t, db)
	}
	want := report{
		"moved":                            1,
		"left: args are not JSON":          4,
		"left: args are longer than 1 MiB": 1,
		"left: job_type is not 1 to 200 printable ASCII bytes": 2,
		"left: queue is not 1 to 200 printable ASCII bytes":    1,
	}
	move(t, db, `BEGIN;`+script(t, "gue.sql")+`ROLLBACK`).check(t, want)

	asBytes := script(t, "gue.sql", "    binary_types CONSTANT text[] := '{}'", "    binary_types CONSTANT text[] := '{thumbnail}'")
	want["moved"], want["left: args are not JSON"] = 2, 3
	move(t, db, asBytes).check(t, want)
	if n := count(t, db, `SELECT count(*) FROM gue_jobs`); n != 7 {
		t.Errorf("gue has %d jobs, want 7", n)
	}
	thumbnail := queue.NewKind[[]byte]("thumbnail")
	for i, r := range jobs(t, backend(t, db)) {
		got, err := thumbnail.Args(&r.Job)
		if want := [][]byte{protobuf, []byte(`17`)}[i]; err != nil || !bytes.Equal(got, want) {
			t.Errorf("the bytes came back as %q, %v, want %q", got, err, want)
		}
	}
}

// TestGueRunning: a job whose row a gue worker has locked is left to it. One that
// has failed meanwhile moves with its error.
func TestGueRunning(t *testing.T) {
	db := withGue(t)
	gueJob{kind: "plain", args: []byte(`1`)}.insert(t, db)
	text := script(t, "gue.sql")
	worked, err := gueWork(t.Context(), db, func(*sql.Tx, []byte) error {
		move(t, db, text).check(t, report{inHand: 1})
		return nil
	})
	if !worked || err != nil {
		t.Fatalf("gue worked %t, %v", worked, err)
	}
	move(t, db, text).check(t, report{})

	gueJob{kind: "plain", args: []byte(`1`)}.insert(t, db)
	if _, err := gueWork(t.Context(), db, func(*sql.Tx, []byte) error { return errors.New("try again") }); err != nil {
		t.Fatal(err)
	}
	move(t, db, text).check(t, report{"moved": 1})
	for _, r := range jobs(t, backend(t, db)) {
		if r.Attempt != 1 || r.LastError != "try again" || time.Until(r.ScheduledAt) < 50*time.Minute {
			t.Errorf("after %d attempts, with %q, due %v: want 1, try again, in an hour", r.Attempt, r.LastError, r.ScheduledAt)
		}
	}
}

// TestGueLive: 600 jobs, gue's workers and errand's at work, and the script run
// over and over until gue has nothing left: each job runs once.
func TestGueLive(t *testing.T) {
	db := withGue(t)
	effects := newTally(t, db, liveJobs())
	exec(t, db, `INSERT INTO gue_jobs SELECT 'job ' || i, '', 'live', convert_to(i::text, 'UTF8'), 0, now(), 0, NULL, now(), now()
		FROM generate_series(1, $1::integer) AS i`, effects.want)

	work := func(tx *sql.Tx, args []byte) error {
		effects.halt()
		n, err := strconv.Atoi(string(args))
		return errors.Join(err, effects.note(t.Context(), tx, n, "gue"))
	}
	var old sync.WaitGroup
	for range 8 {
		old.Go(func() {
			for more := true; more; {
				var err error
				if more, err = gueWork(t.Context(), db, work); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	mux := queue.NewMux()
	queue.NewKind[int]("live").Handle(mux, func(ctx context.Context, _ *queue.Job, n int) error {
		return effects.note(ctx, db, n, "errand")
	})
	worker := engine.Worker{Backend: backend(t, db), Handler: mux, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		stopped <- worker.Run(ctx)
	}()
	effects.moveAll(t, "gue.sql")
	old.Wait()
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	effects.check(t, "gue", "errand")
	if n := count(t, db, `SELECT count(*) FROM gue_jobs`); n != 0 {
		t.Errorf("gue still has %d jobs, want 0", n)
	}
}
