// Package dbtest helps the tests of backends: it lends their cases databases, and lists rows that
// errand would not have written.
package dbtest

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"
)

// Pool lends the cases of a suite databases that earlier cases have returned: to create one takes
// the Postgres server longer than most cases do. D is how the suite's cases reach one. It has no
// backend that they use: a backend keeps what it has learnt in an earlier case. A Pool is safe for
// concurrent use.
type Pool[D any] struct {
	// Open creates a database, which the suite closes at its end.
	Open func() D
	// DB returns a handle to delete rows with.
	DB func(D) *sql.DB

	mu   sync.Mutex
	free []D
}

// Take returns a database without rows. It is the case's until the case has ended.
func (p *Pool[D]) Take(t *testing.T) (d D) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		d, p.free = p.free[n-1], p.free[:n-1]
	} else {
		d = p.Open()
	}
	t.Cleanup(func() {
		if !t.Failed() && isEmptied(p.DB(d)) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.free = append(p.free, d)
		}
	})
	return d
}

// longest is the longest file of jobs, in bytes, with which a database is as it was: that of a
// longer one is not shortened, and from 32 MiB on jobs are no longer counted exactly.
const longest = 16 << 20

// isEmptied reports whether db is as it was, which it is not if a case has left a transaction open,
// or many pages. VACUUM removes the dead rows: they slow claims and registrations down, and a
// worker that registers slowly learns of a job later.
func isEmptied(db *sql.DB) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var dead int64
	for _, table := range []string{"sleepers", "schedules", "jobs_archive", "jobs", "rules", "limited_queues", "tokens", "paused_kinds", "workers", "audit", "stats", "dedup"} {
		r, err := db.ExecContext(ctx, `DELETE FROM errand.`+table)
		if err != nil {
			return false
		}
		n, err := r.RowsAffected()
		if err != nil {
			return false
		}
		dead += n
	}
	tables := `errand.sleepers`
	if dead > 1000 {
		tables += `, errand.jobs`
	}
	if _, err := db.ExecContext(ctx, `VACUUM `+tables); err != nil {
		return false
	}
	var size int64
	err := db.QueryRowContext(ctx, `SELECT pg_relation_size('errand.jobs')`).Scan(&size)
	return err == nil && size <= longest
}
