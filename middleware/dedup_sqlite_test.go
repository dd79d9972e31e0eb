package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// The same on SQLite: set the field SQLite, and run Schema with your migrations.
func ExampleSQLDedup_sqlite() {
	type Reminder struct{ Customer int }
	var remind = queue.NewKind[Reminder]("reminder.send")

	ctx, done := context.WithCancel(context.Background())
	db, q, remove := openShopFile()
	defer remove()
	seen := middleware.SQLDedup{SQLite: true}
	if _, err := db.ExecContext(ctx, seen.Schema()); err != nil {
		log.Fatal(err)
	}
	mux := queue.NewMux()
	remind.Handle(mux, func(ctx context.Context, job *queue.Job, r Reminder) error {
		fmt.Println("reminding customer", r.Customer)
		return nil
	})
	queue.NewKind[int]("last").Handle(mux, func(context.Context, *queue.Job, int) error {
		done()
		return nil
	})
	jobs := []*queue.Job{remind.New(Reminder{Customer: 7}), remind.New(Reminder{Customer: 7}), queue.NewKind[int]("last").New(0)}
	if err := q.Enqueue(ctx, nil, jobs...); err != nil {
		log.Fatal(err)
	}
	chain := queue.Chain(mux, middleware.Tx(db, q, middleware.TxOptions{}),
		middleware.Dedup(seen, 24*time.Hour, func(job *queue.Job) string { return job.Kind + string(job.Payload) }))
	if err := (engine.Worker{Backend: q, Handler: chain, Concurrency: 1}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reminding customer 7
}

// openShopFile opens a queue in a new file. remove closes and removes it.
func openShopFile() (db *sql.DB, q *sqlite.Backend, remove func()) {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	if db, err = sqlite.Open("sqlite", filepath.Join(dir, "shop.db")); err != nil {
		log.Fatal(err)
	}
	if err := sqlite.Migrate(context.Background(), db, sqlite.Options{}); err != nil {
		log.Fatal(err)
	}
	if q, err = sqlite.New(db, sqlite.Options{}); err != nil {
		log.Fatal(err)
	}
	return db, q, func() {
		db.Close()
		_ = os.RemoveAll(dir)
	}
}

// seenSQLite is the store of these tests.
var seenSQLite = middleware.SQLDedup{SQLite: true, Table: "seen"}

// dedupFile is a SQLite database with a queue, a table of effects and a table of keys.
type dedupFile struct {
	t  *testing.T
	db *sql.DB
	q  *sqlite.Backend
}

// onDedupFiles runs test with either driver.
func onDedupFiles(t *testing.T, test func(t *testing.T, f dedupFile, driver string)) {
	for _, driver := range []string{"sqlite", "sqlite3"} {
		t.Run(driver, func(t *testing.T) {
			db, q := openSQLite(t, driver)
			for range 2 { // as often as one likes
				mustExec(t, db, seenSQLite.Schema())
			}
			test(t, dedupFile{t, db, q}, driver)
		})
	}
}

// payByKey handles payments, each key once in a window.
func payByKey(db *sql.DB, q queue.Consumer, window time.Duration, fn func(ctx context.Context, tx *sql.Tx, job *queue.Job) error) queue.Handler {
	return queue.Chain(handler(fn), middleware.Tx(db, q, middleware.TxOptions{}),
		middleware.Dedup(seenSQLite, window, func(job *queue.Job) string { return job.Headers["key"] }))
}

// enqueue writes n payments of each key to that queue.
func (f dedupFile) enqueue(name string, n int, keys ...string) {
	f.t.Helper()
	var jobs []*queue.Job
	for i := range n {
		for _, key := range keys {
			job := pay.New(payment{Order: i})
			job.Queue, job.Headers = name, map[string]string{"key": key}
			jobs = append(jobs, job)
		}
	}
	if err := f.q.Enqueue(f.t.Context(), nil, jobs...); err != nil {
		f.t.Fatal(err)
	}
}

// run enqueues a payment of that key, runs it once, and returns the error of its chain.
func (f dedupFile) run(h queue.Handler, key string) error {
	f.t.Helper()
	f.enqueue("", 1, key)
	jobs, err := f.q.Claim(f.t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Minute, Worker: "tester"})
	if err != nil || len(jobs) != 1 {
		f.t.Fatalf("claimed %d jobs (%v), want 1", len(jobs), err)
	}
	return h.HandleJob(f.t.Context(), jobs[0])
}

func (f dedupFile) want(what, query string, want int) {
	f.t.Helper()
	var got int
	if err := f.db.QueryRowContext(f.t.Context(), query).Scan(&got); err != nil || got != want {
		f.t.Errorf("%s: got %d (%v), want %d", what, got, err, want)
	}
}

const (
	allEffects = `SELECT count(*) FROM payments`
	allKeys    = `SELECT count(*) FROM seen`
)

// TestSQLDedupSQLite: the key is kept with the effect, goes with it, and ends with its window.
func TestSQLDedupSQLite(t *testing.T) {
	onDedupFiles(t, func(t *testing.T, f dedupFile, _ string) {
		declined := errors.New("declined")
		failing := payByKey(f.db, f.q, time.Hour, func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
			return errors.Join(handle(ctx, tx, job), declined)
		})
		h := payByKey(f.db, f.q, time.Hour, handle)
		if err := f.run(failing, "a"); !errors.Is(err, declined) {
			t.Errorf("the failing handler: got %v, want %v", err, declined)
		}
		f.want("effects after a failure", allEffects, 0)
		f.want("keys after a failure", allKeys, 0)
		for _, key := range []string{"a", "b", "a", "a"} {
			if err := f.run(h, key); !errors.Is(err, queue.ErrSettled) {
				t.Errorf("key %s: got %v, want ErrSettled", key, err)
			}
		}
		f.want("effects of two keys", allEffects, 2)
		mustExec(t, f.db, fmt.Sprintf(`UPDATE seen SET until = %d WHERE key = 'a'`, time.Now().UnixMicro()))
		for _, key := range []string{"a", "b", "a"} {
			if err := f.run(h, key); !errors.Is(err, queue.ErrSettled) {
				t.Errorf("key %s after the window of a: got %v, want ErrSettled", key, err)
			}
		}
		f.want("effects after the window of a", allEffects, 3)
		f.want("jobs that are completed", `SELECT count(*) FROM errand_jobs WHERE status = 'completed'`, 7)
	})
}

// TestSQLDedupSQLiteWindow: the window that Dedup is given ends by the clock.
func TestSQLDedupSQLiteWindow(t *testing.T) {
	onDedupFiles(t, func(t *testing.T, f dedupFile, _ string) {
		const window = 30 * time.Millisecond
		h := payByKey(f.db, f.q, window, handle)
		for range 2 {
			if err := f.run(h, "a"); !errors.Is(err, queue.ErrSettled) {
				t.Fatal(err)
			}
			time.Sleep(window)
		}
		f.want("effects of two windows", allEffects, 2)
	})
}

// TestSQLDedupSQLiteGrowth: keys that are over do not pile up, and those that last stay.
func TestSQLDedupSQLiteGrowth(t *testing.T) {
	extent.Long(t)
	onDedupFiles(t, func(t *testing.T, f dedupFile, _ string) {
		mustExec(t, f.db, `INSERT INTO seen SELECT 'old ' || value, value FROM json_each('[1,2,3,4,5,6,7,8,9]')`)
		lasting, passing := payByKey(f.db, f.q, time.Hour, handle), payByKey(f.db, f.q, time.Microsecond, handle)
		for i := range 5 {
			if err := f.run(lasting, fmt.Sprint("lasting ", i)); !errors.Is(err, queue.ErrSettled) {
				t.Fatal(err)
			}
		}
		f.want("keys that last, after nine old ones", allKeys, 5)
		for i := range 50 {
			if err := f.run(passing, fmt.Sprint("passing ", i)); !errors.Is(err, queue.ErrSettled) {
				t.Fatal(err)
			}
		}
		var keys int
		if err := f.db.QueryRowContext(t.Context(), allKeys).Scan(&keys); err != nil || keys > 5+1 {
			t.Errorf("keys: got %d (%v), want at most the 5 that last and the one that has just ended", keys, err)
		}
		f.want("effects", allEffects, 55)
	})
}

// TestSQLDedupSQLiteTogether: the slots of a worker run jobs of few keys.
func TestSQLDedupSQLiteTogether(t *testing.T) {
	onDedupFiles(t, func(t *testing.T, f dedupFile, _ string) {
		f.enqueue("", 8, "a", "b", "c", "d", "e")
		if err := workFile(t.Context(), f.db, f.q, queue.DefaultQueue); err != nil {
			t.Fatal(err)
		}
		f.want("effects of five keys", allEffects, 5)
		f.want("jobs that are completed", `SELECT count(*) FROM errand_jobs WHERE status = 'completed'`, 40)
	})
}

// workFile runs a worker until no job of its queue is left.
func workFile(ctx context.Context, db *sql.DB, q *sqlite.Backend, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for left := 1; left > 0; time.Sleep(10 * time.Millisecond) {
			err := db.QueryRowContext(ctx, `SELECT count(*) FROM errand_jobs WHERE status IN ('pending', 'running') AND queue = $1`, name).Scan(&left)
			if err != nil {
				return
			}
		}
	}()
	h := payByKey(db, q, time.Hour, handle)
	return engine.Worker{Backend: q, Queues: []string{name}, Handler: h, Concurrency: 4, Logger: quiet}.Run(ctx)
}

// dedupChild tells this binary that it is a process of TestSQLDedupSQLiteProcesses: its queue, the
// driver and the path.
const dedupChild = "ERRAND_DEDUP_CHILD"

// TestSQLDedupSQLiteProcesses: of the jobs of a key, one has the effect, although each process has
// jobs of it in a queue of its own.
func TestSQLDedupSQLiteProcesses(t *testing.T) {
	extent.Long(t)
	if child := os.Getenv(dedupChild); child != "" {
		args := strings.SplitN(child, " ", 3)
		db, err := sqlite.Open(args[1], args[2])
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		q, err := sqlite.New(db, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := workFile(t.Context(), db, q, args[0]); err != nil {
			t.Fatal(err)
		}
		return
	}
	onDedupFiles(t, func(t *testing.T, f dedupFile, driver string) {
		names := []string{"p", "q", "r"}
		for _, name := range names {
			f.enqueue(name, 10, "a", "b", "c", "d")
		}
		var path string
		if err := f.db.QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
			t.Fatal(err)
		}
		var processes sync.WaitGroup
		for _, name := range names {
			processes.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSQLDedupSQLiteProcesses$")
				cmd.Env = append(os.Environ(), dedupChild+"="+name+" "+driver+" "+path)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("a process: %v\n%s", err, out)
				}
			})
		}
		processes.Wait()
		f.want("effects of four keys", allEffects, 4)
		f.want("jobs that are completed", `SELECT count(*) FROM errand_jobs WHERE status = 'completed'`, 120)
		f.want("workers that have completed jobs", `SELECT count(DISTINCT locked_by) FROM errand_jobs`, 3)
	})
}

// TestSQLDedupSQLiteMisuse: what cannot work is said.
func TestSQLDedupSQLiteMisuse(t *testing.T) {
	wantPanic(t, "without a dot", func() { middleware.SQLDedup{SQLite: true, Table: "aux.seen"}.Schema() })
	onDedupFiles(t, func(t *testing.T, f dedupFile, _ string) {
		for name, store := range map[string]middleware.SQLDedup{
			"SQLDedup.SQLite": {}, "without a dot": {SQLite: true, Table: "a.b"}, "no such table: none": {SQLite: true, Table: "none"},
		} {
			h := queue.Chain(handler(handle), middleware.Tx(f.db, f.q, middleware.TxOptions{}),
				middleware.Dedup(store, time.Hour, func(*queue.Job) string { return "a" }))
			if err := f.run(h, "a"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want an error with %q", err, name)
			}
		}
		f.want("effects", allEffects, 0)
	})
	tx, err := queuetest.NoDatabase().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = seenSQLite.Once(middleware.WithTx(t.Context(), tx), "a", time.Hour, nil)
	if err == nil || !strings.Contains(err.Error(), "runs no statements") {
		t.Errorf("without a database: got %v", err)
	}
}
