package sqlite_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestMigrateTogether lets 16 processes' worth of migrators begin at once, in a file that is not
// there yet and with a prefix that is spelled with care.
func TestMigrateTogether(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		o := sqlite.Options{Prefix: "Select_1"}
		var group sync.WaitGroup
		for range 16 {
			db := open(t, driver, name)
			group.Go(func() {
				if err := sqlite.Migrate(t.Context(), db, o); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		steps, err := sqlite.Migrations(o)
		if err != nil {
			t.Fatal(err)
		}
		db := open(t, driver, name)
		if got := value[int](t, db, `SELECT count(*) FROM Select_1migrations`); got != len(steps) {
			t.Errorf("%d migrations recorded, want %d, each once", got, len(steps))
		}
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, o)
		enqueue(t, q, &queue.Job{Kind: "test"})
		if got := claim(t, q, 1); len(got) != 1 {
			t.Errorf("claimed %d jobs from the tables, want 1", len(got))
		}
		if got := value[int](t, db, `SELECT count(*) FROM errand_jobs`); got != 0 {
			t.Errorf("%d jobs in the other tables, want 0", got)
		}
	})
}

// TestMigrationsByTool: a tool may run all steps or the first of them. Then Check knows the
// version, and Migrate goes on from there.
func TestMigrationsByTool(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		for last := range 100 {
			o := sqlite.Options{Prefix: fmt.Sprintf("after_%d_", last)}
			steps, err := sqlite.Migrations(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps[:last] {
				tx := begin(t, db)
				execute(t, tx, s.SQL)
				commit(t, tx)
			}
			err = sqlite.Check(t.Context(), db, o)
			switch {
			case last == 0:
				wantSetupError(t, "Check after no step", err, "run sqlite.Migrate")
			case last < len(steps):
				wantSetupError(t, "Check", err, fmt.Sprintf("have version %d", last))
			case err != nil:
				t.Errorf("Check after all steps: %v", err)
			}
			migrate(t, db, o)
			if err := sqlite.Check(t.Context(), db, o); err != nil {
				t.Errorf("Check after Migrate: %v", err)
			}
			if got := value[int](t, db, `SELECT count(*) FROM `+o.Prefix+`migrations`); got != len(steps) {
				t.Errorf("%d migrations recorded, want %d, each once", got, len(steps))
			}
			if last == len(steps) {
				break
			}
		}
	})
}

// TestMigrationsPrinted: a program finds what a tool has made by the printed steps.
func TestMigrationsPrinted(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		o := sqlite.Options{Prefix: "printed_"}
		steps, err := sqlite.Migrations(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			tx := begin(t, db)
			execute(t, tx, s.SQL)
			commit(t, tx)
		}
		q := backend(t, db, o)
		enqueue(t, q, &queue.Job{Kind: "test"})
		// What others write without errand has what it needs.
		execute(t, db, `INSERT INTO printed_jobs (kind, payload) VALUES ('test', '{"by": "hand"}')`)
		if got := claim(t, q, 2); len(got) != 2 || string(got[0].Payload) != `{"by": "hand"}` {
			t.Errorf("claimed %+v, want the job by hand, which became due at the beginning of its second, and the other", got)
		}
	})
}

// TestMigrationsLeftOut: a step fails if the one before it has not run.
func TestMigrationsLeftOut(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		steps, err := sqlite.Migrations(sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range steps {
			for _, later := range steps[i+1:] {
				tx := begin(t, db)
				if _, err := tx.ExecContext(t.Context(), later.SQL); err == nil {
					t.Fatalf("step %d ran without step %d", later.Version, s.Version)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
			tx := begin(t, db)
			execute(t, tx, s.SQL)
			commit(t, tx)
		}
	})
}

// TestPrefixCase: a prefix is the same in upper and lower case, also where version 1 has created
// the tables as it was spelled.
func TestPrefixCase(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		for name, create := range map[string]func(t *testing.T, db *sql.DB){
			"now": func(t *testing.T, db *sql.DB) {
				t.Helper()
				migrate(t, db, sqlite.Options{Prefix: "Mail_"})
			},
			"by version 1": func(t *testing.T, db *sql.DB) {
				t.Helper()
				steps, err := sqlite.Migrations(sqlite.Options{Prefix: "mail_"})
				if err != nil {
					t.Fatal(err)
				}
				for _, step := range steps {
					execute(t, db, strings.ReplaceAll(step.SQL, "mail_", "Mail_"))
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				db := open(t, driver, dsn(t))
				create(t, db)
				for _, prefix := range []string{"mail_", "MAIL_", "Mail_"} {
					q := backend(t, db, sqlite.Options{Prefix: prefix})
					job := &queue.Job{Kind: "test", Key: prefix}
					enqueue(t, q, job)
					if next, err := q.Sleep(t.Context(), "w", []string{queue.DefaultQueue}); err != nil || next >= 0 {
						t.Errorf("%s: Sleep: %v, %v, want that no job is scheduled", prefix, next, err)
					}
					if seen, err := q.Seen(t.Context()); err != nil || seen != job.ID {
						t.Errorf("%s: the last id is %d, %v, want %d", prefix, seen, err, job.ID)
					}
					if got := claim(t, q, 2); len(got) != 1 || got[0].ID != job.ID {
						t.Errorf("%s: claimed %v, want the job", prefix, got)
					}
				}
			})
		}
	})
}
