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
		var running sync.WaitGroup
		readers := make([]reader, 3)
		for i := range readers {
			running.Go(func() { readers[i].readConstantly(t, db, stop) })
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
			for longestRead(readers); ; {
				if err := upkeep(); err != nil {
					t.Fatal(err)
				}
				got := size()
				if got <= long/2 {
					break
				}
				// On a starved machine a reader may outlast what upkeep waits for. Then the next
				// one tries again.
				if read := longestRead(readers); read < 50*time.Millisecond {
					t.Errorf("after %s the log has %d bytes, want it emptied, since no reader took longer than %v", name, got, read)
					break
				}
			}
		}
		close(stop)
		running.Wait()
	})
}

// reader reads in transactions of 20 ms each.
type reader struct {
	reading sync.Mutex    // held by each transaction
	longest time.Duration // of the transactions since longestRead
}

// readConstantly has one transaction after another that reads.
func (r *reader) readConstantly(t *testing.T, db *sql.DB, stop <-chan struct{}) {
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	for isOver := false; !isOver; {
		r.reading.Lock()
		begun := time.Now()
		execute(t, conn, `BEGIN`)
		value[int](t, conn, `SELECT count(*) FROM errand_fences`)
		select {
		case <-stop:
			isOver = true
		case <-time.After(20 * time.Millisecond):
		}
		execute(t, conn, `COMMIT`)
		r.longest = max(r.longest, time.Since(begun))
		r.reading.Unlock()
	}
}

// longestRead returns the length of the longest transaction since it was called last. It waits for
// those that are under way.
func longestRead(readers []reader) (longest time.Duration) {
	for i := range readers {
		r := &readers[i]
		r.reading.Lock()
		longest, r.longest = max(longest, r.longest), 0
		r.reading.Unlock()
	}
	return longest
}
