package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// badRows are values that SQL may write where errand would not, by what is odd about them.
var badRows = map[string]struct{ columns, values string }{
	"created at infinity":  {"created_at", "'infinity'"},
	"created at -infinity": {"created_at", "'-infinity'"},
	"created in 200000":    {"created_at", "'200000-01-01'"},
	"created in 4000 BC":   {"created_at", "'4000-01-01 BC'"},
	"due at -infinity":     {"scheduled_at", "'-infinity'"},
	"due in 4000 BC":       {"scheduled_at", "'4000-01-01 BC'"},
	"most attempts":        {"attempts, max_attempts", "2147483647, 2147483647"},
	"fewest attempts":      {"attempts, max_attempts", "-2147483648, -2147483648"},
	"headers are an array": {"headers", "'[1, 2]'"},
	"headers are a number": {"headers", "'7'"},
	"long last error":      {"last_error", "repeat('x', 100000)"},
	"updated at infinity":  {"updated_at", "'infinity'"},
	"locked before BC":     {"locked_at, locked_until", "'-infinity', 'infinity'"},
}

// TestBadRows: times and numbers that errand would not have written keep no job from running, not
// even their own.
func TestBadRows(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			db, _ := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			for _, row := range badRows {
				insertBad(t, db, row.columns, row.values)
			}
			enqueue(t, q, jobs(100)...)
			if log := workThrough(t, db, q); log != "" {
				t.Errorf("the log is not empty:\n%s", log)
			}
			want := 100 + len(badRows)
			if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'completed'`); n != want {
				t.Errorf("%d of %d jobs completed", n, want)
			}
			if list, _, err := q.Jobs(t.Context(), queue.Filter{Limit: 1000}); err != nil || len(list) != want {
				t.Errorf("Jobs: got %d, error %v; want %d", len(list), err, want)
			}
		})
	}
}

// TestReclaimBadRows: the same rows do not keep expired leases from being reclaimed.
func TestReclaimBadRows(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	for _, row := range badRows {
		id := insertBad(t, db, row.columns, row.values)
		exec(t, db, `UPDATE errand.jobs SET status = 'running', fence = 1, locked_by = 'w', attempts = greatest(attempts, 2),
			last_error = 'errand: the lease of worker w expired',
			locked_at = coalesce(locked_at, now() - interval '1 hour'), locked_until = now() - interval '59 minutes' WHERE id = $1`, id)
	}
	jobs, err := q.Reclaim(t.Context(), 1000)
	if err != nil || len(jobs) != len(badRows) {
		t.Errorf("Reclaim: got %d jobs, error %v; want %d", len(jobs), err, len(badRows))
	}
}

// corrupt is a jsonb as a bad disk leaves it: an array whose one value is of no kind that there is.
// The server finds that when it prints it (XX000).
const corrupt = `'\x010000400400005000000000'::bytea::jsonb`

// allowCorrupt makes corrupt possible in db.
func allowCorrupt(t *testing.T, db *sql.DB) {
	t.Helper()
	exec(t, db, `CREATE CAST (bytea AS jsonb) WITHOUT FUNCTION`)
}

// TestUnreadable: a job is dead, with a reason, if the server cannot print its payload or headers;
// its ID is logged. All others run, and a person who lists the jobs sees it.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for i, column := range []string{"payload", "headers"} {
		t.Run(column, func(t *testing.T) {
			db, _ := theseWays[i%len(theseWays)].open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{})
			allowCorrupt(t, db)
			id := insertBad(t, db, column, corrupt)
			enqueue(t, q, jobs(100)...)
			log := workThrough(t, db, q)
			if want := fmt.Sprintf(`msg="errand: job is dead" worker=\S+ job=%d `, id); !regexp.MustCompile(want).MatchString(log) {
				t.Errorf("the log has no %s:\n%s", want, log)
			}
			if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'completed'`); n != 100 {
				t.Errorf("%d of 100 good jobs completed", n)
			}
			list, _, err := q.Jobs(t.Context(), queue.Filter{Status: queue.StatusDead})
			if err != nil || len(list) != 1 || list[0].ID != id || list[0].Unreadable == nil || !strings.Contains(list[0].LastError, "cannot be read") {
				t.Errorf("dead Jobs: got %+v, error %v; want job %d, Unreadable, with a reason", list, err, id)
			}
			if n, err := q.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
				t.Errorf("Redrive: got %d, error %v; want 1", n, err)
			}
		})
	}
}

// TestUnprintable: a payload that the server stores in 2 kB and cannot print in a gigabyte (54000)
// cannot be read, and the jobs behind it can. Where memory is slow the server takes over 10 s to
// find that, which is longer than a worker waits for its first claims; so no worker claims here.
func TestUnprintable(t *testing.T) {
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes the server some twenty seconds, and a gigabyte")
	}
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	// jsonb_agg would take seconds, because it prints each number.
	id := insertBad(t, db, "payload", `('[' || repeat('1e131000,', 8999) || '1e131000]')::jsonb`)
	enqueue(t, q, jobs(1)...)
	if got := claim(t, q, 10); len(got) != 1 || got[0].ID != id || got[0].Unreadable == nil {
		t.Errorf("got %+v, want job %d alone, Unreadable", got, id)
	}
	if got := claim(t, q, 10); len(got) != 1 || got[0].Unreadable != nil {
		t.Errorf("then got %+v, want the other job", got)
	}
}

// TestUnreadableInTx: a job that cannot be read makes one ClaimTx fail, and not the next.
func TestUnreadableInTx(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	allowCorrupt(t, db)
	id := insertBad(t, db, "payload", corrupt)
	enqueue(t, q, jobs(1)...)
	for try, ok := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if job, err := q.ClaimTx(t.Context(), tx, request(1)); (job != nil && err == nil) != ok {
			t.Errorf("try %d: got %+v, error %v; want a job: %t", try+1, job, err, ok)
		}
	}
	if r, _, err := q.Job(t.Context(), id); err != nil || r.Status != queue.StatusDead || !strings.Contains(r.LastError, "cannot be read") {
		t.Errorf("got %s, %q, error %v; want it dead with a reason", r.Status, r.LastError, err)
	}
}

// insertBad writes a job that is claimed before all others. The table refuses most of them; here it
// has no checks.
func insertBad(t *testing.T, db *sql.DB, columns, values string) (id int64) {
	t.Helper()
	dropChecks(t, db)
	return value[int64](t, db, fmt.Sprintf(
		`INSERT INTO errand.jobs (kind, priority, %s) VALUES ('test', -1000, %s) RETURNING id`, columns, values))
}

// workThrough runs a worker until all jobs have ended, and returns its log.
func workThrough(t *testing.T, db *sql.DB, q *postgres.Backend) (log string) {
	t.Helper()
	var text lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		mux := queue.NewMux()
		mux.Handle("test", queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
		w := engine.Worker{Backend: q, Handler: mux, Poll: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "all jobs have ended", func() bool {
		return value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running')`) == 0
	})
	cancel()
	wg.Wait()
	return text.String()
}

// lockedBuffer is a bytes.Buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
