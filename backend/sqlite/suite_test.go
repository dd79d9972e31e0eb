package sqlite_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// ways are how a caller may have opened the file: so that transactions have the write lock from the
// beginning, or not before they need it.
var ways = []struct{ name, without string }{
	{"immediate", ""},
	{"deferred", "&_txlock=immediate"},
}

// forever keeps ended jobs for as long as a duration can say: see the case "pruning leaves what is
// young".
var forever = queue.Retention{Completed: math.MaxInt64, Dead: math.MaxInt64}

// TestConformance runs the suite that every backend passes over modernc.org/sqlite, and in brief
// over go-sqlite3. With ERRAND_TESTS=whole it runs all of it over both, and in brief where
// transactions begin without the write lock.
func TestConformance(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			if w.name == "deferred" {
				if !extent.Whole() {
					t.Skip("ERRAND_TESTS=whole runs it: the suite runs where transactions begin with the write lock")
				}
			}
			onBoth(t, func(t *testing.T, driver string) {
				backendtest.Run(t, func(t *testing.T) backendtest.Harness {
					db := open(t, driver, strings.Replace(dsn(t), w.without, "", 1))
					o := sqlite.Options{Retention: forever}
					migrate(t, db, o)
					b := backend(t, db, o)
					return backendtest.Harness{
						Queue: b,
						Hold: func(ctx context.Context, id int64) error {
							_, err := db.ExecContext(ctx, `UPDATE errand_jobs SET status = 'held' WHERE id = ?1`, id)
							return err
						},
						Begin:     func(ctx context.Context) (backendtest.Tx, error) { return db.BeginTx(ctx, nil) },
						OneWriter: true,
						Brief:     w.name == "deferred" || driver != drivers[0] && !extent.Whole() || testing.Short(),
						Rewind: func(t *testing.T, by time.Duration) {
							execute(t, db, `UPDATE errand_schedules SET next_at = next_at - ?`, by.Microseconds())
							execute(t, db, `UPDATE errand_workers SET seen_at = seen_at - ?`, by.Microseconds())
							execute(t, db, `UPDATE errand_stats SET minute = minute - ?`, by.Microseconds())
							sqlite.ForgetTick(b)
						},
					}
				})
			})
		})
	}
}
