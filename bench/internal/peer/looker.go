package peer

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// looker asks Postgres how far a measurement has come, on one connection of its
// own. Sequential scans are off there: statistics are of the time before the
// measurement, and would have it read the whole table to find that nothing is left.
type looker struct {
	dsn string

	mu   sync.Mutex
	conn *pgx.Conn
}

func (l *looker) query(ctx context.Context, sql string, into ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		conn, err := pgx.Connect(ctx, withParameter(l.dsn, "enable_seqscan", "off"))
		if err != nil {
			return err
		}
		l.conn = conn
	}
	return l.conn.QueryRow(ctx, sql).Scan(into...)
}

func (l *looker) yes(ctx context.Context, sql string) (answer bool, err error) {
	err = l.query(ctx, sql, &answer)
	return answer, err
}

func (l *looker) census(ctx context.Context, sql string) (c Census, err error) {
	err = l.query(ctx, sql, &c.Unsettled, &c.Completed, &c.Failed)
	return c, err
}

func (l *looker) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close(context.Background())
	l.conn = nil
	return err
}
