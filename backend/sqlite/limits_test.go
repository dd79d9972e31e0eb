package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/queue"
)

// shorten limits the texts of db's one connection to a million bytes.
func shorten(t *testing.T, db *sql.DB, driver string) {
	t.Helper()
	const limitLength, most = 0, 1_000_000
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if driver == "sqlite" {
		_, err = modernc.Limit(conn, limitLength, most)
	} else {
		err = conn.Raw(func(c any) error { // without cgo mattn's connection has no such method
			c.(interface{ SetLimit(id, to int) int }).SetLimit(limitLength, most)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTooLongForARow: more than the driver accepts is bad input, and nothing is written.
func TestTooLongForARow(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{MaxPayload: 2 << 20})
		shorten(t, db, driver)
		long := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1_100_000)...), '"')
		for _, key := range []string{"", "k"} {
			var bad *queue.InvalidError
			err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test"}, &queue.Job{Kind: "test", Key: key, Payload: long})
			if !errors.As(err, &bad) || bad.Field != "Payload" {
				t.Errorf("key %q: got %v, want an InvalidError for Payload", key, err)
			}
		}
		if n := value[int](t, db, `SELECT count(*) FROM errand_jobs`); n != 0 {
			t.Errorf("%d jobs written, want 0", n)
		}
	})
}

// TestTooLongInTrigger: a trigger of the user's that makes too long a text says nothing about the
// payload: the caller must not drop the job for good.
func TestTooLongInTrigger(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db, q := fresh(t, driver, sqlite.Options{})
		shorten(t, db, driver)
		execute(t, db, `CREATE TABLE mine (text)`)
		execute(t, db, `CREATE TRIGGER mine AFTER INSERT ON errand_jobs BEGIN INSERT INTO mine VALUES (hex(zeroblob(900000))); END`)
		for _, key := range []string{"", "k"} {
			var bad *queue.InvalidError
			err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Key: key})
			if err == nil || errors.As(err, &bad) || errors.Is(err, queue.ErrUnknown) {
				t.Errorf("key %q: got %v, want the trigger's error", key, err)
			}
		}
	})
}

// TestSleepBesideTakenPlace: a worker that is about to sleep when another worker of its process has
// just taken the last place looks again within a second. The end of that job wakes only its own
// worker, which may have stopped.
func TestSleepBesideTakenPlace(t *testing.T) {
	_, q := fresh(t, drivers[0], sqlite.Options{})
	if err := q.SetRules(t.Context(), nil, queue.Rule{Queue: queue.DefaultQueue, Running: 1}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, jobs(2)...)
	if got := claim(t, q, 10); len(got) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(got))
	}
	next, err := q.Sleep(t.Context(), "another", []string{queue.DefaultQueue})
	if err != nil || next < 0 || next > time.Second {
		t.Errorf("Sleep: look again in %v, error %v; want within a second", next, err)
	}
}
