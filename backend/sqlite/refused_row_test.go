package sqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// refuse makes the database refuse to update or delete jobs of the kind "bad".
func refuse(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, change := range []string{"UPDATE", "DELETE"} {
		execute(t, db, `CREATE TRIGGER refuse_`+change+` BEFORE `+change+` ON errand_jobs WHEN OLD.kind = 'bad' BEGIN
			SELECT RAISE(ABORT, 'not this one'); END`)
	}
}

// TestRefusedRow: a row that a trigger refuses to change stops no operation on other rows, on any
// driver. Its ID is logged once a minute, or is in the error of a person's action.
func TestRefusedRow(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		var log bytes.Buffer
		db, q := fresh(t, driver, sqlite.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		refuse(t, db)
		set := func(status, more string) (bad int64) {
			execute(t, db, `DROP TRIGGER refuse_UPDATE`)
			execute(t, db, `DROP TRIGGER refuse_DELETE`)
			execute(t, db, `DELETE FROM errand_jobs`)
			execute(t, db, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)
				INSERT INTO errand_jobs (queue, kind) SELECT 'default', iif(i = 150, 'bad', 'test') FROM n`)
			execute(t, db, `UPDATE errand_jobs SET status = '`+status+`'`+more)
			refuse(t, db)
			return value[int64](t, db, `SELECT id FROM errand_jobs WHERE kind = 'bad'`)
		}
		wantLogged := func(operation string, id int64) {
			t.Helper()
			if n := strings.Count(log.String(), fmt.Sprintf("operation=%s job=%d ", operation, id)); n != 1 {
				t.Errorf("%s: job %d is %d times in the log, want once:\n%s", operation, id, n, log.String())
			}
			log.Reset()
		}

		bad := set("pending", "")
		if got := len(claim(t, q, 200)); got != 199 {
			t.Errorf("Claim: got %d of 199", got)
		}
		if got := len(claim(t, q, 200)); got != 100 {
			t.Errorf("Claim: then got %d of 100", got)
		}
		if got := len(claim(t, q, 200)); got != 0 {
			t.Errorf("Claim of the bad job: got %d", got)
		}
		wantLogged("claim", bad)

		bad = set("running", ", locked_by = 'w', fence = 1, locked_at = 1, locked_until = 2")
		reclaimed := 0
		for _, limit := range []int{1000, math.MaxInt} { // the second passes the bad one over
			jobs, err := q.Reclaim(t.Context(), limit)
			if reclaimed += len(jobs); err != nil {
				t.Errorf("Reclaim: %v", err)
			}
		}
		if reclaimed != 299 {
			t.Errorf("Reclaim: %d of 299", reclaimed)
		}
		wantLogged("reclaim", bad)

		bad = set("dead", ", updated_at = 1, created_at = 1")
		pruneAll(t, q)
		pruneAll(t, q)
		if n := value[int](t, db, `SELECT count(*) FROM errand_jobs`); n != 1 {
			t.Errorf("Prune: %d jobs are left, want the bad one", n)
		}
		wantLogged("prune", bad)

		which := queue.Selection{Queue: "default"}
		ended := queue.Selection{Queue: "default", Status: queue.StatusCancelled}
		for status, action := range map[string]func(db queue.DB) (int, error){
			"pending":   func(db queue.DB) (int, error) { return q.Cancel(t.Context(), db, which) },
			"dead":      func(db queue.DB) (int, error) { return q.Redrive(t.Context(), db, which) },
			"cancelled": func(db queue.DB) (int, error) { return q.Delete(t.Context(), db, ended) },
			"held":      func(db queue.DB) (int, error) { return q.Edit(t.Context(), db, which, queue.JobChange{RunNow: true}) },
		} {
			bad = set(status, "")
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := action(tx)
			if n != 0 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("job %d: ", bad)) {
				t.Errorf("action on %s jobs in a transaction: changed %d, error %v; want an error that names job %d", status, n, err, bad)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if n := value[int](t, db, `SELECT count(*) FROM errand_jobs WHERE status = '`+status+`'`); n != 300 {
				t.Errorf("action on %s jobs in a transaction: %d of 300 are as they were", status, n)
			}
			n, err = action(nil)
			if n != 299 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("job %d: ", bad)) {
				t.Errorf("action on %s jobs: changed %d, error %v; want 299, and an error that names job %d", status, n, err, bad)
			}
		}
	})
}
