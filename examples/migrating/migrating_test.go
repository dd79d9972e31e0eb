// Package migrating holds no code: only the tests that keep docs/migrating.md and
// its scripts true.
package migrating

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// atMost bounds a test that waits for somebody's worker.
const atMost = time.Minute

// script reads one of the scripts and makes edits, such as its comments invite
// to: pairs of a beginning of a line, and what takes its place.
func script(t *testing.T, name string, edits ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/migrating/" + name)
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	for i := 0; i < len(edits); i += 2 {
		if n := strings.Count(s, "\n"+edits[i]); n != 1 {
			t.Fatalf("%s has %q %d times at the beginning of a line, want once", name, edits[i], n)
		}
		s = strings.Replace(s, "\n"+edits[i], "\n"+edits[i+1], 1)
	}
	return s
}

// report is what a script says: how many jobs by outcome, zeros left out.
type report map[string]int

// inHand is the outcome of what is running, or was taken meanwhile.
const inHand = "left: a worker has it, or this run did not get to it"

func (r report) check(t *testing.T, want report) {
	t.Helper()
	if !maps.Equal(r, want) {
		t.Errorf("the script reports %v, want %v", r, want)
	}
}

// move runs a script as one message of the simple protocol.
func move(t *testing.T, db *sql.DB, script string) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := report{}
	err = conn.Raw(func(driver any) error {
		results, err := driver.(*stdlib.Conn).Conn().PgConn().Exec(ctx, script).ReadAll()
		for _, result := range results {
			for _, row := range result.Rows {
				if jobs, _ := strconv.Atoi(string(row[1])); jobs != 0 {
					got[string(row[0])] = jobs
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func backend(t *testing.T, db *sql.DB) *postgres.Backend {
	t.Helper()
	q, err := postgres.New(db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// count is the one number that a query returns.
func count(t *testing.T, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// jobs lists errand's jobs in the order of their ids.
func jobs(t *testing.T, q *postgres.Backend) []queue.Record {
	t.Helper()
	records, _, err := q.Jobs(t.Context(), queue.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i, j := 0, len(records)-1; i < j; i, j = i+1, j-1 {
		records[i], records[j] = records[j], records[i]
	}
	return records
}

// workAll makes all of errand's jobs due, has a Worker run them, and returns what
// its handler saw, by the header id.
func workAll(t *testing.T, db *sql.DB, id string, queues ...string) map[string]queue.Job {
	t.Helper()
	exec(t, db, `UPDATE errand.jobs SET scheduled_at = now()`)
	n := count(t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'pending'`)
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	seen := make(map[string]queue.Job)
	var mu sync.Mutex
	handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		mu.Lock()
		defer mu.Unlock()
		seen[job.Headers[id]] = *job
		if n--; n <= 0 {
			cancel()
		}
		return nil
	})
	worker := engine.Worker{Backend: backend(t, db), Handler: handler, Queues: queues, Logger: slog.New(slog.DiscardHandler)}
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("%d jobs did not run, want 0", n)
	}
	if left := count(t, db, `SELECT count(*) FROM errand.jobs WHERE status <> 'completed'`); left != 0 {
		t.Errorf("%d jobs are not completed, want 0", left)
	}
	return seen
}

// sameJob compares what the handler saw of a job with what it should have seen,
// which leaves out what only errand knows: ID, Fence, Worker.
func sameJob(t *testing.T, name string, got, want queue.Job) {
	t.Helper()
	if got.Kind != want.Kind || got.Queue != want.Queue || string(got.Payload) != string(want.Payload) {
		t.Errorf("%s: kind, queue, payload: got %q %q %s, want %q %q %s", name, got.Kind, got.Queue, got.Payload, want.Kind, want.Queue, want.Payload)
	}
	if got.Priority != want.Priority || got.Attempt != want.Attempt || got.MaxAttempts != want.MaxAttempts {
		t.Errorf("%s: priority, attempt, max attempts: got %d %d %d, want %d %d %d",
			name, got.Priority, got.Attempt, got.MaxAttempts, want.Priority, want.Attempt, want.MaxAttempts)
	}
	if got.Key != want.Key || got.LastError != want.LastError {
		t.Errorf("%s: key, last error: got %q %q, want %q %q", name, got.Key, got.LastError, want.Key, want.LastError)
	}
	if !maps.Equal(got.Headers, want.Headers) {
		t.Errorf("%s: headers: got %v, want %v", name, got.Headers, want.Headers)
	}
	if !got.CreatedAt.Equal(want.CreatedAt) {
		t.Errorf("%s: created at: got %v, want %v", name, got.CreatedAt, want.CreatedAt)
	}
}

// tally notes which job ran, and who ran it, in a table.
type tally struct {
	db   *sql.DB
	want int

	mu   sync.Mutex
	ran  int
	some chan struct{} // closed when a twentieth of the jobs has run
	gate chan struct{} // closed when the old workers may go on from there
	all  chan struct{} // closed when as many have run as there are
}

// liveJobs is how many jobs are moved beside workers: 2,000 with ERRAND_TESTS=whole.
func liveJobs() int {
	if extent.Whole() {
		return 2000
	}
	return 600
}

func newTally(t *testing.T, db *sql.DB, want int) *tally {
	t.Helper()
	exec(t, db, `CREATE TABLE effects (job integer, worker text)`)
	return &tally{db: db, want: want, some: make(chan struct{}), gate: make(chan struct{}), all: make(chan struct{})}
}

// halt stops an old worker inside a job, when some jobs have run and until the
// gate is open: so that there is something left to move, however fast it is.
func (y *tally) halt() {
	select {
	case <-y.some:
		<-y.gate
	default:
	}
}

// note writes the effect of a job.
func (y *tally) note(ctx context.Context, db queue.DB, job int, worker string) error {
	if _, err := db.ExecContext(ctx, `INSERT INTO effects (job, worker) VALUES ($1, $2)`, job, worker); err != nil {
		return err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ran++
	if y.ran == y.want/20 {
		close(y.some)
	}
	if y.ran == y.want {
		close(y.all)
	}
	return nil
}

// moveAll runs the script over and over, 50 jobs at a time, until it has nothing
// to report, and opens the gate after the first time.
func (y *tally) moveAll(t *testing.T, name string) {
	t.Helper()
	wait(t, "the first jobs", y.some)
	step := script(t, name, "        FOR UPDATE SKIP LOCKED", "        LIMIT 50 FOR UPDATE SKIP LOCKED")
	for began, runs := time.Now(), 1; len(move(t, y.db, step)) > 0; runs++ {
		if runs == 1 {
			close(y.gate)
		}
		if time.Since(began) > atMost {
			t.Fatal("there still are jobs to be moved")
		}
	}
	wait(t, "the last jobs", y.all)
}

// check says that every job ran, none of them twice, and that both workers took part.
func (y *tally) check(t *testing.T, workers ...string) {
	t.Helper()
	if n := count(t, y.db, `SELECT count(DISTINCT job) FROM effects`); n != y.want {
		t.Errorf("%d jobs ran, want %d", n, y.want)
	}
	if n := count(t, y.db, `SELECT count(*) FROM effects`); n != y.want {
		t.Errorf("%d runs, want %d", n, y.want)
	}
	for _, worker := range workers {
		n := count(t, y.db, `SELECT count(*) FROM effects WHERE worker = $1`, worker)
		t.Logf("%s ran %d", worker, n)
		if n == 0 {
			t.Errorf("%s ran no job, want some", worker)
		}
	}
}

// wait waits for c, but not for ever.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(atMost):
		t.Fatal("waited too long for " + what)
	}
}
