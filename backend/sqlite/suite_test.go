package sqlite_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue/queuetest"
)

// ways are how a caller may have opened the file.
var ways = []struct {
	name string
	open func(t *testing.T, driver string) *sql.DB
}{
	{"dsn", func(t *testing.T, driver string) *sql.DB { return open(t, driver, dsn(t)) }},
	{"deferred", func(t *testing.T, driver string) *sql.DB {
		return open(t, driver, strings.Replace(dsn(t), "&_txlock=immediate", "", 1))
	}},
	{"one connection", func(t *testing.T, driver string) *sql.DB {
		db := open(t, driver, dsn(t))
		db.SetMaxOpenConns(1)
		return db
	}},
}

// TestConformance runs the suite that every backend passes with both drivers, with transactions that have the
// write lock from the beginning and with those that do not.
func TestConformance(t *testing.T) {
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, driver string) {
				queuetest.Run(t, func(t *testing.T) queuetest.Harness {
					db := w.open(t, driver)
					migrate(t, db, sqlite.Options{})
					return queuetest.Harness{
						Queue:     backend(t, db, sqlite.Options{}),
						Begin:     func(ctx context.Context) (queuetest.Tx, error) { return db.BeginTx(ctx, nil) },
						OneWriter: true,
					}
				})
			})
		})
	}
}
