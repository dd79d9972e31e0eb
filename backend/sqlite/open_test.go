package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestOpenPaths: whatever a file's name is, that is the file.
func TestOpenPaths(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		for _, name := range []string{"plain.db", "with space.db", "q?mode=memory.db", "50%25.db", "a#b&c=d+e.db", "ünï.db", ":memory:x"} {
			path := filepath.Join(t.TempDir(), name)
			db, err := sqlite.Open(driver, path)
			if err != nil {
				t.Fatal(err)
			}
			migrate(t, db, sqlite.Options{})
			enqueue(t, backend(t, db, sqlite.Options{}), jobs(1)...)
			for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "30000"} {
				if got := value[string](t, db, "PRAGMA "+pragma); got != want {
					t.Errorf("%s of %s: got %s, want %s", pragma, name, got, want)
				}
			}
			db.Close()
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("the file %q: %v, %v; want it written", name, info, err)
			}
		}
	})
}

// TestNewRefuses: what cannot work is refused, with what to do about it.
func TestNewRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		for _, c := range []struct{ what, dsn, says string }{
			{"memory", ":memory:", "memory"},
			{"memory by DSN", sqlite.DSN(":memory:"), "memory"},
			{"a temporary file", "", "memory"},
			{"no patience", strings.NewReplacer("busy_timeout(30000)", "busy_timeout(0)", "_busy_timeout=30000", "_busy_timeout=0").Replace(dsn(t)), "busy_timeout is 0"},
			{"NORMAL", strings.ReplaceAll(strings.ReplaceAll(dsn(t), "synchronous(FULL)", "synchronous(NORMAL)"), "_synchronous=FULL", "_synchronous=NORMAL"), "Relaxed"},
			{"DELETE", strings.NewReplacer("journal_mode(WAL)", "journal_mode(DELETE)", "_journal_mode=WAL", "_journal_mode=DELETE").Replace(dsn(t)), "journal_mode delete"},
			{"MEMORY", strings.NewReplacer("journal_mode(WAL)", "journal_mode(MEMORY)", "_journal_mode=WAL", "_journal_mode=MEMORY").Replace(dsn(t)), "journal_mode memory"},
			{"EXCLUSIVE", dsn(t) + "&_pragma=locking_mode(EXCLUSIVE)&_locking_mode=EXCLUSIVE", "locking_mode is EXCLUSIVE"},
			{"a shared cache", dsn(t) + "&cache=shared", "cache=shared"},
		} {
			db := open(t, driver, c.dsn)
			var bad *queue.InvalidError
			if _, err := sqlite.New(db, sqlite.Options{}); !errors.As(err, &bad) || bad.Field != "DB" || !strings.Contains(bad.Problem, c.says) {
				t.Errorf("New with %s: %v, want an InvalidError for DB that says %q", c.what, err, c.says)
			}
			if err := sqlite.Migrate(t.Context(), db, sqlite.Options{}); !errors.As(err, &bad) || bad.Field != "DB" {
				t.Errorf("Migrate with %s: %v, want an InvalidError for DB", c.what, err)
			}
			if c.what == "NORMAL" {
				migrate(t, db, sqlite.Options{Relaxed: true})
				enqueue(t, backend(t, db, sqlite.Options{Relaxed: true}), jobs(1)...)
			}
		}
	})
}

// TestNewTurnsToWAL: a file in another journal mode is put in WAL mode, and stays in it.
func TestNewTurnsToWAL(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := strings.NewReplacer("&_pragma=journal_mode(WAL)", "", "&_journal_mode=WAL", "").Replace(dsn(t))
		db := open(t, driver, name)
		execute(t, db, `CREATE TABLE mine (a)`)
		if got := value[string](t, db, `PRAGMA journal_mode`); got != "delete" {
			t.Fatalf("journal mode %s, want delete", got)
		}
		migrate(t, db, sqlite.Options{})
		backend(t, db, sqlite.Options{})
		db.Close()
		if got := value[string](t, open(t, driver, name), `PRAGMA journal_mode`); got != "wal" {
			t.Errorf("journal mode %s, want wal", got)
		}
	})
}

func TestOptionsChecked(t *testing.T) {
	db, q := fresh(t, drivers[0], sqlite.Options{})
	for field, o := range map[string]sqlite.Options{
		"Prefix":      {Prefix: `errand_; DROP TABLE jobs; --`},
		"Prefix ":     {Prefix: strings.Repeat("s", 49)},
		"Prefix  ":    {Prefix: "1st"},
		"Prefix   ":   {Prefix: "SQLite_"},
		"MaxPayload":  {MaxPayload: -1},
		"LockTimeout": {LockTimeout: -time.Second},
	} {
		want := strings.TrimSpace(field)
		var bad *queue.InvalidError
		if _, err := sqlite.New(db, o); !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("New(%+v): %v, want an InvalidError for %s", o, err, want)
		}
		if err := sqlite.Migrate(t.Context(), db, o); !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("Migrate(%+v): %v, want an InvalidError for %s", o, err, want)
		}
	}
	var bad *queue.InvalidError
	if _, err := sqlite.New(nil, sqlite.Options{}); !errors.As(err, &bad) {
		t.Errorf("New(nil): %v, want an InvalidError", err)
	}
	if err := q.Enqueue(t.Context(), (*sql.Tx)(nil), &queue.Job{Kind: "test"}); !errors.As(err, &bad) || bad.Field != "DB" {
		t.Errorf("Enqueue with a nil *sql.Tx: %v, want an InvalidError for DB", err)
	}
}

// TestNotMigrated: what is missing is said.
func TestNotMigrated(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		q := backend(t, open(t, driver, dsn(t)), sqlite.Options{})
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}); err == nil || !strings.Contains(err.Error(), "errand_jobs") {
			t.Errorf("Enqueue before Migrate: %v, want an error that names the table", err)
		}
	})
}

// TestStatementsEnd: nothing follows a statement. glebarez/go-sqlite would run what follows its
// last semicolon, even the end of a line, and fail.
func TestStatementsEnd(t *testing.T) {
	files, err := os.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, isStatement := strings.CutSuffix(f.Name(), ".sql")
		if !isStatement || name == "drop" { // which the caller runs
			continue
		}
		if text := sqlite.Statement(name); text == "" || strings.Contains(text, ";") {
			t.Errorf("%s: %q, want one statement without a semicolon", name, text)
		}
	}
}
