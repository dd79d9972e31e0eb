// Package locks measures, from a session of its own, how long other sessions wait for locks.
package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Wait is the time that a session waited for a lock.
type Wait struct {
	Session string // its application_name
	Query   string // the beginning of its statement
	Lock    string // its kind and what it locks
	Took    time.Duration
}

func (w Wait) String() string {
	return fmt.Sprintf("%s for %v (%s) in %s", w.Session, w.Took.Round(time.Millisecond), w.Lock, w.Query)
}

// Watch reads every few milliseconds which sessions wait for a lock.
type Watch struct {
	conn    *pgx.Conn
	cancel  context.CancelFunc
	done    chan struct{}
	waits   map[string]Wait // by process and beginning
	samples int
	gap     time.Duration
	err     error
}

// waitingSQL lists the sessions that wait now. The server sets waitstart a moment after a wait has
// begun, and servers before 14 never do. Until then a wait counts from the first read that finds
// it.
const waitingSQL = `SELECT a.pid, a.application_name, left(regexp_replace(a.query, '\s+', ' ', 'g'), 60),
	l.mode || ' ' || l.locktype || coalesce(' ' || l.relation::regclass, ''),
	coalesce(extract(epoch FROM clock_timestamp() - %s)::float8, 0), a.query_start::text || l.locktype
	FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE NOT l.granted AND a.datname = current_database()`

// every is the pause between two reads.
const every = 10 * time.Millisecond

// Start watches the database of dsn until Stop.
func Start(ctx context.Context, dsn string) (*Watch, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{conn: conn, cancel: cancel, done: make(chan struct{}), waits: make(map[string]Wait)}
	go w.run(ctx)
	return w, nil
}

func (w *Watch) run(ctx context.Context) {
	defer close(w.done)
	query := fmt.Sprintf(waitingSQL, "l.waitstart")
	first := make(map[string]time.Time)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		if err := w.readLocks(ctx, query, first); err != nil {
			if ctx.Err() == nil {
				w.err = err
			}
			return
		}
		w.samples++
		w.gap = max(w.gap, time.Since(last))
		last = time.Now()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watch) readLocks(ctx context.Context, query string, first map[string]time.Time) error {
	var pid int
	var wait Wait
	var seconds float64
	var began string
	rows, _ := w.conn.Query(ctx, query) // ForEachRow returns the error, too
	_, err := pgx.ForEachRow(rows, []any{&pid, &wait.Session, &wait.Query, &wait.Lock, &seconds, &began}, func() error {
		key := fmt.Sprint(pid, began)
		if first[key].IsZero() {
			first[key] = time.Now()
		}
		wait.Took = max(time.Duration(seconds*float64(time.Second)), time.Since(first[key]), w.waits[key].Took)
		w.waits[key] = wait
		return nil
	})
	return err
}

// Stop ends the watch. It returns all waits that were seen, the number of reads, and the longest
// time between two reads. A wait that was shorter than that time may not have been seen.
func (w *Watch) Stop() (waits []Wait, looks int, gap time.Duration, err error) {
	w.cancel()
	<-w.done
	for _, wait := range w.waits {
		waits = append(waits, wait)
	}
	return waits, w.samples, w.gap, errors.Join(w.err, w.conn.Close(context.Background()))
}
