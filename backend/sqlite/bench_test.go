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
	"github.com/errandhq/errand/queue"
)

func withEach(b *testing.B, bench func(b *testing.B, driver string)) {
	for _, driver := range drivers {
		b.Run(driver, func(b *testing.B) { bench(b, driver) })
	}
}

// BenchmarkEnqueue writes jobs through the backend's own handle, n a statement.
// An operation is one job.
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

// BenchmarkEnqueueTx enqueues one job in a transaction of the caller's, with its BEGIN and COMMIT.
func BenchmarkEnqueueTx(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		db, q := fresh(b, driver, sqlite.Options{})
		list := payloads(1)
		b.ReportAllocs()
		for b.Loop() {
			tx, err := db.BeginTx(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := q.Enqueue(b.Context(), tx, list...); err != nil {
				b.Fatal(err)
			}
			commit(b, tx)
		}
	})
}

// BenchmarkDrain runs no-op jobs that were enqueued beforehand through a worker. An operation
// is one job.
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
		if err := (queue.Worker{Backend: q, Handler: handler, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkLoop is what BenchmarkDrain is measured by: the same work by hand, on the same tables, with one
// connection, prepared statements, no fences and no worker. An operation is one job.
func BenchmarkLoop(b *testing.B) {
	withEach(b, func(b *testing.B, driver string) {
		db, q := fresh(b, driver, sqlite.Options{})
		fill(b, q)
		db.SetMaxOpenConns(1)
		claim := prepare(b, db, `UPDATE errand_jobs SET status = 'running', attempts = attempts + 1, locked_by = 'loop', locked_at = ?1, locked_until = ?2, updated_at = ?1
			WHERE id IN (SELECT id FROM errand_jobs WHERE queue = 'default' AND status = 'pending' AND scheduled_at <= ?1
				ORDER BY priority, scheduled_at, id LIMIT 1000)
			RETURNING id, kind, payload`)
		settle := prepare(b, db, `UPDATE errand_jobs SET status = 'completed', locked_at = NULL, locked_until = NULL, updated_at = ?2
			WHERE id IN (SELECT value FROM json_each(?1))`)
		b.ReportAllocs()
		b.ResetTimer()
		for done := 0; done < b.N; {
			ids := loopClaim(b, claim)
			text, _ := json.Marshal(ids)
			if _, err := settle.ExecContext(b.Context(), string(text), time.Now().UnixMicro()); err != nil {
				b.Fatal(err)
			}
			done += len(ids)
		}
	})
}

func loopClaim(b *testing.B, claim *sql.Stmt) (ids []int64) {
	now := time.Now().UnixMicro()
	rows, err := claim.QueryContext(b.Context(), now, now+30_000_000)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var kind string
		var payload []byte
		if err := rows.Scan(&id, &kind, &payload); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return ids
}

func prepare(b *testing.B, db *sql.DB, text string) *sql.Stmt {
	statement, err := db.PrepareContext(b.Context(), text)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = statement.Close() })
	return statement
}

// BenchmarkClaimSettle is the pair of calls without the worker around them. An operation
// is one job.
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
