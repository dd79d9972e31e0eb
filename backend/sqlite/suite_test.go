package sqlite_test

import (
	"context"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/sqlite"
)

// ways are how a caller may have opened the file: so that transactions have the write lock from the beginning, or
// not before they need it.
var ways = []struct{ name, without string }{
	{"immediate", ""},
	{"deferred", "&_txlock=immediate"},
}

// TestConformance runs the suite that every backend passes, with both drivers.
func TestConformance(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, driver string) {
				backendtest.Run(t, func(t *testing.T) backendtest.Harness {
					db := open(t, driver, strings.Replace(dsn(t), w.without, "", 1))
					migrate(t, db, sqlite.Options{})
					return backendtest.Harness{
						Queue:     backend(t, db, sqlite.Options{}),
						Begin:     func(ctx context.Context) (backendtest.Tx, error) { return db.BeginTx(ctx, nil) },
						OneWriter: true,
					}
				})
			})
		})
	}
}
