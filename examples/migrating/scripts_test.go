package migrating

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/backend/postgrestest"
)

// oneJob is a database for each script, with one job that it moves.
var oneJob = []struct {
	script string
	open   func(t *testing.T) (dsn string)
}{
	{"river.sql", func(t *testing.T) string {
		h := withRiver(t)
		h.insert(t, "plain", 1, nil)
		return h.pool.Config().ConnString()
	}},
	{"gue.sql", func(t *testing.T) string {
		dsn := postgrestest.DSN(t)
		db := open(t, "pgx", dsn)
		exec(t, db, gueTable)
		gueJob{kind: "plain", args: []byte(`{"n":1}`)}.insert(t, db)
		return dsn
	}},
}

// TestScriptsNeedNoTool: both drivers run a script as it is, in a transaction of the
// caller's too, and rolling that back undoes everything.
func TestScriptsNeedNoTool(t *testing.T) {
	for _, c := range oneJob {
		for _, driver := range []string{"pgx", "postgres"} {
			t.Run(c.script+" "+driver, func(t *testing.T) {
				db := open(t, driver, c.open(t))
				text := script(t, c.script)
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if n := count(t, db, `SELECT count(*) FROM errand.jobs`); n != 0 {
					t.Errorf("errand has %d jobs after a rollback, want 0", n)
				}
				exec(t, db, text)
				exec(t, db, text) // finds nothing
				if n := count(t, db, `SELECT count(*) FROM errand.jobs`); n != 1 {
					t.Errorf("errand has %d jobs, want 1", n)
				}
			})
		}
	}
}

// TestScriptsWake: a worker of errand's that sleeps is notified of what came into its queue.
func TestScriptsWake(t *testing.T) {
	for _, c := range oneJob {
		t.Run(c.script, func(t *testing.T) {
			dsn := c.open(t)
			db := open(t, "pgx", dsn)
			exec(t, db, `INSERT INTO errand.sleepers (queue, worker, registration) VALUES ('default', 'w', 1), ('other', 'w', 1)`)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(ctx))
			if _, err := conn.Exec(ctx, `LISTEN errand`); err != nil {
				t.Fatal(err)
			}
			move(t, db, script(t, c.script)).check(t, report{"moved": 1})
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload != "default" {
				t.Errorf("queue %q was notified, want default", n.Payload)
			}
		})
	}
}
