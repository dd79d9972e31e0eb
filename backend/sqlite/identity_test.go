//go:build unix

package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestFileTakenAway: when the database file is deleted, or another takes its place, each call is an
// error that says so. Connections that are open would go on with a file that nobody sees.
func TestFileTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		take func(t *testing.T, path string)
		want string
	}{
		"deleted": {removeDatabase, "has been deleted"},
		"replaced": {func(t *testing.T, path string) {
			t.Helper()
			removeDatabase(t, path)
			migrate(t, open(t, drivers[0], sqlite.DSN(path)), sqlite.Options{})
		}, "has been replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, driver string) {
				path := filepath.Join(t.TempDir(), "taken.db")
				db := open(t, driver, sqlite.DSN(path))
				migrate(t, db, sqlite.Options{})
				q := backend(t, db, sqlite.Options{})
				operations := writerOperations(t, q)
				operations["Counts"] = func(ctx context.Context) error { _, err := q.Counts(ctx); return err }
				operations["BeginTx"] = func(ctx context.Context) error { _, _, err := q.BeginTx(ctx, nil, nil); return err }
				operations["Enqueue in a transaction"] = func(ctx context.Context) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer tx.Rollback()
					return q.Enqueue(ctx, tx, &queue.Job{Kind: "test"})
				}
				c.take(t, path)
				for name, operation := range operations {
					if err := operation(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: %v, want that the file %s", name, err, c.want)
					}
				}
			})
		})
	}
}

func removeDatabase(t *testing.T, path string) {
	t.Helper()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
