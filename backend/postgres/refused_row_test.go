package postgres_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// refuse makes the database refuse to update or delete jobs of the kind "bad".
func refuse(t *testing.T, exec func(query string)) {
	t.Helper()
	exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF OLD.kind = 'bad' THEN RAISE EXCEPTION 'not this one'; END IF;
			RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
		END $$`)
	exec(`CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON errand.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

// TestRefusedRow: a row that a trigger refuses to change stops no operation on other rows, on
// either driver. Its ID is logged once a minute, or is in the error of a person's action.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	for _, w := range theseWays {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			db, _ := w.open(t, postgrestest.DSN(t))
			var log lockedBuffer
			q := backend(t, db, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Retention: queue.Retention{Completed: -1, Dead: -1}})
			refuse(t, func(query string) { exec(t, db, query) })
			set := func(status, more string) (bad int64) {
				exec(t, db, `ALTER TABLE errand.jobs DISABLE TRIGGER refuse`)
				exec(t, db, `DELETE FROM errand.jobs`)
				exec(t, db, `INSERT INTO errand.jobs (kind) SELECT CASE WHEN i = 150 THEN 'bad' ELSE 'test' END FROM generate_series(1, 300) AS i`)
				exec(t, db, `UPDATE errand.jobs SET status = '`+status+`'`+more)
				exec(t, db, `ALTER TABLE errand.jobs ENABLE TRIGGER refuse`)
				return value[int64](t, db, `SELECT id FROM errand.jobs WHERE kind = 'bad'`)
			}
			wantLogged := func(operation string, id int64) {
				t.Helper()
				if n := strings.Count(log.String(), fmt.Sprintf("operation=%s job=%d ", operation, id)); n != 1 {
					t.Errorf("%s: job %d is %d times in the log, want once:\n%s", operation, id, n, log.String())
				}
			}

			bad := set("pending", "")
			for got := 0; got < 299; {
				jobs, err := q.Claim(t.Context(), request(100))
				if got += len(jobs); err != nil || len(jobs) == 0 {
					t.Fatalf("Claim: got %d jobs in all, error %v; want 299", got, err)
				}
			}
			if jobs, err := q.Claim(t.Context(), request(100)); err != nil || len(jobs) > 0 {
				t.Errorf("Claim of the bad job: got %d, error %v; want none", len(jobs), err)
			}
			wantLogged("claim", bad)

			bad = set("running", ", locked_by = 'w', fence = 1, locked_at = now() - interval '2 hours', locked_until = now() - interval '1 hour'")
			reclaimed := 0
			for range 2 {
				jobs, err := q.Reclaim(t.Context(), 1000)
				if reclaimed += len(jobs); err != nil {
					t.Errorf("Reclaim: %v", err)
				}
			}
			if reclaimed != 299 {
				t.Errorf("Reclaim: %d of 299", reclaimed)
			}
			wantLogged("reclaim", bad)

			for _, status := range []string{"completed", "dead", "cancelled"} {
				bad = set(status, ", updated_at = now() - interval '1 year', created_at = now() - interval '1 year'")
				for range 2 {
					if _, _, err := q.Prune(t.Context()); err != nil {
						t.Errorf("Prune of %s: %v", status, err)
					}
				}
				if n := value[int](t, db, `SELECT count(*) FROM errand.jobs`); n != 1 {
					t.Errorf("Prune: %d %s jobs are left, want the bad one", n, status)
				}
				wantLogged("prune", bad)
			}

			which := queue.Selection{Queue: "default"}
			for name, action := range map[string]func() (int, error){
				"pending":   func() (int, error) { return q.Cancel(t.Context(), nil, which) },
				"dead":      func() (int, error) { return q.Redrive(t.Context(), nil, which) },
				"cancelled": func() (int, error) { return q.Delete(t.Context(), nil, which) },
				"held":      func() (int, error) { return q.Edit(t.Context(), nil, which, queue.JobChange{RunNow: true}) },
			} {
				if name == "cancelled" {
					which.Status = queue.StatusCancelled
				}
				bad = set(name, "")
				n, err := action()
				if n != 299 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("job %d: ", bad)) {
					t.Errorf("action on %s jobs: changed %d, error %v; want 299, and an error that names job %d", name, n, err, bad)
				}
				which = queue.Selection{Queue: "default"}
			}
		})
	}
}

// TestRefusedInTx: in the caller's transaction a refused row makes an action fail, the error names
// the row, and nothing is done.
func TestRefusedInTx(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	refuse(t, func(query string) { exec(t, db, query) })
	enqueue(t, q, jobs(5)...)
	bad := &queue.Job{Kind: "bad"}
	enqueue(t, q, bad)
	enqueue(t, q, jobs(5)...)
	for name, action := range map[string]func(tx queue.DB) error{
		"cancel": func(tx queue.DB) error {
			_, err := q.Cancel(t.Context(), tx, queue.Selection{Queue: "default"})
			return err
		},
		"claim": func(tx queue.DB) error {
			_, err := q.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"default"}, Kinds: []string{"bad"}})
			return err
		},
	} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := action(tx); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("job %d: ", bad.ID)) {
			t.Errorf("%s: got error %v, want one that names job %d", name, err, bad.ID)
		}
		_ = tx.Commit()
		if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'pending'`); n != 11 {
			t.Errorf("%s: %d of 11 jobs are as they were", name, n)
		}
	}
}

// TestDamagedToast: a job whose payload's TOAST is damaged is dead with a reason, named in the log,
// and all others run.
func TestDamagedToast(t *testing.T) {
	t.Parallel()
	db, q := fresh(t, postgres.Options{})
	enqueue(t, q, jobs(3)...)
	id := value[int64](t, db, `INSERT INTO errand.jobs (kind, payload)
		SELECT 'test', to_jsonb(string_agg(md5(i::text), '')) FROM generate_series(1, 1000) AS i RETURNING id`)
	enqueue(t, q, jobs(3)...)
	toast := value[string](t, db, `SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'errand.jobs'::regclass`)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, `SET LOCAL allow_system_table_mods = on`)
	exec(t, tx, `UPDATE pg_class SET relkind = 'r' WHERE oid = '`+toast+`'::regclass`)
	exec(t, tx, `TRUNCATE `+toast) // after a DELETE the chunks are read until VACUUM, which a snapshot holds up
	exec(t, tx, `UPDATE pg_class SET relkind = 't' WHERE oid = '`+toast+`'::regclass`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `SELECT payload::text FROM errand.jobs WHERE id = $1`, id); err == nil {
		t.Fatal("the payload can still be read")
	}
	log := workThrough(t, db, q)
	if want := fmt.Sprintf("job=%d ", id); !strings.Contains(log, "job is dead") || !strings.Contains(log, want) {
		t.Errorf("the log does not name the dead job %d:\n%s", id, log)
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs WHERE status = 'completed'`); n != 6 {
		t.Errorf("%d of 6 good jobs completed", n)
	}
	if r, _, err := q.Job(t.Context(), id); err != nil || r.Status != queue.StatusDead || !strings.Contains(r.LastError, "cannot be read") {
		t.Errorf("got %s, %q, error %v; want it dead with a reason", r.Status, r.LastError, err)
	}
}
