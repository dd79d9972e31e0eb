package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// TestWALUnderConstantReading: where there is always somebody who reads, upkeep empties the
// write-ahead log, which SQLite cannot begin anew then.
func TestWALUnderConstantReading(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		path := filepath.Join(t.TempDir(), "wal.db")
		db := open(t, driver, sqlite.DSN(path))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		size := func() int64 {
			info, err := os.Stat(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() { readConstantly(t, db, stop) })
		}
		const long = 9 << 20
		payload := []byte(`"` + strings.Repeat("a", 1<<19) + `"`)
		for written := 0; size() <= long; written++ {
			if written > 500 {
				t.Fatalf("the log has %d bytes after %d jobs: readers do not keep it from beginning anew", size(), written)
			}
			enqueue(t, q, &queue.Job{Kind: "test", Payload: payload})
		}
		for name, upkeep := range map[string]func() error{
			"Prune":   func() error { _, _, err := q.Prune(t.Context()); return err },
			"Reclaim": func() error { _, err := q.Reclaim(t.Context(), 1); return err },
		} {
			for size() <= long {
				enqueue(t, q, &queue.Job{Kind: "test", Payload: payload})
			}
			// A reader that outlasts walPatience prevents it, as on a busy machine: the next upkeep
			// tries again.
			for tries := 0; size() > long/2; tries++ {
				if tries == 20 {
					t.Errorf("after %d times %s the log has %d bytes, want it emptied", tries, name, size())
					break
				}
				if err := upkeep(); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(stop)
		readers.Wait()
	})
}

// readConstantly has one transaction after another that reads, of 20 ms each.
func readConstantly(t *testing.T, db *sql.DB, stop <-chan struct{}) {
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	for {
		execute(t, conn, `BEGIN`)
		value[int](t, conn, `SELECT count(*) FROM errand_fences`)
		select {
		case <-stop:
			execute(t, conn, `COMMIT`)
			return
		case <-time.After(20 * time.Millisecond):
			execute(t, conn, `COMMIT`)
		}
	}
}
