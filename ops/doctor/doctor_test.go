package doctor_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestHealthy: doctor finds nothing on a fresh server, nor beside jobs that run and wait.
func TestHealthy(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("an empty queue: found %v", found)
	}
	opstest.Exec(t, db, `INSERT INTO errand.jobs (queue) SELECT 'q' FROM generate_series(1, 1000)`)
	opstest.Claim(t, q, "q", time.Minute)
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("1,000 jobs: found %v", found)
	}
	opstest.SetDefault(t, db, "search_path", "errand, public")
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("a role that has the schema in its search_path: found %v", found)
	}
	opstest.SetDefault(t, db, "temp_file_limit", "0")
	if found := opstest.Examine(t, q, doctor.Options{}); len(found) > 0 {
		t.Errorf("temporary files may not be long: found %v", found)
	}
	if found := opstest.Examine(t, memory.New(memory.Options{}), doctor.Options{}); len(found) > 0 {
		t.Errorf("in memory: found %v", found)
	}
}

// TestServersVersion: doctor warns of a server that gets no more security fixes. CI's step matrix
// runs it on PostgreSQL 13, whose releases have ended, and on later ones.
func TestServersVersion(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	var number int
	if err := db.QueryRowContext(t.Context(), `SHOW server_version_num`).Scan(&number); err != nil {
		t.Fatal(err)
	}
	want := ops.OK
	// By https://www.postgresql.org/support/versioning the last release of 13 was made in November
	// 2025, that of 14 in November 2026, and so on.
	if end := time.Date(2025+number/10000-13, time.November, 15, 0, 0, 0, 0, time.UTC); time.Now().After(end) {
		want = ops.Warn
	}
	report, err := doctor.Examine(t.Context(), q, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(report.Checks, func(c doctor.Check) bool { return c.ID == "version" })
	if i < 0 || report.Checks[i].Level != want {
		t.Errorf("PostgreSQL %d: got %+v, want the check version to be %s", number/10000, report.Checks, want)
	}
}

// TestFaults: doctor finds each fault, and only that.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		id    string
		name  string
		level ops.Level
		make  func(t *testing.T, db *sql.DB, q *postgres.Backend)
		says  string // is in the check's value or its advice
	}{
		{"horizon", "a snapshot", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			tx := opstest.Begin(t, db)
			opstest.Exec(t, tx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
			opstest.Exec(t, tx, `SELECT 1 FROM errand.jobs`)
			time.Sleep(short.Warn)
		}, "pg_terminate_backend("},
		{"horizon", "a prepared transaction", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Prepare(t, db, `INSERT INTO errand.jobs (queue) VALUES ('q')`)
			time.Sleep(short.Warn)
		}, "ROLLBACK PREPARED 'ops_test_"},
		{"schema", "none", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `DROP SCHEMA errand CASCADE`)
		}, "errand migrate up, postgres.Migrate"},
		{"schema", "old", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `DELETE FROM errand.migrations WHERE version = (SELECT max(version) FROM errand.migrations)`)
		}, "postgres.Migrate"},
		{"schema", "new", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `INSERT INTO errand.migrations (version, name) VALUES (9999, 'later')`)
		}, "newer"},
		{"sequences", "IDs in use", ops.Fail, func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.Exec(t, db, `INSERT INTO errand.jobs (queue) VALUES ('q'), ('q')`)
			opstest.Claim(t, q, "q", time.Minute)
			opstest.Exec(t, db, `SELECT setval('errand.jobs_id_seq', 1, false), setval('errand.fences', 1, false)`)
		}, "errand migrate repair"},
		{"sequences", "several", ops.Fail, func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", time.Hour)
			if err := q.Audit(t.Context(), nil, queue.AuditEntry{Actor: "ann", Action: "jobs.cancel"}); err != nil {
				t.Fatal(err)
			}
			opstest.Exec(t, db, `SELECT setval('errand.audit_id_seq', 1, false), setval('errand.fences', 1, false), setval('errand.jobs_id_seq', 1, false)`)
		}, "audit_id_seq is at 0, and numbers up to 1 are in use; jobs_id_seq is at 0, and numbers up to 1 are in use; fences is"},
		{"sequences", "fences in use", ops.Warn, func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			opstest.Exec(t, db, `INSERT INTO errand.jobs (queue) VALUES ('q')`)
			opstest.Claim(t, q, "q", time.Minute)
			opstest.Exec(t, db, `SELECT setval('errand.fences', 1, false)`)
		}, "errand migrate repair"},
		{"drift", "a dropped index", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `DROP INDEX errand.jobs_key_idx`)
		}, `CREATE UNIQUE INDEX CONCURRENTLY jobs_key_idx ON "errand".jobs`},
		{"drift", "an INVALID index", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `DROP INDEX errand.jobs_running_idx`)
			tx := opstest.Begin(t, db)
			opstest.Exec(t, tx, `LOCK TABLE errand.jobs IN ROW EXCLUSIVE MODE`)
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			opstest.Exec(t, conn, `SET statement_timeout = '200ms'`)
			_, err = conn.ExecContext(t.Context(), `CREATE INDEX CONCURRENTLY jobs_running_idx ON errand.jobs (locked_at) WHERE status = 'running'`)
			if err == nil {
				t.Fatal("the index was made beside a lock")
			}
			opstest.Exec(t, conn, `RESET statement_timeout`)
			conn.Close()
			_ = tx.Rollback()
		}, "DROP INDEX CONCURRENTLY"},
		{"drift", "an index too many", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE INDEX mine ON errand.jobs (kind)`)
		}, "index mine is not errand's"},
		{"drift", "a foreign CHECK", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ADD CONSTRAINT mine CHECK (kind <> 'x' OR status <> 'completed')`)
		}, `ALTER TABLE "errand".jobs DROP CONSTRAINT "mine"`},
		{"drift", "a foreign UNIQUE", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ADD CONSTRAINT mine UNIQUE (kind, id)`)
		}, `the constraint jobs.mine is not errand's: UNIQUE (kind, id)`},
		{"drift", "a foreign EXCLUDE", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ADD CONSTRAINT mine EXCLUDE (priority WITH =) WHERE (kind = 'x')`)
		}, `it may refuse a job`},
		{"drift", "a FOREIGN KEY", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.results ADD CONSTRAINT mine FOREIGN KEY (job_id) REFERENCES errand.jobs`)
		}, `the constraint results.mine is not errand's: FOREIGN KEY`},
		{"drift", "a FOREIGN KEY of another schema", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE TABLE public.mine (job bigint REFERENCES errand.jobs)`)
		}, `it may refuse that jobs are deleted`},
		{"drift", "a foreign NOT NULL", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ALTER job_group SET NOT NULL`)
		}, `jobs.job_group is different: text NOT NULL`},
		{"drift", "a column without a default", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ADD mine int NOT NULL`)
		}, `ALTER TABLE "errand".jobs DROP COLUMN "mine"`},
		{"drift", "a UNIQUE index", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE UNIQUE INDEX mine ON errand.jobs (kind, id)`)
		}, `it may refuse a job`},
		{"drift", "a rule", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE RULE mine AS ON DELETE TO errand.jobs DO INSTEAD NOTHING`)
		}, `DROP RULE "mine" ON "errand".jobs`},
		{"drift", "a missing function", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `DROP FUNCTION errand.bucket_full`)
		}, "errand migrate print postgres"},
		{"drift", "a changed column", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ALTER max_attempts SET DEFAULT 1`)
		}, "jobs.max_attempts is different"},
		{"drift", "a changed function", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE OR REPLACE FUNCTION errand.payload_problem(payload jsonb) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'`)
		}, "function payload_problem is different"},
		{"drift", "a disabled trigger", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs DISABLE TRIGGER USER`)
		}, "is disabled"},
		{"drift", "options of a table", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs SET (fillfactor = 90, parallel_workers = 2)`)
			opstest.Exec(t, db, `ALTER TABLE errand.jobs RESET (vacuum_truncate)`)
		}, `options of the table jobs are different: fillfactor is 90, vacuum_truncate is not set, parallel_workers is 2`},
		{"drift", "how to mend options", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs SET (fillfactor = 90, parallel_workers = 2)`)
		}, `ALTER TABLE "errand".jobs SET (fillfactor = 70); ALTER TABLE "errand".jobs RESET (parallel_workers)`},
		{"claim-cost", "dead rows beside a snapshot", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			tx := opstest.Begin(t, db)
			opstest.Exec(t, tx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
			opstest.Exec(t, tx, `SELECT 1 FROM errand.jobs`)
			opstest.Exec(t, db, `INSERT INTO errand.jobs (queue) SELECT 'q' FROM generate_series(1, 20000)`)
			opstest.Exec(t, db, `UPDATE errand.jobs SET status = 'completed'`)
		}, "a claim of the queue q"},
		{"retention", "nobody prunes", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `INSERT INTO errand.jobs (status, updated_at) VALUES ('completed', now() - interval '14 days')`)
		}, "the retention is 168h"},
		{"retention", "nobody prunes dead ones", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `INSERT INTO errand.jobs (status, updated_at) VALUES ('dead', now() - interval '91 days')`)
		}, "a dead or cancelled job"},
		{"waits", "a session", ops.Warn, func(t *testing.T, db *sql.DB, q *postgres.Backend) {
			id := opstest.Enqueue(t, q, queue.Job{Delay: time.Hour})
			opstest.Exec(t, opstest.Begin(t, db), `UPDATE errand.jobs SET priority = 1 WHERE id = $1`, id)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = db.ExecContext(ctx, `UPDATE errand.jobs SET priority = 2 WHERE id = $1`, id)
			}()
			t.Cleanup(func() { cancel(); <-done })
			time.Sleep(short.Warn + 100*time.Millisecond)
		}, "1 session waits for it"},
		{"waits", "the whole table", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, opstest.Begin(t, db), `LOCK TABLE errand.jobs IN ACCESS EXCLUSIVE MODE`)
			time.Sleep(1100 * time.Millisecond)
		}, "the whole table of jobs is locked"},
		{"collation", "changed", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			if majorVersion(t, db) < 15 {
				t.Skip("the server does not tell")
			}
			opstest.Exec(t, db, `UPDATE pg_database SET datcollversion = '0' WHERE datname = current_database()`)
		}, "REFRESH COLLATION VERSION"},
		{"rights", "of the schema", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `GRANT USAGE ON SCHEMA errand TO PUBLIC`)
		}, "docs/roles.sql"},
		{"rights", "of a table", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `GRANT USAGE ON SCHEMA errand TO PUBLIC; GRANT SELECT ON errand.jobs TO PUBLIC`)
		}, "change jobs"},
		{"table", "truncated", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `TRUNCATE errand.jobs`)
		}, "TRUNCATE"},
		{"table", "written anew", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `VACUUM FULL errand.jobs`)
		}, "pg_restore, logical replication, VACUUM FULL, CLUSTER, REPACK"},
		{"table", "a trigger", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `CREATE TRIGGER mine BEFORE UPDATE ON errand.jobs FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`)
		}, "mine"},
		{"table", "row security", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs ENABLE ROW LEVEL SECURITY`)
		}, "ROW LEVEL SECURITY"},
		{"autovacuum", "off", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `ALTER TABLE errand.jobs SET (autovacuum_enabled = off)`)
		}, "RESET (autovacuum_enabled)"},
		{"stale-leases", "nobody reclaims", ops.Warn, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", 10*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}, "start a worker"},
		{"backlog", "nobody works", ops.Warn, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			opstest.Enqueue(t, q, queue.Job{Queue: "slow"})
			time.Sleep(short.Warn)
		}, "the queue slow"},
		{"backlog", "paused", ops.Warn, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			opstest.Enqueue(t, q, queue.Job{Queue: "slow"})
			time.Sleep(time.Millisecond)
			opstest.Enqueue(t, q, queue.Job{Queue: "mail"})
			for _, target := range []queue.Target{{Queue: "mail"}, {Group: "acme", InQueue: "slow"}, {Kind: "mail.send"}} {
				if _, err := q.Pause(t.Context(), nil, target, true); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(short.Warn)
		}, `late, too: mail; paused: the queue mail, the group "acme" of the queue slow, the kind mail.send`},
		{"backlog", "a name that errand does not write", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, "INSERT INTO errand.jobs (queue) VALUES (E'a\\nb\\x1b[31m')")
			time.Sleep(short.Warn)
		}, `the queue a\nb\x1b[31m has`},
		{"connections", "the database's limit", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			db.SetMaxOpenConns(2)
			opstest.Exec(t, db, fmt.Sprintf(`ALTER DATABASE %s CONNECTION LIMIT 1`, opstest.Database(t, db)))
		}, "1 of 1 connections of the database"},
		{"timeouts", "of the database", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.SetDefault(t, db, "statement_timeout", "'1s'")
		}, "statement_timeout is 1s"},
		{"planner", "a setting", ops.Warn, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.SetDefault(t, db, "enable_indexscan", "off")
		}, "enable_indexscan is off"},
		{"nobody-serves", "a queue", ops.Fail, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			opstest.Report(t, q, opstest.Idle)
			opstest.Enqueue(t, q, queue.Job{Queue: "defaults", ScheduledAt: time.Now().Add(-15 * time.Second)})
		}, "similar names: default"},
		{"nobody-serves", "a kind", ops.Fail, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			w := opstest.Idle
			w.Kinds = []string{"emails"}
			opstest.Report(t, q, w)
			opstest.Enqueue(t, q, queue.Job{Kind: "email", ScheduledAt: time.Now().Add(-15 * time.Second)})
		}, "similar names: emails"},
		{"nobody-serves", "a retired kind", ops.Fail, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			w := opstest.Idle
			w.Kinds = []string{"emails"}
			opstest.Report(t, q, w)
			id := opstest.Enqueue(t, q, queue.Job{Kind: "old", ScheduledAt: time.Now().Add(-15 * time.Second)})
			if r := opstest.Explain(t, q, explain.Question{ID: id}).Reasons[0]; !strings.Contains(r.Remedy, "errand jobs cancel --kind old --queue default") {
				t.Errorf("explain advises %q", r.Remedy)
			}
		}, "errand jobs cancel --kind old --queue default"},
		{"fleet", "claims fail", ops.Fail, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			w := opstest.Idle
			w.ClaimError = "no connection"
			opstest.Report(t, q, w)
		}, "no connection"},
		{"fleet", "two versions", ops.Warn, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			opstest.Report(t, q, driver.WorkerInfo{Name: "a", Version: "v1.0.0"})
			opstest.Report(t, q, driver.WorkerInfo{Name: "b", Version: "v1.1.0"})
		}, "v1.0.0, v1.1.0"},
		{"fleet", "does not stop", ops.Warn, func(t *testing.T, _ *sql.DB, q *postgres.Backend) {
			w := driver.WorkerInfo{Name: "a", Grace: time.Second}
			if err := q.ReportWorkers(t.Context(), driver.WorkerReport{WorkerInfo: w, DrainAge: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}, "its Grace is 1s"},
		{"table", "wraparound is near", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.Exec(t, db, `UPDATE pg_class SET relfrozenxid = ((txid_current() + (1::bigint << 32) - 1600000000) & ((1::bigint << 32) - 1))::text::xid
				WHERE oid = 'errand.jobs'::regclass`)
		}, "1600 million transactions old"},
		{"writable", "by default not", ops.Fail, func(t *testing.T, db *sql.DB, _ *postgres.Backend) {
			opstest.SetDefault(t, db, "default_transaction_read_only", "on")
		}, "RESET default_transaction_read_only"},
	} {
		t.Run(f.id+"/"+f.name, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.Fresh(t)
			f.make(t, db, q)
			var o doctor.Options
			switch f.id {
			case "horizon":
				o.Horizon = short
			case "backlog":
				o.Backlog = short
			}
			found := opstest.Examine(t, q, o)
			c, ok := found[f.id]
			if !ok || len(found) > 1 {
				t.Fatalf("found %v, want only %s", slices.Collect(maps.Keys(found)), f.id)
			}
			if c.Level != f.level || !strings.Contains(c.Value+" "+c.Advice, f.says) || c.Advice == "" {
				t.Errorf("%s: %s → %s, want %s with %q", c.Level, c.Value, c.Advice, f.level, f.says)
			}
		})
	}
}

// TestDeadRowsKept: doctor finds dead rows that VACUUM cannot remove, and nothing else. It says how
// many the server counts, which is an estimate: once it was two more than had been deleted.
func TestDeadRowsKept(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	tx := opstest.Begin(t, db)
	opstest.Exec(t, tx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
	opstest.Exec(t, tx, `SELECT 1 FROM errand.jobs`)
	opstest.Exec(t, db, `INSERT INTO errand.jobs (queue, status) SELECT 'q', 'completed' FROM generate_series(1, 100001)`)
	// A session reports what it has deleted once a second, and at its end. After VACUUM it would
	// count twice.
	opstest.InOwnSession(t, db, `DELETE FROM errand.jobs`)
	opstest.Exec(t, db, `VACUUM errand.jobs`)
	opstest.WantDead(t, db, "VACUUM has reported") // before PostgreSQL 15 that takes a moment
	counted := func() string {
		var dead int
		if err := db.QueryRowContext(t.Context(), `SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'errand.jobs'::regclass`).Scan(&dead); err != nil {
			t.Fatal(err)
		}
		if dead < 100_001 {
			t.Errorf("the server counts %d dead rows", dead)
		}
		return fmt.Sprintf("%d dead rows beside 0 live rows, the last VACUUM was ", dead)
	}
	before := counted()
	found := opstest.Examine(t, q, doctor.Options{})
	after := counted()
	c := found["dead-rows"]
	if len(found) != 1 || c.Level != ops.Warn || c.Advice == "" || !strings.HasPrefix(c.Value, before) && !strings.HasPrefix(c.Value, after) {
		t.Errorf("got %+v, want only dead-rows, a warning with %q", found, after)
	}
}

// TestFaultsSQLite: doctor finds each fault of a file, and only that.
func TestFaultsSQLite(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		id   string
		make func(t *testing.T, db *sql.DB)
	}{
		{"", func(*testing.T, *sql.DB) {}},
		{"schema", func(t *testing.T, db *sql.DB) {
			opstest.Exec(t, db, `DELETE FROM errand_migrations WHERE version = (SELECT max(version) FROM errand_migrations)`)
		}},
		{"integrity", func(t *testing.T, db *sql.DB) {
			opstest.Exec(t, db, `CREATE TABLE filler (n CHECK (n > 0))`)
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			opstest.Exec(t, conn, `PRAGMA ignore_check_constraints = ON`)
			opstest.Exec(t, conn, `INSERT INTO filler VALUES (0)`)
			opstest.Exec(t, conn, `PRAGMA ignore_check_constraints = OFF`)
		}},
		{"wal", func(t *testing.T, db *sql.DB) {
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			opstest.Exec(t, db, `CREATE TABLE filler (t)`)
			opstest.Exec(t, conn, `BEGIN`) // and reads on
			opstest.Exec(t, conn, `SELECT count(*) FROM errand_jobs`)
			opstest.Exec(t, db, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70)
				INSERT INTO filler SELECT zeroblob(1000000) FROM n`)
		}},
		{"write-lock", func(t *testing.T, db *sql.DB) { opstest.Begin(t, db) }},
	} {
		t.Run(f.id, func(t *testing.T) {
			t.Parallel()
			db, q := opstest.FreshFile(t)
			f.make(t, db)
			got := slices.Collect(maps.Keys(opstest.Examine(t, q, doctor.Options{})))
			if strings.Join(got, " ") != f.id {
				t.Errorf("found %v, want only %q", got, f.id)
			}
		})
	}
}

// short are bounds for tests. The failing one is out of their reach.
var short = doctor.Bounds{Warn: time.Second, Fail: time.Hour}

func majorVersion(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT current_setting('server_version_num')::integer / 10000`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUnreachable: doctor says that there is no server.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", "postgres://nobody:secret@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	report, err := doctor.Examine(t.Context(), opstest.Backend(t, db, postgres.Options{}), doctor.Options{})
	if err != nil || len(report.Checks) != 1 || report.Checks[0].ID != "reach" || report.Level() != ops.Fail {
		t.Fatalf("report %v, error %v", report, err)
	}
	if strings.Contains(report.Checks[0].Value, "secret") {
		t.Errorf("the value has the password: %s", report.Checks[0].Value)
	}
}

// TestFewRights: a role that may do nothing gets a check for each right that is missing, and no
// finding.
func TestFewRights(t *testing.T) {
	extent.Long(t)
	t.Parallel()
	db := postgrestest.Open(t)
	role := "stranger_" + strings.ReplaceAll(opstest.Database(t, db), "errand_test_", "")
	opstest.Exec(t, db, "CREATE ROLE "+role)
	t.Cleanup(func() { _, _ = db.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	db.SetMaxOpenConns(1)
	opstest.Exec(t, db, "SET ROLE "+role)
	defer func() { _, _ = db.Exec("RESET ROLE") }()
	report, err := doctor.Examine(t.Context(), opstest.Backend(t, db, postgres.Options{}), doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, c := range report.Checks {
		t.Logf("%-13s %-7s %s", c.ID, c.Level, c.Value)
		if c.Level == ops.Skipped && c.ID != "pooler" && c.ID != "listen" { // these have only one connection, and no Options.Listen
			skipped++
			namesRight := strings.Contains(c.Value, "permission denied") || strings.Contains(c.Advice, "pg_read_all_stats")
			if !namesRight && c.Value != "the server does not tell before version 15" {
				t.Errorf("%s: names no right: %s → %s", c.ID, c.Value, c.Advice)
			}
		}
	}
	if skipped < 4 {
		t.Errorf("%d checks are skipped, want more", skipped)
	}
}

// TestLengthen: the remedy of a table that is too short makes it long, and leaves no job.
func TestLengthen(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Exec(t, db, `VACUUM FULL errand.jobs`)
	opstest.Enqueue(t, q, queue.Job{Delay: time.Hour})
	_, statements, _ := strings.Cut(opstest.Examine(t, q, doctor.Options{})["table"].Advice, ": ")
	opstest.Exec(t, db, statements)
	if c, ok := opstest.Examine(t, q, doctor.Options{})["table"]; ok {
		t.Errorf("after the remedy: %+v", c)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM errand.jobs`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d jobs, error %v", n, err)
	}
}
