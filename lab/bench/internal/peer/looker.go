package peer

import (
	"context"
	"database/sql"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/lab/internal/server"
)

// looker asks a database how far a measurement has come, on one connection of its
// own.
type looker struct{ asker }

type asker interface {
	query(ctx context.Context, sql string, into ...any) error
	close() error
}

func (l looker) yes(ctx context.Context, sql string) (answer bool, err error) {
	err = l.query(ctx, sql, &answer)
	return answer, err
}

func (l looker) census(ctx context.Context, sql string) (c Census, err error) {
	err = l.query(ctx, sql, &c.Unsettled, &c.Completed, &c.Failed)
	return c, err
}

// postgresAsker connects when it is first asked. Sequential scans are off there:
// statistics are of the time before the measurement, and would have it read the
// whole table to find that nothing is left.
type postgresAsker struct {
	dsn string

	mu   sync.Mutex
	conn *pgx.Conn
}

func lookAtPostgres(dsn string) looker { return looker{&postgresAsker{dsn: dsn}} }

func (a *postgresAsker) query(ctx context.Context, sql string, into ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		dsn, err := server.WithParameter(a.dsn, "enable_seqscan", "off")
		if err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		a.conn = conn
	}
	return a.conn.QueryRow(ctx, sql).Scan(into...)
}

func (a *postgresAsker) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil
	}
	err := a.conn.Close(context.Background())
	a.conn = nil
	return err
}

// sqliteAsker has a connection of its own, from when it is first asked, so that it is not in the
// way of a system that has only one.
type sqliteAsker struct{ open func() (*sql.DB, error) }

func lookAtSQLite(dsn string) looker {
	return looker{sqliteAsker{sync.OnceValues(func() (*sql.DB, error) { return peer.OpenDB("sqlite", dsn, 1) })}}
}

func (a sqliteAsker) query(ctx context.Context, sql string, into ...any) error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.QueryRowContext(ctx, sql).Scan(into...)
}

func (a sqliteAsker) close() error {
	db, err := a.open()
	if err != nil {
		return err
	}
	return db.Close()
}
