package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

func withEach(b *testing.B, bench func(b *testing.B, driver string)) {
	for _, driver := range drivers {
		b.Run(driver, func(b *testing.B) { bench(b, driver) })
	}
}

// BenchmarkEnqueue writes jobs through the backend's own handle, n a statement. An operation is one
// job.
func BenchmarkEnqueue(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		for _, n := range []int{1, 100, 5000} {
			b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
				_, q := fresh(b, driver, sqlite.Options{})
				list := payloads(n)
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					if err := q.Enqueue(b.Context(), nil, list[:min(n, b.N-i)]...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// BenchmarkEnqueueTx enqueues jobs in transactions of the caller's, n in each, one a call. An
// operation is one job with its share of BEGIN and COMMIT.
func BenchmarkEnqueueTx(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
				db, q := fresh(b, driver, sqlite.Options{})
				list := payloads(1)
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					tx := begin(b, db)
					for range min(n, b.N-i) {
						if err := q.Enqueue(b.Context(), tx, list...); err != nil {
							b.Fatal(err)
						}
					}
					commit(b, tx)
				}
			})
		}
	})
}

// BenchmarkDrain runs no-op jobs that were enqueued beforehand through a worker. An operation is
// one job.
func BenchmarkDrain(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		_, q := fresh(b, driver, sqlite.Options{})
		fill(b, q)
		ctx, stop := context.WithCancel(b.Context())
		var left atomic.Int64
		left.Store(int64(b.N))
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			if left.Add(-1) == 0 {
				stop()
			}
			return nil
		})
		b.ReportAllocs()
		b.ResetTimer()
		if err := (engine.Worker{Backend: q, Handler: handler, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkLoop is what BenchmarkDrain is measured by: the same statements by hand, on the same
// tables, with one connection and no worker. An operation is one job.
func BenchmarkLoop(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		db, q := fresh(b, driver, sqlite.Options{})
		fill(b, q)
		l := loop{
			db: db, fence: prepare(b, db, sqlite.Statement("fence")), due: prepare(b, db, sqlite.Statement("due")),
			take: prepare(b, db, sqlite.Statement("take")), settle: prepare(b, db, sqlite.Without(sqlite.Statement("settle_done"))),
		}
		b.ReportAllocs()
		b.ResetTimer()
		for done := 0; done < b.N; {
			n, err := l.round(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			done += n
		}
	})
}

// loop claims a thousand jobs and settles them, again and again.
type loop struct {
	db                       *sql.DB
	fence, due, take, settle *sql.Stmt
}

func (l loop) round(ctx context.Context) (n int, err error) {
	var fence int64
	var ids []byte
	err = l.transaction(ctx, func(tx *sql.Tx) error {
		if err := tx.StmtContext(ctx, l.fence).QueryRowContext(ctx).Scan(&fence); err != nil {
			return err
		}
		now := time.Now().UnixMicro()
		list, err := readJobs(tx.StmtContext(ctx, l.due).QueryContext(ctx, "default", 0, now, 1000, nil))
		if n = len(list); err != nil || n == 0 {
			return err
		}
		ids, _ = json.Marshal(list) // integers always marshal
		_, err = tx.StmtContext(ctx, l.take).ExecContext(ctx, string(ids), fence, now, now+30_000_000, "loop")
		return err
	})
	if err != nil {
		return n, err
	}
	return n, l.transaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.StmtContext(ctx, l.settle).ExecContext(ctx, string(ids), fence, "loop", time.Now().UnixMicro())
		return err
	})
}

func (l loop) transaction(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// readJobs reads all that there is of the jobs, and returns their ids.
func readJobs(rows *sql.Rows, err error) (ids []int64, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, priority, scheduled, attempts, most, created int64
		var kind string
		var payload []byte
		var key, headers, last sql.NullString
		if err := rows.Scan(&id, &kind, &payload, &priority, &scheduled, &attempts, &most, &created, &key, &headers, &last); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func prepare(b *testing.B, db *sql.DB, text string) *sql.Stmt {
	statement, err := db.PrepareContext(b.Context(), text)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = statement.Close() })
	return statement
}

// BenchmarkLook is what a sleeping worker costs 25 times a second.
func BenchmarkLook(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		_, q := fresh(b, driver, sqlite.Options{})
		enqueue(b, q, payloads(1000)...)
		b.ReportAllocs()
		for b.Loop() {
			if seen, err := q.Seen(b.Context()); err != nil || seen != 1000 {
				b.Fatal(seen, err)
			}
		}
	})
}

// BenchmarkClaimSettle is the pair of calls without the worker around them. An operation is one
// job.
func BenchmarkClaimSettle(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		for _, n := range []int{1, 1000, 10_000} {
			b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
				_, q := fresh(b, driver, sqlite.Options{})
				fill(b, q)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += n {
					held := claim(b, q, n)
					outcomes := make([]queue.Outcome, len(held))
					for i, j := range held {
						outcomes[i].Job = j
					}
					if _, err := q.Settle(b.Context(), nil, outcomes...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// fill enqueues b.N jobs.
func fill(b *testing.B, q *sqlite.Backend) {
	for left := b.N; left > 0; left -= 5000 {
		enqueue(b, q, payloads(min(left, 5000))...)
	}
}

func payloads(n int) []*queue.Job {
	list := jobs(n)
	for i, j := range list {
		j.Payload = fmt.Appendf(nil, `{"order": %d, "to": "alice@example.com"}`, i)
	}
	return list
}
