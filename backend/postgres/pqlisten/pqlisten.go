// Package pqlisten lets a queue on lib/pq listen for notifications.
package pqlisten

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/lib/pq"
)

// New returns a value for the Listen option of package postgres. dsn is the one
// that the database was opened with: lib/pq listens on a connection of its own
// beside the pool's. It does not work through a pooler in transaction mode.
func New(dsn string) func(ctx context.Context, db *sql.DB, channel string, ready func(), notify func(payload string)) error {
	return func(ctx context.Context, _ *sql.DB, channel string, ready func(), notify func(payload string)) error {
		if err := listen(ctx, dsn, channel, ready, notify); err != nil {
			return fmt.Errorf("pqlisten: %w", err)
		}
		return nil
	}
}

const (
	pingEvery         = 15 * time.Second // how often a silent connection is tried for being alive
	shortestReconnect = 50 * time.Millisecond
	longestReconnect  = 5 * time.Second
)

func listen(ctx context.Context, dsn, channel string, ready func(), notify func(payload string)) error {
	l := pq.NewListener(dsn, shortestReconnect, longestReconnect, nil)
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })() // Listen blocks while there is no server
	if err := l.Listen(channel); err != nil {
		return err
	}
	ready()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n, ok := <-l.Notify:
			switch {
			case !ok:
				return ctx.Err()
			case n == nil:
				ready() // lib/pq says that it has reconnected
			default:
				notify(n.Extra)
			}
		case <-ping.C:
			if err := l.Ping(); err != nil {
				return err
			}
		}
	}
}
