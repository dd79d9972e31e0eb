package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/errandhq/errand/backend/backendtest"
	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestConformanceOfSeveral runs the suite over three handles of one file, as three processes have
// them: each call goes through the next, and transactions are opened with a fourth. Without
// ERRAND_TESTS=whole it runs it in brief, over modernc.org/sqlite.
func TestConformanceOfSeveral(t *testing.T) {
	extent.Long(t)
	onEach(t, func(t *testing.T, driver string) {
		if driver != drivers[0] && !extent.Whole() {
			t.Skip("ERRAND_TESTS=whole runs it: the suite runs over three handles of the first driver")
		}
		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
			name := dsn(t)
			var s several
			for range 3 {
				db := open(t, driver, name)
				migrate(t, db, sqlite.Options{})
				s.all = append(s.all, backend(t, db, sqlite.Options{}))
			}
			fourth := open(t, driver, name)
			return backendtest.Harness{
				Queue:     &s,
				Begin:     func(ctx context.Context) (backendtest.Tx, error) { return fourth.BeginTx(ctx, nil) },
				OneWriter: true,
				Brief:     !extent.Whole(),
			}
		})
	})
}

// several are backends of one file, of which each call takes the next. One alone prunes, because it
// remembers how far it has come.
type several struct {
	all  []*sqlite.Backend
	next atomic.Int64
}

// The suite leaves out what a wrapper lacks a method of, so it has to be seen here.
var _ interface {
	driver.Inspector
	driver.Editor
	driver.Waiter
	driver.Reclaimer
	driver.TxClaimer
} = (*several)(nil)

func (s *several) one() *sqlite.Backend { return s.all[int(s.next.Add(1))%len(s.all)] }

func (s *several) Enqueue(ctx context.Context, db queue.DB, jobs ...*queue.Job) error {
	return s.one().Enqueue(ctx, db, jobs...)
}

func (s *several) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	return s.one().Claim(ctx, req)
}

func (s *several) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	return s.one().Extend(ctx, lease, jobs...)
}

func (s *several) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	return s.one().Settle(ctx, db, outcomes...)
}

func (s *several) Listen(ctx context.Context, worker string, queues []string, tell func(driver.Signal)) error {
	return s.one().Listen(ctx, worker, queues, tell)
}

func (s *several) Sleep(ctx context.Context, worker string, queues []string) (time.Duration, error) {
	return s.one().Sleep(ctx, worker, queues)
}

func (s *several) Counts(ctx context.Context) ([]queue.StatusCount, error) {
	return s.one().Counts(ctx)
}

func (s *several) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	return s.one().Jobs(ctx, f)
}

func (s *several) Job(ctx context.Context, id int64) (queue.Record, bool, error) {
	return s.one().Job(ctx, id)
}

func (s *several) Backlogs(ctx context.Context) ([]driver.Backlog, error) {
	return s.one().Backlogs(ctx)
}

func (s *several) Tally(ctx context.Context, which queue.Selection) ([]queue.StatusCount, error) {
	return s.one().Tally(ctx, which)
}

func (s *several) Edit(ctx context.Context, db queue.DB, which queue.Selection, c queue.JobChange) (int, error) {
	return s.one().Edit(ctx, db, which, c)
}

func (s *several) Delete(ctx context.Context, db queue.DB, which queue.Selection) (int, error) {
	return s.one().Delete(ctx, db, which)
}

func (s *several) CheckListen(worker string) error {
	for _, b := range s.all {
		if err := b.CheckListen(worker); err != nil {
			return err
		}
	}
	return nil
}

func (s *several) Redrive(ctx context.Context, db queue.DB, which queue.Selection) (int, error) {
	return s.one().Redrive(ctx, db, which)
}

func (s *several) Prune(ctx context.Context) (int, bool, error) { return s.all[0].Prune(ctx) }

func (s *several) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	return s.one().Reclaim(ctx, limit)
}

func (s *several) ClaimTx(ctx context.Context, tx queue.DB, req queue.ClaimRequest) (*queue.Job, error) {
	return s.one().ClaimTx(ctx, tx, req)
}

// opaque is a handle of an application's own, which only runs statements; queries is how many more
// of them succeed.
type opaque struct {
	db      queue.DB
	queries *int
}

func (o opaque) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return o.db.ExecContext(ctx, query, args...)
}

func (o opaque) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if *o.queries--; *o.queries < 0 {
		return nil, errors.New("the connection is gone")
	}
	return o.db.QueryContext(ctx, query, args...)
}

// notTx are handles that are no transaction.
func notTx(t *testing.T, driver, name string) map[string]queue.DB {
	t.Helper()
	db := open(t, driver, name)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	queries := 1000
	return map[string]queue.DB{"*sql.DB": db, "*sqlx.DB": sqlx.NewDb(db, driver), "*sql.Conn": conn, "opaque": opaque{db, &queries}}
}

// TestForeignHandles: a handle that is neither the backend's own nor a transaction commits at once.
func TestForeignHandles(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		db := open(t, driver, name)
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		for what, other := range notTx(t, driver, name) {
			first, second := &queue.Job{Kind: "test", Key: "a"}, &queue.Job{Kind: "test", Key: "a"}
			if err := q.Enqueue(t.Context(), other, first); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := q.Enqueue(t.Context(), other, second, &queue.Job{Kind: "test"}); err != nil || !second.Duplicate || second.ID != first.ID {
				t.Errorf("%s: Enqueue of a key that is taken: %+v, %v; want it duplicate, with ID %d", what, second, err, first.ID)
			}
			held := claim(t, q, 3)
			if len(held) != 2 {
				t.Fatalf("%s: claimed %d jobs, want 2", what, len(held))
			}
			if lost, err := q.Settle(t.Context(), other, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Dead}); err != nil || len(lost) != 0 {
				t.Errorf("%s: Settle: lost %v, %v; want neither", what, lost, err)
			}
		}
	})
}

// TestUnknown: where an Enqueue of several statements fails between them, its error says that some
// jobs may be written, but not in a transaction.
func TestUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		db := open(t, driver, name)
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		enqueue(t, q, &queue.Job{Kind: "test", Key: "taken"})
		for n, want := range map[int]error{0: nil, 1: queue.ErrUnknown} {
			err := q.Enqueue(t.Context(), opaque{db, &n}, &queue.Job{Kind: "test", Key: "free"}, &queue.Job{Kind: "test", Key: "taken"})
			if err == nil || errors.Is(err, queue.ErrUnknown) != (want != nil) {
				t.Errorf("failed after %d statements: got %v, want %v", n, err, want)
			}
		}
	})
}

// TestClaimTxNeedsATransaction: on any other handle the job would be completed before it is
// handled.
func TestClaimTxNeedsATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		name := dsn(t)
		db := open(t, driver, name)
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		enqueue(t, q, jobs(1)...)
		handles := notTx(t, driver, name)
		handles["nil"], handles["its own"], handles["nil *sql.Tx"], handles["nil *sqlx.Tx"] = nil, db, (*sql.Tx)(nil), (*sqlx.Tx)(nil)
		for what, h := range handles {
			var bad *queue.InvalidError
			if _, err := q.ClaimTx(t.Context(), h, request(1)); !errors.As(err, &bad) || bad.Field != "DB" {
				t.Errorf("ClaimTx with %s: %v, want an InvalidError for DB", what, err)
			}
		}
		if got := claim(t, q, 1); len(got) != 1 {
			t.Errorf("%d jobs left, want 1", len(got))
		}
	})
}

// TestManyPriorities: a queue in which nearly each job has a priority of its own is claimed in
// order and whole, and what is not yet due is left alone.
func TestManyPriorities(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		_, q := fresh(t, driver, sqlite.Options{})
		var list []*queue.Job
		for i := range 500 {
			list = append(list, &queue.Job{Kind: "test", Priority: int32(i * 7 % 500), Payload: []byte(`1`)})
			list = append(list, &queue.Job{Kind: "test", Priority: int32(i), Delay: time.Hour})
		}
		enqueue(t, q, list...)
		var got []*queue.Job
		for _, n := range []int{1, 150, 200, 1000} {
			got = append(got, claim(t, q, n)...)
		}
		for i, j := range got {
			if int(j.Priority) != i || string(j.Payload) != "1" {
				t.Fatalf("claimed in place %d: %+v, want the job of priority %d that is due", i, j, i)
			}
		}
		if len(got) != 500 {
			t.Errorf("claimed %d jobs, want 500", len(got))
		}
	})
}

// TestLongBatch: a batch that is too long for one statement is written in several, and as one.
func TestLongBatch(t *testing.T) {
	list := jobs(7)
	for i, j := range list {
		j.Kind, j.Payload = "k", make([]byte, []int{2, 2, 8, 0, 0, 0, 0}[i])
	}
	list[5].Headers = map[string]string{"a": ""}
	list[6].Headers = map[string]string{"a": ""}
	var got []int
	for _, part := range sqlite.Parts(list, 8) {
		got = append(got, len(part))
	}
	if want := []int{2, 1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("jobs of 3, 3, 9, 1, 1, 7 and 7 bytes, at most 8 in a statement: parts of %v jobs, want %v", got, want)
	}
}
